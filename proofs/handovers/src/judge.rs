//! The services' reports, and whether two led at the same time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A service's report that it leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) at: Instant,
    pub(crate) service: usize,
    pub(crate) token: u64,
}

/// All lines, in the order of their arrival.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines(Arc<Mutex<Said>>);

#[derive(Debug, Default)]
struct Said {
    lines: Vec<Line>,
    text: String,
}

impl Lines {
    pub(crate) fn add(&self, service: usize, text: &str) {
        let mut said = self.said_mut();
        said.text.push_str(text);
        said.text.push('\n');
        if let Some(token) = token(text) {
            let at = Instant::now();
            said.lines.push(Line { at, service, token });
        }
    }

    pub(crate) fn all(&self) -> Vec<Line> {
        self.said_mut().lines.clone()
    }

    pub(crate) fn said(&self) -> String {
        self.said_mut().text.clone()
    }

    fn said_mut(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The fencing token in a line such as `leads, with token 17`.
fn token(text: &str) -> Option<u64> {
    let (_, after) = text.strip_prefix("leads")?.split_once("token ")?;
    let digits = after.split(|it: char| !it.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Each line of a former leader, with the newer leader's line before it.
pub(crate) fn overlaps(lines: &[Line]) -> Vec<(Line, Line)> {
    let mut newest: Option<Line> = None;
    let mut found = Vec::new();
    for line in lines {
        match newest {
            Some(newer) if line.token < newer.token => found.push((newer, *line)),
            _ => newest = Some(*line),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_leader_has_its_token() {
        assert_eq!(token("leads, with token 17"), Some(17));
        let line = "leads in term 3, fencing token 94, since 1700000000.123";
        assert_eq!(token(line), Some(94));
        assert_eq!(token("campaigns; ^C ends it"), None);
    }

    #[test]
    fn a_former_leader_that_speaks_again_is_found() {
        let at = Instant::now();
        let lines = [(0, 5), (0, 5), (1, 7), (0, 5), (1, 7)];
        let lines = lines.map(|(service, token)| Line { at, service, token });
        assert_eq!(overlaps(&lines), [(lines[2], lines[3])]);
        assert_eq!(overlaps(&lines[..3]), []);
    }
}
