//! The targets can fail: with a deliberate defect there is something to find, and the corpus finds
//! it.
#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use semaphore_core::defect::{Defect, switch_on};
use semaphore_fuzz::{Run, TARGETS};

/// Defects that an oracle with one participant can see: requests without a justification, too many
/// requests, and machines that never come to rest. Other defects only show with several
/// participants.
const DEFECTS: &[Defect] = &[
    Defect::PruneWithoutProof,
    Defect::FenceWithoutChange,
    Defect::WriteWithoutCas,
    Defect::GarbageOverwritten,
    Defect::LimitExceeded,
    Defect::WatchStoppedAfterTransient,
    Defect::RetryWithoutBackoff,
    Defect::CancelledClaimGranted,
];

/// This is one test, since a defect affects the whole process.
#[test]
fn each_of_these_defects_is_found_by_an_input_of_the_corpus() {
    let inputs = inputs();
    let mut missed = Vec::new();
    for defect in DEFECTS {
        switch_on(Some(*defect));
        let finder = inputs
            .iter()
            .find(|(run, _, input)| catch_unwind(|| run(input)).is_err());
        switch_on(None);
        match finder {
            Some((_, file, _)) => eprintln!("found: {defect} by {}", file.display()),
            None => missed.push(defect.to_string()),
        }
    }
    assert!(missed.is_empty(), "missed: {missed:?}");
}

fn inputs() -> Vec<(Run, PathBuf, Vec<u8>)> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut inputs = Vec::new();
    for (name, run) in TARGETS {
        let folder = fs::read_dir(corpus.join(name)).expect("a corpus");
        let mut files: Vec<_> = folder
            .map(|entry| entry.expect("an entry").path())
            .collect();
        files.sort();
        let read = |file: PathBuf| {
            let input = fs::read(&file).expect("an input");
            (*run, file, input)
        };
        inputs.extend(files.into_iter().map(read));
    }
    inputs
}
