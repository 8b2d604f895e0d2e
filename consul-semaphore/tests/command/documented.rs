//! The commands in the README and the guides work as printed.
//!
//! The commands of this program are run, in the order of each file, on a new agent. For cargo and
//! the scripts only the names are checked: CI runs them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use real_agent::Agent;
use serde_json::Value as Json;

use crate::support::send;

/// What the reader of a guide has: the program, a command to run with it, and a folder.
struct Reader {
    agent: Agent,
    folder: tempfile::TempDir,
}

#[test]
fn commands_of_this_program_do_what_the_text_says() {
    let mut ran = 0;
    for file in ["README.md", "docs/OPERATORS.md", "docs/FROM-CONSUL-LOCK.md"] {
        let reader = Reader::new();
        for command in commands(&read(file)) {
            if ["consul-semaphore", "consul-lock", "ln"].contains(&program(&command)) {
                reader.run(&command);
                ran += 1;
            }
        }
    }
    assert!(ran > 8, "{ran}");
}

#[test]
fn scripts_and_packages_exist() {
    let metadata = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let metadata: Json = serde_json::from_slice(&metadata.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let names = |of: &Json| of["name"].as_str().unwrap_or_default().to_owned();
    let mut looked_up = 0;
    for (file, text) in documents() {
        for command in commands(&text).into_iter().chain(inline(&text)) {
            let words: Vec<&str> = command.split_whitespace().collect();
            let after = |option: &str| {
                let at = words.iter().position(|word| *word == option)?;
                let name = words.get(at + 1).copied();
                // Words in capitals stand for the reader's own values.
                name.filter(|name| !name.chars().all(char::is_uppercase))
            };
            let name = program(&command);
            if let Some(script) = name.strip_prefix("scripts/") {
                let path = root().join("scripts").join(script);
                assert!(path.is_file(), "{file}: {command}");
                looked_up += 1;
            }
            if name != "cargo" {
                continue;
            }
            if let Some(package) = after("-p").or(after("--package")) {
                let found = packages.iter().find(|it| names(it) == package);
                let found = found.unwrap_or_else(|| panic!("{file}: {command}"));
                let targets = found["targets"].as_array().expect("targets");
                let has = |name: &str| targets.iter().any(|it| names(it) == name);
                for option in ["--bin", "--bench", "--test"] {
                    assert!(after(option).is_none_or(has), "{file}: {command}");
                }
                looked_up += 1;
            }
            if let Some(path) = after("--path") {
                assert!(
                    root().join(path).join("Cargo.toml").is_file(),
                    "{file}: {command}"
                );
                looked_up += 1;
            }
        }
    }
    assert!(looked_up > 20, "{looked_up}");
}

impl Reader {
    fn new() -> Self {
        let reader = Self {
            agent: Agent::start().expect("an agent"),
            // With a space, as a path of the user's may have one.
            folder: tempfile::Builder::new()
                .prefix("a reader ")
                .tempdir()
                .expect("a folder"),
        };
        fs::create_dir(reader.programs()).expect("a folder");
        let program = reader.programs().join("consul-semaphore");
        symlink(env!("CARGO_BIN_EXE_consul-semaphore"), program).expect("a link");
        let backup = reader.programs().join("backup");
        fs::write(&backup, "#!/bin/sh\n[ \"$*\" = --all ]\n").expect("a script");
        fs::set_permissions(&backup, PermissionsExt::from_mode(0o755)).expect("a program");
        reader
    }

    fn programs(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    /// Runs a line of a shell, and compares its end with what the line asks for.
    fn run(&self, line: &str) {
        let programs = self.programs();
        let programs = programs.to_str().expect("text");
        let mut shell = Command::new("sh");
        let line_here = line.replace("/usr/local/bin", r#""$PROGRAMS""#);
        shell
            .arg("-c")
            .arg(format!("exec {line_here}"))
            .current_dir(self.folder.path())
            .env_clear()
            .env("CONSUL_HTTP_ADDR", self.agent.url())
            .env("PROGRAMS", programs)
            .env("PATH", format!("{programs}:/usr/bin:/bin"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = shell.spawn().expect("a shell");
        if line.contains("--watch") {
            // It does not end, so one line is enough.
            let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
            assert!(lines.next().is_some(), "{line}");
            send("INT", child.id());
            let ended = child.wait().expect("an end");
            assert_eq!(ended.signal(), Some(2), "{line}");
            return;
        }
        let code = child.wait().expect("an end").code();
        let asked = if line.contains("'exit 3'") { 3 } else { 0 };
        assert_eq!(code, Some(asked), "{line}");
    }
}

/// The program that a line runs, after the variables that it sets.
fn program(line: &str) -> &str {
    let mut words = line.split_whitespace();
    words.find(|word| !word.contains('=')).unwrap_or_default()
}

/// What a reader types: each line of the blocks marked `sh`, and the text after a prompt in those
/// marked `console`.
fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut language = None;
    let text = text.replace("\\\n", " ");
    for line in text.lines() {
        if let Some(fence) = line.strip_prefix("```") {
            language = language.is_none().then(|| fence.to_owned());
            continue;
        }
        match language.as_deref() {
            Some("sh") if !line.is_empty() => found.push(line.to_owned()),
            Some("console") => found.extend(line.strip_prefix("$ ").map(ToOwned::to_owned)),
            _ => {}
        }
    }
    found
}

/// The text between backticks.
fn inline(text: &str) -> Vec<String> {
    let pieces = text.split('`').skip(1).step_by(2);
    pieces.map(ToOwned::to_owned).collect()
}

fn documents() -> Vec<(String, String)> {
    let mut found = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    for folder in ["docs", "docs/guides"] {
        for entry in fs::read_dir(root().join(folder)).expect("a folder") {
            let name = entry.expect("an entry").file_name();
            let name = name.to_str().expect("text");
            if Path::new(name).extension().is_some_and(|it| it == "md") {
                found.push(format!("{folder}/{name}"));
            }
        }
    }
    let read = |file: String| {
        let text = read(&file);
        (file, text)
    };
    found.into_iter().map(read).collect()
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).expect("a file")
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
