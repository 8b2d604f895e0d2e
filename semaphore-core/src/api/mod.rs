//! The part of Consul's HTTP API that the protocol uses, with one file for each request, which
//! builds the request and reads the answer. The machines decide, not this module. `sans_io::api`
//! shows it, with a table.

mod acquire_key;
mod answer;
mod cas_key;
mod create_session;
mod delete_key;
mod destroy_session;
mod entry;
mod list_keys;
mod list_sessions;
mod read_key;
mod register_node;
mod release_key;
mod renew_session;
mod session_info;
mod target;
mod tenancy;
mod txn;
mod txn_answer;

pub(crate) use answer::{
    excerpt, flag, is_denied, is_filtered, is_out_of_service, lacks_index, refusal, trouble,
};
pub(crate) use tenancy::Named;

pub use acquire_key::AcquireKey;
pub use cas_key::CasKey;
pub use create_session::CreateSession;
pub use delete_key::DeleteKey;
pub use destroy_session::DestroySession;
pub use entry::Entry;
pub use list_keys::{KeyList, ListKeys};
pub use list_sessions::{ListSessions, ListedSession};
pub use read_key::ReadKey;
pub use register_node::RegisterNode;
pub use release_key::ReleaseKey;
pub use renew_session::{RenewSession, Renewed};
pub use session_info::{SessionDetails, SessionInfo};
pub use txn::{Operation, Txn};
pub use txn_answer::{Results, TxnFault, TxnFaultKind, TxnOutcome};

/// The flags of a semaphore's keys in HashiCorp's Go client.
pub const SEMAPHORE_FLAGS: u64 = 0xe0f6_9a2b_aa41_4de0;

/// The flags of a lock's key in HashiCorp's Go client (`api.Lock`, `consul lock`). An election's
/// key is such a key.
pub const LOCK_FLAGS: u64 = 0x2ddc_cbc0_58a5_0c18;

#[cfg(test)]
mod examples {
    //! What the examples of the requests share.

    pub(super) const SESSION: &str = "4ca8e74b-6350-7587-addf-a18084928f3c";

    pub(super) fn session() -> crate::SessionId {
        crate::SessionId::new(SESSION).expect("a UUID")
    }

    pub(super) fn line(request: &crate::http::Request) -> String {
        format!("{} {}", request.method(), request.target())
    }
}
