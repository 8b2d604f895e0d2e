//! A Consul in memory, for deterministic tests of code that uses the semaphore.

pub mod consul;
