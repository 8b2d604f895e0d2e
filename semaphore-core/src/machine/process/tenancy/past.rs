//! What a session had at a place before, for its next turn there.

use crate::election_key::TermIndexes;

/// What a session had at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(in crate::machine) enum Past {
    #[default]
    Nothing,
    /// This term of an election, its last one. No other term may have the same name while the
    /// session lives.
    Term(TermIndexes),
}

impl Past {
    /// The last term that it had.
    pub(in crate::machine) fn term(self) -> Option<TermIndexes> {
        match self {
            Self::Term(term) => Some(term),
            Self::Nothing => None,
        }
    }
}
