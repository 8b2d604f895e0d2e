//! How semaphores and elections behave, on virtual time against the Consul in memory: one folder per promise, one
//! file per behaviour.
//! This program sends transactions; `by_requests.rs` runs the same tests with separate requests.

#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

/// How this program encodes the steps of the protocol.
const ENCODING: semaphore_core::Encoding = semaphore_core::Encoding::Transactions;

mod client;
mod cost;
mod election;
mod failures;
mod follow;
mod lease;
mod machine;
mod queue;
mod record;
mod support;
mod turn;
mod watched;

// What separate requests can't do or need not do, and what is the same in both encodings.
#[path = "client"]
mod client_once {
    mod next_semaphores;
    mod reads;
    pub(crate) mod together;
    mod waits;
}
#[path = "turn"]
mod turn_once {
    mod operations_without_namespace;
    mod passing;
}
#[path = "queue"]
mod queue_once {
    mod crowd;
    pub(crate) mod crowd_members;
    mod crowd_strangers;
}
#[path = "lease"]
mod lease_once {
    mod first_moments;
    mod loss_beside_a_write;
    mod room_after_silence;
    mod session_of_the_turn_before;
}
#[path = "failures"]
mod failures_once {
    mod error_texts;
    mod errors;
    mod lost_transactions;
    mod refused_transactions;
    mod without_index;
}
#[path = "record"]
mod record_once {
    mod atomic_steps;
    mod lost_state;
    mod transaction_sizes;
}
#[path = "election"]
mod election_once {
    mod elected_late;
    mod late_attempts;
    mod shared_reads;
    pub(crate) mod shared_sessions;
    mod spread;
    mod standby;
}
#[path = "follow"]
mod follow_once {
    mod by_hand;
    mod changes;
    mod ends;
    mod indexes;
    mod many_keys;
    mod shared;
}
#[path = "machine"]
mod machine_once {
    mod operation_by_hand;
    mod transactions_by_hand;
}
#[path = "watched"]
mod watched_once {
    mod doubled_writes;
    mod figures;
    mod levels;
    pub(crate) mod log;
    mod outages;
    mod token_files;
}
#[path = "cost"]
mod cost_once {
    mod connections;
    mod dear_lists;
    mod many_permits;
    mod parked_polls;
    mod shared_connections;
    mod throughput;
    pub(crate) mod wire;
}
