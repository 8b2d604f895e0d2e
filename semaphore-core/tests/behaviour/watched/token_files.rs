//! What the log says of a file without a token.

use core::time::Duration;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use semaphore_core::adapter::{AgentEnvironment, Files, Stamp, TokenFile};
use semaphore_core::{Token, TokenSource};
use tracing::Level;

use super::log::logged;

/// A file in memory, and when it was changed. It may be missing.
#[derive(Clone, Default)]
struct File(Arc<Mutex<Option<(&'static str, u64)>>>);

impl File {
    fn write(&self, content: &'static str, at: u64) {
        *self.0.lock().expect("not poisoned") = Some((content, at));
    }

    fn remove(&self) {
        *self.0.lock().expect("not poisoned") = None;
    }

    /// One request after another is refused with the file's token.
    fn refusals(source: &impl TokenSource) {
        for _ in 0..10 {
            let token = source.token();
            source.refused(token.as_ref());
        }
    }
}

impl Files for File {
    fn stamp(&self, _: &Path) -> Option<Stamp> {
        let written = *self.0.lock().expect("not poisoned");
        let (content, at) = written?;
        Some((Duration::from_secs(at), content.len() as u64))
    }

    fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
        let written = *self.0.lock().expect("not poisoned");
        let (content, _) = written.ok_or(io::ErrorKind::NotFound)?;
        Ok(content.into())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(vec![path.to_owned()])
    }
}

#[test]
fn a_file_without_a_token_is_one_warning_however_many_requests_are_refused() {
    let file = File::default();
    file.write("first", 1);
    let lines = logged(Level::WARN, || {
        let source = TokenFile::new("token_file", "token", file.clone()).expect("a token");
        for (at, content) in [(2, ""), (3, " ")] {
            file.write(content, at);
            File::refusals(&source);
        }
        assert_eq!(source.token(), Token::new("first").ok());
    });
    assert_eq!(lines.len(), 2, "one for each state of the file: {lines:#?}");
    for line in lines {
        assert!(line.contains("no token in the file"), "{line}");
        assert!(line.contains("the token before it stays in use"), "{line}");
    }
}

#[test]
fn a_missing_file_is_one_warning_and_another_when_it_is_missing_again() {
    let file = File::default();
    file.write("first", 1);
    let lines = logged(Level::WARN, || {
        let source = TokenFile::new("token_file", "token", file.clone()).expect("a token");
        file.remove();
        File::refusals(&source);
        file.write("second", 2);
        assert_eq!(source.token(), Token::new("second").ok());
        file.remove();
        File::refusals(&source);
    });
    assert_eq!(lines.len(), 2, "{lines:#?}");
}

#[test]
fn where_no_token_is_in_use_an_empty_file_does_not_say_that_one_stays() {
    let file = File::default();
    file.write("", 1);
    let lines = logged(Level::WARN, || {
        let lookup = |name: &str| (name == "CONSUL_HTTP_TOKEN_FILE").then_some("token");
        let source = AgentEnvironment::tokens(lookup, file.clone());
        let source = source.expect("a file").expect("a source");
        assert_eq!(source.token(), None);
        File::refusals(&source);
    });
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("no token in the file"), "{lines:?}");
    assert!(
        lines[0].contains("requests are sent without a token"),
        "{lines:?}"
    );
}
