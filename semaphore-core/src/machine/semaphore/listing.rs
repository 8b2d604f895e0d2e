//! The cost of reading the whole prefix, compared with what is needed.

use crate::view::View;

/// The cost of reading the whole prefix, according to the last read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Listing {
    /// Hardly more than needed.
    #[default]
    Cheap,
    /// Most of it is values of contenders or foreign keys, or it is larger than the transport
    /// accepts.
    Dear,
}

impl Listing {
    /// For a list with this number of bytes and this view.
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

/// The length of a contender key's entry with a short value, in any format, plus its holder in the
/// record.
const BYTES_OF_KEY: usize = 512;
const BYTES_OF_HOLDER: usize = 64;

/// A list with this much more costs less than the requests that it saves.
const MOST_BESIDE: usize = 32 * 1024;
