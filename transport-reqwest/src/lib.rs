//! The semaphore on tokio, with reqwest.
