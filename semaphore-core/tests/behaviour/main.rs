//! How a semaphore behaves, one file per behaviour, on virtual time against the Consul in memory.
//! This program sends transactions; `by_requests.rs` runs the same tests with separate requests.

#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

/// How the steps of the protocol become requests in this program.
const ENCODING: semaphore_core::Encoding = semaphore_core::Encoding::Transactions;

include!("behaviours.rs");

// What separate requests can't do, or need not.
mod atomic_steps;
mod crowd;
mod crowd_strangers;
mod crowd_support;
mod first_moments;
mod loss_beside_a_write;
mod lost_transactions;
mod passing;
mod refused_transactions;
mod shared_connections;
mod transaction_sizes;

// What is the same in either encoding.
mod connections;
mod error_texts;
mod following;
mod following_by_hand;
mod following_indexes;
mod operation_by_hand;
mod parked_polls;
mod transactions_by_hand;
mod wire;
