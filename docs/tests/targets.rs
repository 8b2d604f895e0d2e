//! Cargo builds no test program for a library or program with `test = false`. So it has no tests.
#![expect(clippy::expect_used, reason = "these are tests")]

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn no_target_that_is_left_out_of_the_tests_has_any() {
    let mut left_out = 0;
    for manifest in found(root(), &|path| path.ends_with("Cargo.toml")) {
        let package = manifest.parent().expect("a folder");
        let text = read(&manifest);
        let is_left_out = |target: &&str| {
            let is_built = target.starts_with("lib]") || target.starts_with("[bin]]");
            is_built && target.contains("\ntest = false")
        };
        for target in text.split("\n[").filter(is_left_out) {
            for source in sources(package, target) {
                let has_tests = read(&source).contains("#[cfg(test)]");
                assert!(!has_tests, "{}", source.display());
            }
            left_out += 1;
        }
    }
    assert!(left_out > 20, "{left_out}");
}

/// The files of this target: a library's are all but the programs', a program's are its file, or its
/// folder if that is its own.
fn sources(package: &Path, target: &str) -> Vec<PathBuf> {
    let src = package.join("src");
    let path = target.split_once("\npath = \"");
    let path = path.and_then(|(_, path)| path.split('"').next());
    let Some(path) = path.map(|path| package.join(path)) else {
        assert!(
            target.starts_with("lib]"),
            "a program without a path: {target}"
        );
        let is_of_program =
            |it: &Path| it.ends_with("src/main.rs") || it.starts_with(src.join("bin"));
        return found(&src, &|it| has_code(it) && !is_of_program(it));
    };
    let folder = path.parent().filter(|folder| {
        path.ends_with("main.rs") && (*folder != src || !src.join("lib.rs").exists())
    });
    folder.map_or_else(|| vec![path.clone()], |it| found(it, &has_code))
}

fn has_code(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "rs")
}

/// All files below a folder of ours that are like this.
fn found(folder: &Path, is_wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found_here = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|it| it.to_str()).expect("text");
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            found_here.extend(found(&path, is_wanted));
        } else if is_wanted(&path) {
            found_here.push(path);
        }
    }
    found_here
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("a file")
}

fn root() -> &'static Path {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR"));
    docs.parent().expect("a folder")
}
