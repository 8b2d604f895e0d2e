//! The kind of requests that the steps of a protocol become. Each machine decides their content.
//!
//! Agents before 0.7 have no transactions, and a proxy may not allow them. The guide's requests do
//! the same, in more steps.

use crate::api::{Txn, TxnFault, TxnFaultKind, TxnOutcome};
use crate::error::RequestError;
use crate::http::{Request, Response};

/// How the steps of the protocol become requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Encoding {
    /// One transaction for each step (`/v1/txn`). If an agent refuses transactions, the participant
    /// changes to [`Self::Requests`].
    #[default]
    Transactions,
    /// The guide's separate requests. With them nobody can ask Consul whether the lock delay of a
    /// vanished holder is over. If a contender has not seen the holder alive, it waits for the
    /// longest possible lock delay, a minute. An instant try does not get such a slot before its
    /// process has known of it for that time.
    Requests,
}

impl Encoding {
    /// The encoding of a request from here or elsewhere.
    pub(in crate::machine) fn of(request: &Request) -> Self {
        if request.target().starts_with("/v1/txn") {
            Self::Transactions
        } else {
            Self::Requests
        }
    }

    /// Whether this answer to a transaction says that transactions will never be served. A real
    /// denial also affects separate requests, which report it better.
    pub(in crate::machine) fn is_refused(response: &Response) -> bool {
        match response.status() {
            200 => return false,
            // A proxy's answer to an unsupported request.
            501 => return true,
            _ => {}
        }
        match Txn::parse(response) {
            Ok(TxnOutcome::RolledBack(faults)) => {
                let is_refusal =
                    |it: &TxnFault| matches!(it.kind, TxnFaultKind::Denied | TxnFaultKind::Other);
                faults.iter().any(is_refusal)
            }
            Ok(TxnOutcome::Applied(_)) | Err(RequestError::InvalidSession { .. }) => false,
            Err(error) => error.is_permanent(),
        }
    }
}
