//! Links in README and guides lead somewhere.
#![expect(clippy::expect_used, reason = "these are tests")]

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn each_link_leads_to_a_file_and_a_heading_that_exist() {
    let mut followed = 0;
    for file in documents() {
        let text = fs::read_to_string(&file).expect("a file");
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|it| it.split(')').next())
        {
            if link.contains("://") {
                continue;
            }
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() {
                file.clone()
            } else {
                file.parent().expect("a folder").join(path)
            };
            assert!(target.exists(), "{}: {link}", file.display());
            if !heading.is_empty() {
                let text = fs::read_to_string(&target).expect("a file");
                let has = headings(&text).any(|it| it == heading);
                assert!(has, "{}: {link}", file.display());
            }
            followed += 1;
        }
    }
    assert!(followed > 50, "{followed}");
}

/// As the sites that show them make names of headings: lower case, dashes for spaces, no other signs.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let titles = text.lines().filter(|it| it.starts_with('#'));
    titles.map(|it| {
        let title = it.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|it| it.is_alphanumeric() || " -_".contains(*it));
        kept.map(|it| if it == ' ' { '-' } else { it }).collect()
    })
}

fn documents() -> Vec<PathBuf> {
    let root = root();
    let mut found = vec![
        root.join("README.md"),
        root.join("CONTRIBUTING.md"),
        root.join("semaphore-core/PROMISES.md"),
    ];
    for folder in ["docs", "docs/guides"] {
        let entries = fs::read_dir(root.join(folder)).expect("a folder");
        let paths = entries.map(|it| it.expect("an entry").path());
        found.extend(paths.filter(|it| it.extension().is_some_and(|it| it == "md")));
    }
    found
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
