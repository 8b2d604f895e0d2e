//! How much fits into one transaction: at most 64 operations, and at most half a megabyte.
//!
//! Source: Consul's documentation of the transaction endpoint and of `limits.txn_max_req_len`.

use super::Settings;
use crate::api::Txn;
use crate::record::Record;

/// What is left of a transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity {
    operations: usize,
    bytes: usize,
    per_key: usize,
}

impl Capacity {
    /// Beside this record.
    pub(super) fn beside(record: Option<&Record>, settings: &Settings) -> Self {
        let key = settings.prefix.as_str().len() + BESIDE;
        let used = 2 * key + record.map_or(0, |record| encoded(record.bytes_at_most()));
        Self {
            // One for the record, and one for what is read along.
            operations: Txn::MAX_OPERATIONS - 2,
            bytes: Txn::MAX_BYTES.saturating_sub(used),
            per_key: key + encoded(settings.value.as_bytes().len()),
        }
    }

    pub(super) fn operations(&self) -> usize {
        self.operations
    }

    /// Takes this many operations, which add so many names. False if they don't fit.
    pub(super) fn take(&mut self, operations: usize, names: usize) -> bool {
        let bytes = operations * self.per_key + names * BESIDE;
        let fits = operations <= self.operations && bytes <= self.bytes;
        if fits {
            self.operations -= operations;
            self.bytes -= bytes;
        }
        fits
    }

    /// How many slots one write hands over.
    pub(super) fn most_handed_over() -> usize {
        (Txn::MAX_OPERATIONS - 1) / 2
    }

    /// The most permits of one acquisition: each contender takes two operations, and enters.
    pub(super) fn most_permits(settings: &Settings) -> u32 {
        let whole = Self::beside(Some(&Record::new(settings.limit)), settings);
        let by_bytes = whole.bytes / (2 * whole.per_key + BESIDE);
        u32::try_from((whole.operations / 2).min(by_bytes)).unwrap_or(u32::MAX)
    }
}

/// More than everything that is not a value or a prefix takes in an operation, and more than a name
/// takes in a record.
const BESIDE: usize = 512;

/// The length of a value in a transaction, in base 64.
fn encoded(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}
