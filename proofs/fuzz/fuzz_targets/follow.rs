//! See [`semaphore_fuzz::follow`].
#![cfg_attr(fuzzing, no_main)]

semaphore_fuzz::entry!(follow);
