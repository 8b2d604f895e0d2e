//! See [`semaphore_fuzz::inputs`].
#![cfg_attr(fuzzing, no_main)]

semaphore_fuzz::entry!(inputs);
