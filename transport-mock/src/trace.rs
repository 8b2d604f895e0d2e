//! What happened on the network, as readable lines that can be compared between two runs.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};

use semaphore_core::adapter::{Instant, Request};

/// The number of lines that are kept. Older ones are dropped.
const MAX_LINES: usize = 65_536;

/// The number of lines that are shown of a failed run.
const SHOWN_AT_THE_END: usize = 30;

#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) is_kept: bool,
    lines: Lines,
    story: Lines,
}

/// The newest lines.
#[derive(Debug, Default)]
struct Lines {
    kept: VecDeque<String>,
    forgotten: u64,
}

impl Trace {
    pub(crate) fn new() -> Self {
        Self {
            is_kept: true,
            lines: Lines::default(),
            story: Lines::default(),
        }
    }

    /// Adds a line about the network.
    pub(crate) fn add(&mut self, now: Instant, what: fmt::Arguments<'_>) {
        if self.is_kept {
            self.lines.add(now, what);
        }
    }

    /// Adds a line that is also part of the story.
    pub(crate) fn tell(&mut self, now: Instant, what: fmt::Arguments<'_>) {
        if self.is_kept {
            self.lines.add(now, what);
            self.story.add(now, what);
        }
    }

    /// The last lines.
    pub(crate) fn end(&self) -> String {
        self.lines.end()
    }

    pub(crate) fn story(&self) -> String {
        self.story.to_string()
    }

    /// The last lines of the story.
    pub(crate) fn end_of_story(&self) -> String {
        self.story.end()
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.fmt(f)
    }
}

impl Lines {
    fn add(&mut self, now: Instant, what: fmt::Arguments<'_>) {
        if self.kept.len() == MAX_LINES {
            self.kept.pop_front();
            self.forgotten += 1;
        }
        let at = now.since_origin().as_secs_f64();
        self.kept.push_back(format!("{at:>12.6} {what}"));
    }

    fn end(&self) -> String {
        let beyond = self.kept.len().saturating_sub(SHOWN_AT_THE_END);
        let lines: Vec<&str> = self.kept.iter().skip(beyond).map(String::as_str).collect();
        lines.join("\n")
    }
}

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.forgotten > 0 {
            writeln!(f, "({} earlier lines forgotten)", self.forgotten)?;
        }
        for line in &self.kept {
            f.write_str(line)?;
            f.write_char('\n')?;
        }
        Ok(())
    }
}

/// A request in one line, without its token and body.
pub(crate) struct Line<'a>(pub(crate) &'a Request);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(request) = self;
        write!(f, "{} ", request.method())?;
        let (path, query) = request
            .target()
            .split_once('?')
            .map_or((request.target(), None), |(path, query)| {
                (path, Some(query))
            });
        f.write_str(path)?;
        let mut separator = '?';
        for pair in query.into_iter().flat_map(|query| query.split('&')) {
            f.write_char(separator)?;
            separator = '&';
            // Consul still accepts a token in the query.
            let shown = if pair.starts_with("token=") {
                "token=hidden"
            } else {
                pair
            };
            f.write_str(shown)?;
        }
        if !request.body().is_empty() {
            write!(f, " ({} B)", request.body().len())?;
        }
        Ok(())
    }
}
