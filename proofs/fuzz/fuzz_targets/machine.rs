//! See [`semaphore_fuzz::machine`].
#![cfg_attr(fuzzing, no_main)]

semaphore_fuzz::entry!(machine);
