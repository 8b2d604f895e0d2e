//! See [`semaphore_fuzz::election_pace`].
#![cfg_attr(fuzzing, no_main)]

semaphore_fuzz::entry!(election_pace);
