//! What a session had in elections, which matters as long as it lives: no two terms of an election may
//! have the same name.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::machine::process::tenancy::loan::Rest;
use crate::machine::process::tenancy::past::Past;
use crate::machine::process::tenancy::tenant::Place;

#[derive(Clone, Debug, Default)]
pub(super) struct FormerTerms(BTreeMap<Place, FormerTerm>);

#[derive(Clone, Copy, Debug)]
enum FormerTerm {
    Last(Past),
    /// Its terms are counted again there, so a name could be used twice.
    Spent,
}

/// The most elections in which one session leads, so that its memory doesn't grow for ever.
const MOST: usize = 20_000;

impl FormerTerms {
    /// Remembers what an ended turn had at this place.
    pub(super) fn remember(&mut self, place: &Place, past: Past, rest: Rest) {
        let term = match past {
            _ if rest == Rest::Place => FormerTerm::Spent,
            Past::Nothing => return,
            Past::Term(_) => FormerTerm::Last(past),
        };
        self.0.insert(Arc::clone(place), term);
    }

    pub(super) fn at(&self, place: &Place) -> Past {
        match self.0.get(place) {
            Some(FormerTerm::Last(past)) => *past,
            _ => Past::Nothing,
        }
    }

    pub(super) fn is_spent_at(&self, place: &Place) -> bool {
        matches!(self.0.get(place), Some(FormerTerm::Spent))
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= MOST
    }
}
