//! What a read of the whole prefix costs, beside what is needed of it.

use crate::view::View;

/// What a read of the whole prefix costs, as the last one has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Listing {
    /// Hardly more than is needed.
    #[default]
    Cheap,
    /// Most of it is values of contenders or keys of others, or it is larger than the transport takes.
    Dear,
}

impl Listing {
    /// Of a list that had so many bytes, and showed this.
    pub(in crate::machine) fn of(bytes: usize, view: &View) -> Self {
        let holders = view.record().map_or(0, |record| record.holders().len());
        let keys = view.contenders().len() + view.orphans().len();
        if bytes > keys * BYTES_OF_KEY + holders * BYTES_OF_HOLDER + MOST_BESIDE {
            Self::Dear
        } else {
            Self::Cheap
        }
    }
}

/// How long the entry of a contender key is, with a short value and in whatever way it is printed, and a holder in the record.
const BYTES_OF_KEY: usize = 512;
const BYTES_OF_HOLDER: usize = 64;

/// A list with so much beside these costs less than the requests that it saves.
const MOST_BESIDE: usize = 32 * 1024;
