//! See [`semaphore_fuzz::operations`].
#![cfg_attr(fuzzing, no_main)]

semaphore_fuzz::entry!(operations);
