//! How much one write of the record has room for.
//!
//! | [`Company`] | callers | operations besides the record's | newcomers |
//! |---|---|---|---|
//! | others | at most 62 | 62, with large values fewer | enter with it |
//! | nobody | at most 1,024 | none | enter before it |
//!
//! Sources: `docs/CONSUL.md`, "Limits and timeouts" (the size of a transaction);
//! [`FencingToken`] (the number of callers).

use crate::api::Txn;
use crate::id::FencingToken;
use crate::machine::semaphore::settings::Settings;
use crate::record::Record;

/// What is written together with the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Company {
    /// The keys of those whom it names or leaves out.
    Others,
    /// Nothing: it is too large, or they are too many, for one transaction.
    Nobody,
}

impl Company {
    /// Of a write of this record, if it may have others, after one with this company. While the
    /// record is so large that a full transaction has no room for it, it stays alone: otherwise it
    /// would be written for the few who fit, again and again, and the many who have entered would
    /// be sent away.
    pub(super) fn then(self, record: &Record, settings: &Settings) -> Self {
        let steps = most_steps(settings);
        let has_room = || {
            certainly_fits(record, steps, settings)
                || bytes(record.encode().len(), steps, settings) <= Txn::MAX_BYTES
        };
        if self == Self::Nobody && !has_room() {
            Self::Nobody
        } else {
            Self::Others
        }
    }

    /// The most callers whom a write admits.
    pub(super) fn callers(self) -> usize {
        match self {
            Self::Others => MAX_STEPS,
            Self::Nobody => FencingToken::MOST_OF_A_WRITE.into(),
        }
    }

    /// How many operations may follow from whom it admits. A contender that claims or enters also
    /// sends its value.
    pub(super) fn steps(self, settings: &Settings) -> usize {
        match self {
            Self::Others => most_steps(settings),
            Self::Nobody => usize::MAX,
        }
    }

    /// Whether contenders may enter by it.
    pub(super) fn has_newcomers(self) -> bool {
        self == Self::Others
    }
}

/// Whether a record certainly fits one transaction with this number of other operations.
pub(super) fn certainly_fits(record: &Record, steps: usize, settings: &Settings) -> bool {
    steps <= MAX_STEPS && bytes(record.bytes_at_most(), steps, settings) <= Txn::MAX_BYTES
}

/// The length, at most, of a transaction of a record of this length and of this number of other
/// operations.
fn bytes(record: usize, steps: usize, settings: &Settings) -> usize {
    encoded(record) + (1 + steps) * bytes_of_step(settings)
}

/// How many operations may accompany a write of the record in one transaction.
pub(super) fn most_steps(settings: &Settings) -> usize {
    MAX_STEPS.min(Txn::MAX_BYTES / 2 / bytes_of_step(settings))
}

/// A value, encoded, with the key, the session and their names.
fn bytes_of_step(settings: &Settings) -> usize {
    let prefix = settings.prefix.as_str().len();
    encoded(settings.value.as_bytes().len()) + prefix + 512
}

/// The length of a value in a transaction.
fn encoded(bytes: usize) -> usize {
    bytes.saturating_mul(4) / 3
}

/// The most operations of a transaction, without the record's and a read of the prefix.
pub(super) const MAX_STEPS: usize = Txn::MAX_OPERATIONS - 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fixture::settings;

    #[test]
    fn no_write_admits_more_callers_than_tokens_can_number() {
        for company in [Company::Others, Company::Nobody] {
            assert!(company.callers() <= FencingToken::MOST_OF_A_WRITE.into());
        }
    }

    /// A record of 8,600 holders has room for a few others, but not for all.
    #[test]
    fn a_record_stays_alone_until_it_has_room_for_a_full_transaction() {
        let settings = settings();
        for (holders, expected) in [(8_000, Company::Others), (8_600, Company::Nobody)] {
            let mut record = Record::new(10_000);
            for holder in 0..holders {
                record.add(&format!("{holder:08x}-0000-0000-0000-000000000000"));
            }
            assert_eq!(Company::Nobody.then(&record, &settings), expected);
            assert_eq!(Company::Others.then(&record, &settings), Company::Others);
        }
    }
}
