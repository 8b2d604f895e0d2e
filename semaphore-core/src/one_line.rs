//! Error texts on one line, with their causes, whatever those contain.

use core::error::Error;
use core::fmt::{self, Write as _};
use core::time::Duration;

/// How many characters of a cause are shown.
const MOST: usize = 300;

/// A foreign error with its causes, separated by colons. Repetitions are left out: several
/// libraries include the text of their cause.
pub(crate) struct WithCauses<'a>(pub(crate) &'a (dyn Error + 'static));

impl fmt::Display for WithCauses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = line(self.0);
        f.write_str(&said)?;
        let mut next = self.0.source();
        while let Some(cause) = next {
            let text = line(cause);
            if !said.contains(&text) {
                write!(f, ": {text}")?;
                said.push_str(&text);
            }
            next = cause.source();
        }
        Ok(())
    }
}

/// The causes alone, each after a colon. Empty without causes.
pub(crate) struct Causes<'a>(pub(crate) Option<&'a (dyn Error + 'static)>);

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(cause) => write!(f, ": {}", WithCauses(cause)),
            None => Ok(()),
        }
    }
}

/// The beginning of a name that may be long.
pub(crate) fn brief_name(name: &str) -> String {
    beginning(name, MOST_OF_NAME)
}

/// At most so many characters of it.
pub(crate) fn beginning(name: &str, most: usize) -> String {
    let mut shown: String = name.chars().take(most).collect();
    if shown.len() < name.len() {
        shown.push('…');
    }
    shown
}

/// How many characters of a name are shown.
const MOST_OF_NAME: usize = 200;

/// An external text as a part of a line.
pub(crate) fn line(text: impl fmt::Display) -> String {
    let mut line = String::new();
    // Writing to a string fails only if the text's `Display` does.
    let _ = write!(line, "{text}");
    let printed = line.trim().chars().take(MOST);
    printed
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// A duration for people: `20 s`, `1.5 s`, `300 ms`.
pub(crate) struct Brief(pub(crate) Duration);

impl fmt::Display for Brief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.0.as_millis().saturating_add(50) / 100;
        match (tenths / 10, tenths % 10) {
            (0, _) => write!(f, "{} ms", self.0.as_millis()),
            (secs, 0) => write!(f, "{secs} s"),
            (secs, tenth) => write!(f, "{secs}.{tenth} s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        source: Option<Box<Link>>,
    }

    fn chain(texts: &[&'static str]) -> Link {
        let mut texts = texts.iter().rev();
        let last = texts.next().unwrap();
        let last = Link {
            text: last,
            source: None,
        };
        texts.fold(last, |source, text| Link {
            text,
            source: Some(Box::new(source)),
        })
    }

    #[test]
    fn causes_follow_in_one_line_and_nothing_is_said_twice() {
        let error = chain(&["connecting: refused", "refused", "by\r\nthe host"]);
        let text = WithCauses(&error).to_string();
        assert_eq!(text, "connecting: refused: by  the host");
        assert_eq!(Causes(Some(&error)).to_string(), format!(": {text}"));
        assert_eq!(Causes(None).to_string(), "");
    }

    #[test]
    fn a_time_is_told_to_a_tenth_of_a_second() {
        for (millis, text) in [
            (0, "0 ms"),
            (949, "949 ms"),
            (950, "1 s"),
            (1_500, "1.5 s"),
            (20_000, "20 s"),
            (11_870, "11.9 s"),
        ] {
            assert_eq!(Brief(Duration::from_millis(millis)).to_string(), text);
        }
        let odd = Duration::from_nanos(20_000_453_685);
        assert_eq!(Brief(odd).to_string(), "20 s");
    }
}
