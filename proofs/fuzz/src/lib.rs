//! Fuzz targets for `semaphore-core`: all external input, in any shape and any order.
//!
//! | target | feeds | looks for |
//! |---|---|---|
//! | [`answers`] | any bytes as the answer to each request | a panic, an error that does not fit in a log's line |
//! | [`record`] | any bytes as the value of `.lock` | what is misread, or not written back as it was found (S4) |
//! | [`view`] | made-up lists of a prefix | contenders or holders that a plain reading of the list doesn't show |
//! | [`inputs`] | what people type: prefixes, URLs, names, variables, sequencers | what is accepted and then sent otherwise than it was meant |
//! | [`operations`] | a mangled Consul, to `manage`'s operations | writes that no answer justifies (S4), operations without end or pace (L3) |
//! | [`machine`] | a mangled Consul, to a `Participant`, with any commands at any times | writes that no answer justifies (S3, S4), endless polls, growth, what never becomes idle (L2) |
//! | [`pace`] | a Consul that goes on giving the same odd answers | more requests than the ceiling (L3) |
//! | [`election`] | a mangled Consul, to a `Candidate`, with any commands at any times | writes other than `acquire` and `release` by its own sessions, a leadership that no answer shows, what never becomes idle (L2) |
//! | [`follow`] | a mangled Consul, to a `Follow` | more requests than the ceiling (L3), events that say nothing new, what is never shown |
//! | [`election_pace`] | a Consul that goes on giving the same odd answers, to a candidate or a follower | more requests than the ceiling (L3) |
//!
//! All targets that drive machines also look for belief without a lease (S2), and for the token in
//! what is reported.
//!
//! A target is a function of bytes that panics when it has found something. [`TARGETS`] lists them.
//! `scripts/fuzz` builds each with `libFuzzer` (the binaries in `fuzz_targets`, with the names and
//! places that `cargo fuzz` expects). The test `corpus` runs each with the inputs in `corpus`.
//! Built without `--cfg fuzzing`, a binary runs the given files:
//! `cargo run -p semaphore-fuzz --bin machine -- FILE …` shows a finding on any toolchain.
#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a target tells what it has found by a panic"
)]

use std::path::PathBuf;
use std::process::ExitCode;

pub mod answers;
mod ceiling;
mod choices;
mod drive;
pub mod election;
pub mod election_pace;
pub mod follow;
mod habit;
mod habits;
pub mod inputs;
mod key_oracle;
mod lease;
pub mod machine;
mod mangle;
pub mod operations;
mod oracle;
pub mod pace;
pub mod record;
mod stranger;
mod subject;
mod transaction;
pub mod view;

/// Panics when it finds something.
pub type Run = fn(&[u8]);

/// Every target by its name.
pub const TARGETS: &[(&str, Run)] = &[
    ("answers", answers::run),
    ("record", record::run),
    ("view", view::run),
    ("inputs", inputs::run),
    ("operations", operations::run),
    ("machine", machine::run),
    ("pace", pace::run),
    ("election", election::run),
    ("follow", follow::run),
    ("election_pace", election_pace::run),
];

/// The prefix of the fuzzed semaphore.
pub(crate) const PREFIX: &str = "service/db";

/// The entry point of a target's binary: that of the fuzzer, or one that runs files.
#[macro_export]
macro_rules! entry {
    ($target:ident) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|input: &[u8]| $crate::$target::run(input));

        #[cfg(not(fuzzing))]
        fn main() -> std::process::ExitCode {
            $crate::replay($crate::$target::run, std::env::args_os().skip(1))
        }
    };
}

/// Runs a target on each of these files.
pub fn replay(run: Run, files: impl Iterator<Item = impl Into<PathBuf>>) -> ExitCode {
    for file in files.map(Into::into) {
        match std::fs::read(&file) {
            Ok(input) => run(&input),
            Err(error) => {
                eprintln!("{}: {error}", file.display());
                return ExitCode::FAILURE;
            }
        }
        eprintln!("{}: nothing found", file.display());
    }
    ExitCode::SUCCESS
}
