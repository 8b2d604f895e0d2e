//! How a semaphore behaves, one file per behaviour, on virtual time against the Consul in memory.

mod acquire;
mod host;
mod limit;
mod seeded_chaos;
mod support;
