//! The semaphore on plain threads and on smol, with ureq.
