//! Makes a test of each example that needs an agent: of each Rust block that is marked `no_run` and names an agent's address.
//! The test runs the block as it is printed, with the address of the test's agent instead.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

/// The files that have such examples.
const FILES: [&str; 2] = ["../README.md", "guides/BLOCKING.md"];

/// What a reader replaces by the address of the agent at hand.
const ADDRESS: &str = "\"http://127.0.0.1:8500\"";

fn main() -> Result<(), Box<dyn Error>> {
    let mut tests = String::new();
    for file in FILES {
        println!("cargo::rerun-if-changed={file}");
        let text = fs::read_to_string(file)?;
        for (line, code) in blocks(&text) {
            if code.contains(ADDRESS) {
                tests += &test(file, line, &code.replace(ADDRESS, "crate::agent()"));
            }
        }
    }
    let out = env::var("OUT_DIR")?;
    fs::write(Path::new(&out).join("examples.rs"), tests)?;
    Ok(())
}

/// The Rust blocks that are not run as documentation tests, each with the number of its first line. The mark of hidden lines is
/// taken away.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line == "```rust,no_run" {
            let inside = lines.by_ref().map(|(_, line)| line);
            let code = inside.take_while(|line| *line != "```").map(|line| {
                let shown = line.strip_prefix("# ").unwrap_or(line);
                format!("{}\n", if shown == "#" { "" } else { shown })
            });
            found.push((number + 2, code.collect()));
        }
    }
    found
}

fn test(file: &str, line: usize, code: &str) -> String {
    let letters = file.trim_end_matches(".md").to_lowercase();
    let name: String = letters
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    format!(
        "#[allow(clippy::all, clippy::pedantic, unused)]\nmod {name}_{line} {{\n{code}\n#[test]\nfn runs_as_it_is_printed() {{\n    \
         main().expect(\"it ends well\");\n}}\n}}\n"
    )
}
