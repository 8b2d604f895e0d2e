//! How much one write of the record has room for.
//!
//! A claim takes two operations, a pruned holder and a key that is deleted one each, beside the
//! record's operation and a read of the prefix.
//!
//! Sources: `docs/CONSUL.md`, "Limits and timeouts" (the size of a transaction).

use crate::api::Txn;
use crate::machine::semaphore::settings::Settings;
use crate::record::Record;

/// The most operations of a transaction, without the record's and a read of the prefix.
pub(super) const MAX_STEPS: usize = Txn::MAX_OPERATIONS - 2;

/// How many operations fit into one transaction beside this record. Each
/// may add a holder to it.
pub(super) fn room_beside(record: &Record, settings: &Settings) -> usize {
    let prefix = settings.prefix.as_str().len();
    // A value with the key, the session, a holder, and their names.
    let step = encoded(settings.value.as_bytes().len()) + prefix + BESIDE;
    let used = encoded(record.bytes_at_most()) + 2 * (prefix + BESIDE);
    MAX_STEPS.min(Txn::MAX_BYTES.saturating_sub(used) / step)
}

/// The most permits of one acquisition: as many as fit beside a record without holders.
pub(super) fn most_permits(settings: &Settings) -> u32 {
    let room = room_beside(&Record::new(settings.limit), settings);
    u32::try_from(room / 2).unwrap_or(u32::MAX)
}

/// More than everything that is not a value or a prefix takes in an operation.
const BESIDE: usize = 512;

/// The length of a value in a transaction, in base 64.
fn encoded(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}
