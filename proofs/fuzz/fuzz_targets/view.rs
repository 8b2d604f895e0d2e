//! See [`semaphore_fuzz::view`].
#![cfg_attr(fuzzing, no_main)]

semaphore_fuzz::entry!(view);
