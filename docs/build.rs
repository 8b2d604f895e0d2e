//! Prepares the code of README and guides for its tests, in `OUT_DIR`:
//! - each page that has Rust blocks, with the code around them, for the documentation tests of `src/lib.rs`
//! - a test of each example that needs an agent, for `tests/on_an_agent.rs`: of each block that is marked `no_run` and names an
//!   agent's address, or reads the environment. The test runs the block as it is printed, with the address of the test's agent
//!   instead, or with an environment that names an agent with ACLs and a token.

#[path = "src/page.rs"]
#[expect(unreachable_pub, reason = "the tests of this package use it, too")]
mod page;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

use page::{Block, ScaffoldError};

/// What a reader replaces by the address of the agent at hand.
const ADDRESS: &str = "\"http://127.0.0.1:8500\"";

/// What a program calls to find its agent.
const ENVIRONMENT: &str = "::from_env()";

/// A page that can't be prepared.
#[derive(Debug, thiserror::Error)]
#[error("{}: {cause}", .file.display())]
struct PageError {
    file: PathBuf,
    #[source]
    cause: ScaffoldError,
}

fn main() -> ExitCode {
    match prepare() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("cargo::error={error}");
            ExitCode::FAILURE
        }
    }
}

fn prepare() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=../README.md");
    println!("cargo::rerun-if-changed=.");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("no OUT_DIR: run this by cargo")?);
    fs::create_dir_all(out.join("guides"))?;
    let mut tests = String::new();
    for file in pages()? {
        let text = fs::read_to_string(&file)?;
        let blocks = page::blocks(&text).map_err(|cause| PageError {
            file: file.clone(),
            cause,
        })?;
        if blocks.is_empty() {
            continue;
        }
        let name = file.strip_prefix("..").unwrap_or(&file);
        fs::write(out.join(name), page::tested(&blocks))?;
        tests.extend(blocks.iter().filter_map(|block| test(name, block)));
    }
    fs::write(out.join("examples.rs"), tests)?;
    Ok(())
}

/// README and guides, as seen from the folder of this package.
fn pages() -> io::Result<Vec<PathBuf>> {
    let mut found = vec![PathBuf::from("../README.md")];
    for folder in ["", "guides"] {
        for entry in fs::read_dir(Path::new(".").join(folder))? {
            let file = Path::new(folder).join(entry?.file_name());
            if file.extension().is_some_and(|it| it == "md") {
                found.push(file);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The test of this block, if it needs an agent.
fn test(file: &Path, block: &Block<'_>) -> Option<String> {
    let code = block.code();
    if block.mark != "rust,no_run" {
        return None;
    }
    let run = match (code.contains(ADDRESS), code.contains(ENVIRONMENT)) {
        (true, _) => "fn runs_as_it_is_printed() {\n    main().expect(\"it ends well\");\n}",
        (_, true) => {
            "fn runs_by_the_environment_alone() {\n    crate::in_child(|| main().expect(\"it ends well\"));\n}"
        }
        _ => return None,
    };
    let code = code.replace(ADDRESS, "crate::agent()");
    let letters = file.with_extension("").display().to_string();
    let letters = letters.to_lowercase();
    let name: String = letters
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    let line = block.line;
    Some(format!(
        "#[allow(clippy::all, clippy::pedantic, unused)]\nmod {name}_{line} {{\n{code}\n#[test]\n{run}\n}}\n"
    ))
}
