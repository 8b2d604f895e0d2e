//! Which requests the steps of a protocol become. What they say is each machine's own.
//!
//! Agents before 0.7 have no transactions, and a proxy may allow none: the guide's requests do the same, in more steps.

use crate::api::{Txn, TxnFault, TxnFaultKind, TxnOutcome};
use crate::error::RequestError;
use crate::http::{Request, Response};

/// How the steps of the protocol become requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Encoding {
    /// One transaction for each step (`/v1/txn`). Where an agent refuses them, the participant goes
    /// on with [`Self::Requests`] on its own.
    #[default]
    Transactions,
    /// The guide's separate requests. By these nobody can ask Consul whether the lock delay of a holder that has
    /// vanished is over: a contender that has not seen it alive waits for as long as a lock delay can be, a minute, and an
    /// instant try does not get such a slot until its process has known of it for so long.
    Requests,
}

impl Encoding {
    /// How a request that was made here, or elsewhere, is encoded.
    pub(in crate::machine) fn of(request: &Request) -> Self {
        if request.target().starts_with("/v1/txn") {
            Self::Transactions
        } else {
            Self::Requests
        }
    }

    /// Whether this answer to a transaction says that no such transaction will ever be served. What
    /// is denied in truth is denied to separate requests, too, which tell it better.
    pub(in crate::machine) fn is_refused(response: &Response) -> bool {
        match response.status() {
            200 => return false,
            // A proxy's way to say that there is no such thing here.
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
