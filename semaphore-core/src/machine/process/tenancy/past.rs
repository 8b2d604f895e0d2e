//! What a session had at a place before, for its next turn there.

use crate::election_key::TermIndexes;
use crate::id::Index;

/// What a session had at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(in crate::machine) enum Past {
    #[default]
    Nothing,
    /// A contender key with this creation index, which was deleted. A view may show it for a moment
    /// longer.
    Key(Index),
    /// This term of an election, its last one. No other term may have the same name while the
    /// session lives.
    Term(TermIndexes),
}

impl Past {
    /// The creation index of its former contender key; zero if it had none.
    pub(in crate::machine) fn key(self) -> Index {
        match self {
            Self::Key(created) => created,
            Self::Nothing | Self::Term(_) => Index::ZERO,
        }
    }

    /// The last term that it had.
    pub(in crate::machine) fn term(self) -> Option<TermIndexes> {
        match self {
            Self::Term(term) => Some(term),
            Self::Nothing | Self::Key(_) => None,
        }
    }
}
