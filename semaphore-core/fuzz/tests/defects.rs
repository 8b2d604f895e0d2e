//! The targets can fail: in builds with `--cfg semaphore_defects`, what they look for is there to be
//! found, and the corpus reaches it.
#![cfg(semaphore_defects)]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use semaphore_core::defect::{Defect, switch_on};
use semaphore_fuzz::TARGETS;

const DEFECTS: &[Defect] = Defect::ALL;

/// One test: a defect is on in the whole process.
#[test]
fn each_of_these_defects_is_found_by_an_input_of_the_corpus() {
    let missed: Vec<_> = DEFECTS
        .iter()
        .filter(|defect| {
            switch_on(Some(**defect));
            let finder = inputs().into_iter().find(|(name, input)| {
                let (_, run) = TARGETS
                    .iter()
                    .find(|(known, _)| known == name)
                    .expect("a target");
                catch_unwind(AssertUnwindSafe(|| run(input))).is_err()
            });
            switch_on(None);
            eprintln!(
                "{defect}: {}",
                finder.as_ref().map_or("missed", |(name, _)| name)
            );
            finder.is_none()
        })
        .collect();
    assert!(missed.is_empty(), "{missed:?}");
}

fn inputs() -> Vec<(&'static str, Vec<u8>)> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut inputs = Vec::new();
    for name in ["machine", "pace", "operations"] {
        let folder = fs::read_dir(corpus.join(name)).expect("a corpus");
        let mut files: Vec<_> = folder
            .map(|entry| entry.expect("an entry").path())
            .collect();
        files.sort();
        inputs.extend(
            files
                .iter()
                .map(|file| (name, fs::read(file).expect("an input"))),
        );
    }
    inputs
}
