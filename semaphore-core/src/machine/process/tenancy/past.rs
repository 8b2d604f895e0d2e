//! What a session had at a place before, for the next turn that it serves there.

use crate::election_key::TermIndexes;
use crate::id::Index;

/// What a session had at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(in crate::machine) enum Past {
    #[default]
    Nothing,
    /// A contender key that was created then, and is deleted. A view may show it for a moment longer.
    Key(Index),
    /// This term of an election, its last one. No other term may have the same name, as long as the session lives.
    Term(TermIndexes),
}

impl Past {
    /// When the contender key was created that it had; zero where it had none.
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
