//! See [`semaphore_fuzz::record`].
#![cfg_attr(fuzzing, no_main)]

semaphore_fuzz::entry!(record);
