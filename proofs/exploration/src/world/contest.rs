//! The contest as it is stored in Consul: one key, and the sessions that it names.

use judge::Record;
use semaphore_core::sans_io::api::LOCK_FLAGS;
use semaphore_core::sans_io::{Method, Request};
use transport_mock::consul::Entry;

use super::agent::{LEADER, LOCK};
use super::transaction::Transaction;
use crate::scene::Contest;

impl Contest {
    /// The key that says who holds.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Semaphore => LOCK,
            Self::Election => LEADER,
        }
    }

    /// The sessions that the key names. `None` if it can't be understood.
    pub(super) fn holders(self, entry: &Entry) -> Option<Vec<String>> {
        match self {
            Self::Semaphore => {
                let record = Record::read(entry.value(), entry.flags())?;
                Some(record.holders().map(str::to_owned).collect())
            }
            Self::Election => {
                let session = entry.session().map(str::to_owned);
                (entry.flags() == LOCK_FLAGS).then(|| session.into_iter().collect())
            }
        }
    }

    /// The limit in the key. `None` if it can't be understood.
    pub(super) fn limit(self, entry: &Entry) -> Option<u32> {
        match self {
            Self::Semaphore => {
                let record = Record::read(entry.value(), entry.flags())?;
                Some(record.limit())
            }
            Self::Election => Some(1),
        }
    }

    /// Whether the request changes the key without checking its state. That is any write of the
    /// record except check-and-set, and any write of an election's key except `acquire` and
    /// `release`.
    pub(super) fn is_plain_write(self, request: &Request) -> bool {
        let target = request.target();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if let Some(transaction) = Transaction::of(request) {
            return match self {
                Self::Semaphore => transaction.writes_plainly(self.key(), &["cas"]),
                Self::Election => transaction.writes_plainly(self.key(), &["lock", "unlock"]),
            };
        }
        let of_key = request.method() != Method::Get && path == format!("/v1/kv/{}", self.key());
        let has = |name: &str| query.split('&').any(|pair| pair.starts_with(name));
        let is_checked = match self {
            Self::Semaphore => has("cas="),
            Self::Election => has("acquire=") || has("release="),
        };
        of_key && !(is_checked && request.method() == Method::Put)
    }
}
