//! What several pages say, and what they say of the code, agrees.
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The pages that a reader reads.
fn pages() -> Vec<(String, String)> {
    let mut names: Vec<String> = ["README.md", "CONTRIBUTING.md", "semaphore-core/PROMISES.md"]
        .map(str::to_owned)
        .to_vec();
    for folder in ["docs", "docs/guides"] {
        for entry in fs::read_dir(root().join(folder)).expect("a folder") {
            let name = entry.expect("an entry").file_name();
            let name = name.to_str().expect("text");
            if Path::new(name).extension().is_some_and(|it| it == "md") {
                names.push(format!("{folder}/{name}"));
            }
        }
    }
    let read = |name: String| {
        let text = read(&name);
        (name, text)
    };
    names.into_iter().map(read).collect()
}

/// The words that follow `start` in this text, up to a character that is in no name.
fn names_after<'a>(text: &'a str, start: &str) -> impl Iterator<Item = &'a str> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let ends = text.split(start).skip(1);
    ends.map(move |it| &it[..it.find(|c| !is_of_name(c)).unwrap_or(it.len())])
}

#[test]
fn each_script_and_each_step_of_nightly_that_a_page_names_is_there() {
    let nightly = read("scripts/nightly");
    let head = nightly.split("set -euo").next().expect("a head");
    let mut found = 0;
    for (page, text) in pages() {
        for script in names_after(&text, "`scripts/") {
            assert!(
                root().join("scripts").join(script).exists(),
                "{page}: {script}"
            );
            found += 1;
        }
        // `scripts/nightly [STEP …]` names none.
        for step in names_after(&text, "`scripts/nightly ").filter(|it| !it.is_empty()) {
            let is_step = [format!(" {step},"), format!(" {step} (")];
            let is_step = is_step.iter().any(|it| head.contains(it));
            assert!(is_step, "{page}: {step}");
            found += 1;
        }
    }
    assert!(found > 50, "{found}");
}

/// COST has the measurements. The others repeat their bound.
#[test]
fn what_a_thousand_semaphores_of_a_client_cost_is_said_alike_everywhere() {
    const BOUND: f64 = 8.0;
    let bound = format!("{BOUND} requests a second");
    for page in ["README.md", "CHANGELOG.md", "docs/COST.md", "bench/cost.md"] {
        let text = read(page).replace("**", "");
        let line = text.lines().find(|it| {
            it.contains("1,000 semaphores") || it.contains("thousand semaphores with a slot")
        });
        let line = line.expect("a line about them");
        assert!(
            line.contains(&bound) && line.contains("at most"),
            "{page}: {line}"
        );
    }
    let cost = read("docs/COST.md");
    let cells = |start: &str| -> Vec<String> {
        let row = cost.lines().find(|it| it.contains(start)).expect("a row");
        row.split('|').map(|it| it.trim().to_owned()).collect()
    };
    let scene: f64 = cells("requests per second while held")[4]
        .parse()
        .expect("a number");
    let both = cells("| 1,000, tokio |")[4].clone();
    let minute = both.split(", ").nth(1).expect("two numbers");
    let minute: f64 = minute.parse().expect("a number");
    assert!(scene <= BOUND && minute <= BOUND, "{scene} {minute}");
}

#[test]
fn how_long_a_slot_stays_taken_after_a_crash_is_said_alike_everywhere() {
    // The session ends two TTLs after its last renewal, which may be the moment of the crash. Then
    // comes the lock delay, which is one TTL.
    let (ttl, slack) = (15, 1);
    let longest = 2 * ttl + ttl + slack;
    let promises = read("semaphore-core/PROMISES.md");
    let range = format!(
        "40 to {longest} s after the crash with the default TTL ({} s for an election)",
        longest + 1
    );
    assert!(promises.contains(&range));
    let readme = read("README.md").replace('\n', " ");
    assert!(readme.contains(&format!("40 to {longest} s after the crash")));
    assert!(read("docs/guides/TTL.md").contains(&format!(
        "(the default) | {ttl} s | 11.25 s | {longest} s |"
    )));
    for (page, text) in pages() {
        for wrong in ["40 to 47", "40–47", "40–46", "40 to 45"] {
            assert!(!text.contains(wrong), "{page}: {wrong}");
        }
    }
}

/// Four fifths of the TTL: PROMISES states it, and a test of the core shows it (`lease/outages.rs`). The
/// guide takes three quarters, with a margin for slow answers, so the TTL is four thirds of the silence.
#[test]
fn the_longest_silence_that_costs_no_slot_is_said_alike_everywhere() {
    let (ttl, most) = (15.0, 60.0);
    let planned = |ttl: f64| ttl * 3.0 / 4.0;
    let promises = read("semaphore-core/PROMISES.md");
    let expected = format!(
        "four fifths of the TTL ({} s for {ttl} s), {} s at most",
        ttl * 4.0 / 5.0,
        most * 4.0 / 5.0
    );
    assert!(promises.contains(&expected), "{expected}");
    for page in ["README.md", "docs/RUNNING.md", "docs/guides/TTL.md"] {
        let text = read(page).replace('\n', " ");
        assert!(text.contains("four thirds of the longest"), "{page}");
    }

    let guide = read("docs/guides/TTL.md");
    let rows = guide
        .lines()
        .filter(|it| it.starts_with("| to ") || it.starts_with("| the f"));
    let mut checked = 0;
    for row in rows {
        let figures: Vec<f64> = row.split('|').filter_map(seconds).collect();
        let [ttl, silence, free] = figures[..] else {
            panic!("{row}");
        };
        assert!((silence - planned(ttl)).abs() < 0.01, "{row}");
        assert!((free - (ttl * 3.0 + 1.0)).abs() < 0.01, "{row}");
        checked += 1;
    }
    assert!(checked >= 4, "{checked}");

    // The command is told to end before the lease ends.
    let operators = read("docs/OPERATORS.md").replace('\n', " ");
    let of_command = |option: &str| {
        let row = operators.split(&format!("| `--{option} D` |")).nth(1);
        let row = row.and_then(|it| it.split("by default ").nth(1));
        row.and_then(seconds).expect(option)
    };
    let (ttl, grace, margin) = (of_command("ttl"), of_command("grace"), 0.5);
    let told = format!(
        "With the defaults a silence of {} s costs nothing: three quarters of the TTL of {ttl} s, less the grace and half a second",
        planned(ttl) - grace - margin
    );
    assert!(operators.contains(&told), "{told}");
    let holding = read("consul-semaphore/src/holding.rs");
    assert!(holding.contains(&format!("TTL: &str = \"{ttl}s\"")));
    let default =
        format!("default_value = \"{grace}s\", value_name = \"DURATION\")]\n    pub(crate) grace:");
    assert!(holding.contains(&default), "{default}");
    let plan = read("consul-semaphore/src/supervise/plan.rs");
    let margin = format!(
        "MARGIN: Duration = Duration::from_millis({})",
        margin * 1_000.0
    );
    assert!(plan.contains(&margin), "{margin}");
}

/// The number of seconds that a text begins with.
fn seconds(text: &str) -> Option<f64> {
    text.trim().split_once(" s")?.0.parse().ok()
}

#[test]
fn each_feature_is_named_on_the_front_page_of_its_crate() {
    for folder in [
        "semaphore-core",
        "transport-reqwest",
        "transport-ureq",
        "transport-mock",
    ] {
        let manifest = read(&format!("{folder}/Cargo.toml"));
        let features = manifest.split("[features]\n").nth(1).expect("features");
        let features = features.split("\n[").next().expect("their end");
        let names = features.lines().filter(|it| !it.starts_with('#'));
        let names = names
            .filter_map(|it| it.split_once(" = "))
            .map(|(name, _)| name);
        let source = read(&format!("{folder}/src/lib.rs"));
        let front: Vec<_> = source
            .lines()
            .take_while(|it| it.starts_with("//!"))
            .collect();
        let front = front.join("\n");
        for name in names.filter(|it| *it != "default" && !it.starts_with("unstable-")) {
            assert!(front.contains(&format!("`{name}`")), "{folder}: {name}");
        }
    }
}

#[test]
fn what_only_async_handles_or_only_blocking_ones_have_is_named_on_the_page_for_threads() {
    let interface = read("docs/interface/semaphore-core.txt");
    let page = read("docs/guides/BLOCKING.md");
    let functions = |path: &str| -> BTreeSet<String> {
        let start = format!(" fn semaphore_core::{path}::");
        let lines = interface.lines().filter_map(|it| it.split_once(&start));
        let names = lines.filter_map(|(_, rest)| rest.split(['(', '<']).next());
        names.map(str::to_owned).collect()
    };
    // Those of traits, and of the runtime that a blocking client also is.
    let of_traits = [
        "block_on",
        "block_on_for",
        "clone",
        "drop",
        "fmt",
        "has_ended",
        "poll_next",
    ];
    let mut compared = 0;
    for handle in [
        "Semaphore",
        "Permit",
        "Election",
        "Leadership",
        "Discovery",
        "Follower",
        "Client",
        "Terms<'a>",
    ] {
        let module = if handle.starts_with("Terms") {
            "terms::"
        } else {
            ""
        };
        let (here, there) = (
            functions(&format!("{module}{handle}")),
            functions(&format!("blocking::{handle}")),
        );
        compared += here.len();
        for name in here
            .symmetric_difference(&there)
            .filter(|it| !of_traits.contains(&it.as_str()))
        {
            let is_named =
                page.contains(&format!("`{name}`")) || page.contains(&format!("::{name}`"));
            assert!(is_named, "{handle}::{name}");
        }
    }
    assert!(compared > 80, "{compared}");
}

#[test]
fn what_a_test_does_to_a_host_takes_that_host() {
    let page = read("docs/TESTING.md");
    let interface = read("docs/interface/transport-mock.txt");
    let row = page
        .lines()
        .find(|it| it.starts_with("| a host |"))
        .expect("a row");
    let names = row.split('`').skip(1).step_by(2);
    let mut checked = 0;
    for name in names {
        let function = format!("MockConsul::{name}(&self, impl core::convert::AsRef<str>");
        assert!(interface.contains(&function), "{name}");
        checked += 1;
    }
    assert!(checked > 4, "{checked}");
}

#[test]
fn the_systems_of_the_command_are_those_for_which_it_compiles() {
    let source = read("consul-semaphore/src/main.rs");
    let condition = source.split("#[cfg(not(any(").nth(1).expect("a condition");
    let condition = condition.split(")))]").next().expect("its end");
    assert_eq!(condition, r#"target_os = "linux", target_os = "freebsd""#);
    assert!(
        read("docs/OPERATORS.md")
            .replace('\n', " ")
            .contains("for Linux and FreeBSD")
    );
    assert!(read("README.md").contains("# on Linux or FreeBSD"));
}

/// Who compares two figures must know which states they are of.
#[test]
fn each_section_with_runs_says_on_which_commit_and_day_they_were() {
    let is_commit = |it: &str| {
        (7..=8).contains(&it.len()) && it.bytes().all(|byte| b"0123456789abcdef".contains(&byte))
    };
    let evidence = read("docs/EVIDENCE.md");
    let cost = read("docs/COST.md");
    let (measured, others) = cost
        .split_once("## Many in one process")
        .expect("a section");
    let measured = measured.split("## Measurements").nth(1).expect("a section");
    let sections = evidence.split("\n## ").skip(1).chain([measured]);
    let sections = sections.chain(others.split("\n## ").take(3));
    // These have no figures of a run.
    let without = [
        "The base\n",
        "Which test would fail\n",
        "What these checks have found\n",
    ];
    let mut checked = 0;
    for section in sections.filter(|it| !without.iter().any(|name| it.starts_with(name))) {
        let title = section.lines().next().unwrap_or_default();
        let has_commit = section.split('`').skip(1).step_by(2).any(is_commit)
            || section.split([' ', ',']).any(is_commit);
        assert!(has_commit, "{title}: no commit");
        assert!(section.contains(" 202"), "{title}: no day");
        checked += 1;
    }
    assert!(checked > 10, "{checked}");
}

/// The cells of each row of the tables in this text, without those that name columns.
fn rows(text: &str) -> Vec<Vec<String>> {
    let is_row =
        |it: &&str| it.starts_with("| ") && !it.starts_with("| what") && !it.starts_with("| row");
    let cells = |row: &str| -> Vec<String> {
        let cells = row.trim_matches('|').split('|');
        cells.map(|it| it.trim().replace("**", "")).collect()
    };
    let rows = text.lines().filter(is_row).map(cells);
    rows.filter(|row| !row[0].is_empty()).collect()
}

/// Whether the core has this test: `FILE::NAME`, below its tests of behaviour unless the file is below
/// `src`.
fn is_a_test_of_the_core(test: &str) -> bool {
    let (file, name) = test.split_once("::").expect("a file and a test");
    let folder = if file.starts_with("src/") {
        ""
    } else {
        "tests/behaviour/"
    };
    let source = read(&format!("semaphore-core/{folder}{file}.rs"));
    ["    ", "\n"]
        .iter()
        .any(|before| source.contains(&format!("{before}fn {name}(")))
}

/// A promise that no test would miss is only a sentence.
#[test]
fn each_row_of_the_promises_names_tests_that_are_there_or_says_what_none_would_miss() {
    let promises = read("semaphore-core/PROMISES.md");
    let rest = promises.find("\n## What is assumed").expect("a section");
    let table = rows(&promises[..rest]);
    assert!(table.len() > 30, "{}", table.len());
    let evidence = read("docs/EVIDENCE.md");
    let section = evidence.split("\n## Which test would fail\n").nth(1);
    let section = section.expect("a section").split("\n## ").next();
    let mut of_rows = rows(section.expect("a section"));
    for row in &table {
        let at = of_rows.iter().position(|it| row[0].starts_with(&it[0]));
        let of_row = of_rows.remove(at.unwrap_or_else(|| panic!("no test for: {}", row[0])));
        let tests: Vec<_> = of_row[1].split('`').skip(1).step_by(2).collect();
        let has_reason = of_row.get(2).is_some_and(|it| !it.is_empty());
        assert!(!tests.is_empty() || has_reason, "nothing for: {}", row[0]);
        for test in tests {
            assert!(is_a_test_of_the_core(test), "{test}");
        }
    }
    assert!(of_rows.is_empty(), "of no row of PROMISES: {of_rows:?}");
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect(name)
}

fn root() -> PathBuf {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR"));
    docs.parent().expect("a folder").to_owned()
}
