//! Inputs of the fuzzer that are worth keeping, and random bytes, with any toolchain.

use std::fs;
use std::path::Path;

use fastrand::Rng;
use semaphore_fuzz::TARGETS;

#[test]
fn no_input_of_the_corpus_finds_anything() {
    for (name, run) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(name);
        let mut files: Vec<_> = fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.expect("an entry").path())
            .collect();
        files.sort();
        assert!(!files.is_empty(), "{} is empty", folder.display());
        for file in files {
            // This line appears if something below panics.
            eprintln!("{}", file.display());
            run(&fs::read(&file).expect("an input"));
        }
    }
}

#[test]
fn no_bytes_at_random_find_anything() {
    for (name, run) in TARGETS {
        for seed in 0..200 {
            eprintln!("{name}, seed {seed}");
            let mut rng = Rng::with_seed(seed);
            let input: Vec<_> = (0..rng.usize(..2_048)).map(|_| rng.u8(..)).collect();
            run(&input);
        }
    }
}
