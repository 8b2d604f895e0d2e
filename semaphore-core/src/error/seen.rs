//! What a waiter whose time ran out last saw of the others.

use core::fmt;

use crate::one_line::{beginning, brief_name, line};

/// What a waiter whose time ran out last saw of the others, by Consul's last answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seen {
    /// Those who held the slots, or the one who led.
    pub holders: Vec<Holder>,
    /// All slots. `None` for an election.
    pub limit: Option<u32>,
    /// How many of other processes waited ahead. `None` if that is unknown.
    pub ahead: Option<u32>,
}

/// One who held a slot, or led.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// Its session.
    pub session: String,
    /// The beginning of its value, if that was seen: by default the name of its host.
    pub value: Option<String>,
}

impl Holder {
    pub(crate) fn new(session: &str, value: Option<&str>) -> Self {
        Self {
            session: session.to_owned(),
            value: value.map(str::to_owned),
        }
    }
}

/// How many bytes of a value are read to show its beginning: more than a line has, so that white
/// space before it is skipped.
pub(crate) const MOST_READ: usize = 3 * 1024;

/// The beginning of a value as a part of a line, or `None` if there is nothing to show.
pub(crate) fn shown_value(value: &[u8]) -> Option<String> {
    let beginning = &value[..value.len().min(MOST_READ)];
    let value = line(String::from_utf8_lossy(beginning));
    let value = brief_name(value.trim());
    (!value.is_empty()).then_some(value)
}

/// The most holders that a text names.
const NAMED: usize = 3;

/// `2 of 2 held by "backup-1" (4ca8e74b-…) and "backup-2" (…), 3 wait ahead`.
impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            Some(limit) => write!(f, "{} of {limit} held", self.holders.len())?,
            None if self.holders.is_empty() => f.write_str("nobody leads")?,
            None => f.write_str("led")?,
        }
        let (named, more) = self.holders.split_at(self.holders.len().min(NAMED));
        for (at, holder) in named.iter().enumerate() {
            let is_last = at + 1 == named.len() && more.is_empty();
            let before = match at {
                0 => " by ",
                _ if is_last => " and ",
                _ => ", ",
            };
            write!(f, "{before}{holder}")?;
        }
        if !more.is_empty() {
            write!(f, " and {} more", more.len())?;
        }
        match self.ahead {
            None => Ok(()),
            Some(0) => f.write_str(", nobody waits ahead"),
            Some(1) => f.write_str(", 1 waits ahead"),
            Some(ahead) => write!(f, ", {ahead} wait ahead"),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A record may name anything. A session's id is no longer than this.
        let session = beginning(&line(&self.session), 36);
        match &self.value {
            Some(value) => write!(f, "{value:?} ({session})"),
            None => f.write_str(&session),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(holders: &[(&str, Option<&str>)], limit: Option<u32>, ahead: Option<u32>) -> String {
        let holders = holders.iter().map(|(it, value)| Holder::new(it, *value));
        let holders = holders.collect();
        let seen = Seen {
            holders,
            limit,
            ahead,
        };
        seen.to_string()
    }

    #[test]
    fn it_names_holders_by_value_and_says_the_limit_and_who_is_ahead() {
        let one = [("s-1", Some("backup-1"))];
        assert_eq!(
            text(&one, Some(2), Some(0)),
            "1 of 2 held by \"backup-1\" (s-1), nobody waits ahead"
        );
        let two = [("s-1", Some("backup-1")), ("s-2", None)];
        assert_eq!(
            text(&two, Some(2), Some(3)),
            "2 of 2 held by \"backup-1\" (s-1) and s-2, 3 wait ahead"
        );
        let five = [("s", None); 5];
        assert_eq!(
            text(&five, Some(5), None),
            "5 of 5 held by s, s, s and 2 more"
        );
        assert_eq!(text(&[], Some(5), Some(1)), "0 of 5 held, 1 waits ahead");
        assert_eq!(text(&one, None, None), "led by \"backup-1\" (s-1)");
        assert_eq!(text(&[], None, None), "nobody leads");
    }

    #[test]
    fn a_name_that_is_no_session_is_one_short_line() {
        let odd = format!("a\u{19}{}", "b".repeat(500));
        let text = text(&[(&odd, None)], Some(1), None);
        assert_eq!(text, format!("1 of 1 held by a {}…", "b".repeat(34)));
    }

    #[test]
    fn a_value_is_one_short_line() {
        assert_eq!(shown_value(b""), None);
        assert_eq!(shown_value(b" a\nb\x1b "), Some("a b".to_owned()));
        let long = shown_value(&[b'x'; 5_000]).unwrap();
        assert!(long.chars().count() <= 201, "{long}");
    }
}
