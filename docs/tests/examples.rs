//! No example of any page is left out of the tests, and none has lines that only rustdoc hides.
#![expect(clippy::expect_used, reason = "these are tests")]

use std::fs;
use std::path::{Path, PathBuf};

use documentation::page::blocks;

#[test]
fn each_page_with_an_example_is_tested() {
    let tested = read(&root().join("docs/src/lib.rs"));
    let mut found = 0;
    for (name, text) in pages() {
        let blocks = blocks(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        // A block that is indented, for instance in a list, would not be found.
        assert_eq!(blocks.len(), text.matches("```rust").count(), "{name}");
        if !blocks.is_empty() {
            let listed = format!("\"{}\"", name.trim_start_matches("docs/"));
            assert!(tested.contains(&listed), "{name}");
            found += blocks.len();
        }
    }
    assert!(found > 20, "{found}");
}

/// Sites that show Markdown show these lines: put them into a scaffold.
#[test]
fn no_line_of_an_example_is_hidden_by_rustdoc_alone() {
    let is_hidden = |line: &str| line == "#" || line.starts_with("# ");
    for (name, text) in pages() {
        for block in blocks(&text).unwrap_or_else(|error| panic!("{name}: {error}")) {
            for (shown, line) in block.shown.iter().zip(block.line..) {
                assert!(!is_hidden(shown.trim()), "{name}:{line}: {shown}");
            }
        }
    }
}

/// Every page of the repository, with its name.
fn pages() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|it| it.to_str()).expect("text");
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "md") {
                let name = path.strip_prefix(root()).expect("a page of ours");
                found.push((name.display().to_string(), read(&path)));
            }
        }
    }
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("a file")
}

fn root() -> PathBuf {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR"));
    docs.parent().expect("a folder").to_owned()
}
