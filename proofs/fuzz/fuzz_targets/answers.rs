//! See [`semaphore_fuzz::answers`].
#![cfg_attr(fuzzing, no_main)]

semaphore_fuzz::entry!(answers);
