//! See [`semaphore_fuzz::pace`].
#![cfg_attr(fuzzing, no_main)]

semaphore_fuzz::entry!(pace);
