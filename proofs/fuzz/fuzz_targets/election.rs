//! See [`semaphore_fuzz::election`].
#![cfg_attr(fuzzing, no_main)]

semaphore_fuzz::entry!(election);
