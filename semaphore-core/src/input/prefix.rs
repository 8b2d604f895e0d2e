//! The prefix of a semaphore and the keys below it.

use core::fmt;

use super::path::{self, Flaw};
use crate::id::SessionId;
use crate::input::InvalidInput;

/// The prefix of a semaphore's keys, in canonical form: `service/db`.
///
/// Its keys are `<prefix>/.lock` and `<prefix>/<session>`. Lists and watches use `<prefix>/`, with
/// the slash, so that `jobs` never sees the keys of `jobs-2`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(String);

impl Prefix {
    /// Checks a prefix. One leading and one trailing slash are removed. Everything else that Consul
    /// would redirect or read as another key is refused.
    ///
    /// # Errors
    /// [`InvalidInput::Prefix`].
    pub fn new(prefix: impl AsRef<str>) -> Result<Self, InvalidInput> {
        let given = prefix.as_ref();
        let refused = |flaw| InvalidInput::Prefix {
            prefix: path::shown(given),
            flaw,
        };
        match path::canonical(given) {
            Ok(prefix) if is_record(prefix) => Err(refused(Flaw::OfRecord)),
            Ok(prefix) => Ok(Self(prefix.to_owned())),
            Err(flaw) => Err(refused(flaw)),
        }
    }

    /// The prefix, without a trailing slash.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key of the record: `<prefix>/.lock`.
    pub fn record_key(&self) -> String {
        format!("{}/{LOCK_NAME}", self.0)
    }

    /// The contender key of a session: `<prefix>/<session>`.
    pub fn contender_key(&self, session: &SessionId) -> String {
        format!("{}/{session}", self.0)
    }

    /// The path of lists and watches: `<prefix>/`.
    pub fn directory(&self) -> String {
        format!("{}/", self.0)
    }

    /// The name of a key that lies directly below the prefix.
    pub(crate) fn child_name<'k>(&self, key: &'k str) -> Option<&'k str> {
        let name = key.strip_prefix(self.0.as_str())?.strip_prefix('/')?;
        (!name.is_empty() && !name.contains('/')).then_some(name)
    }
}

/// Whether it is the key of a semaphore's record. A semaphore below it would work, but it would not
/// be the intended one.
fn is_record(prefix: &str) -> bool {
    prefix.rsplit('/').next() == Some(LOCK_NAME)
}

/// The last segment of the record's key.
pub(crate) const LOCK_NAME: &str = ".lock";

impl AsRef<str> for Prefix {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slash_at_either_end_is_trimmed() {
        for given in ["a/b", "/a/b", "a/b/", "/a/b/"] {
            let prefix = Prefix::new(given).unwrap();
            assert_eq!(prefix.as_str(), "a/b");
            assert_eq!(AsRef::<str>::as_ref(&prefix), "a/b");
        }
    }

    #[test]
    fn what_consul_would_read_as_another_key_is_refused() {
        for (given, flaw) in [
            ("", Flaw::Empty),
            ("/", Flaw::Empty),
            ("//", Flaw::EmptySegment),
            ("a//b", Flaw::EmptySegment),
            ("a//", Flaw::EmptySegment),
            ("//a", Flaw::EmptySegment),
            (".", Flaw::DotSegment),
            ("a/../b", Flaw::DotSegment),
            ("a/./b", Flaw::DotSegment),
            ("a\nb", Flaw::ControlCharacter),
            ("a\0", Flaw::ControlCharacter),
            (" a", Flaw::OuterSpace),
            ("/a/b /", Flaw::OuterSpace),
            ("a%20b", Flaw::Encoded),
            ("a/%2F", Flaw::Encoded),
            (".lock", Flaw::OfRecord),
            ("a/.lock/", Flaw::OfRecord),
        ] {
            assert_eq!(Prefix::new(given), Err(refused(given, flaw)));
        }
    }

    fn refused(given: &str, flaw: Flaw) -> InvalidInput {
        let prefix = path::shown(given);
        InvalidInput::Prefix { prefix, flaw }
    }

    #[test]
    fn what_no_agent_takes_for_printable_is_refused_and_named() {
        for character in ['\u{a0}', '\u{200b}', '\u{2028}', '\u{feff}', '\u{3000}'] {
            let prefix = format!("a{character}b");
            let flaw = refused(&prefix, Flaw::Unprintable(character));
            assert!(flaw.to_string().contains("U+"), "{flaw}");
            assert_eq!(Prefix::new(&prefix), Err(flaw));
        }
        for printable in ["ä✓", "a b", "日本", "🙂", "a%", "a%2", "a%g0", "50%/x"] {
            assert!(Prefix::new(printable).is_ok(), "{printable}");
        }
    }

    #[test]
    fn a_prefix_is_as_long_as_its_url_may_be() {
        let longest = "x".repeat(path::MAX_BYTES);
        assert!(Prefix::new(&longest).is_ok());
        for (longer, length) in [
            (format!("{longest}x"), path::MAX_BYTES + 1),
            ("ä".repeat(path::MAX_BYTES / 2), path::MAX_BYTES * 3),
        ] {
            let error = refused(&longer, Flaw::TooLong(length));
            assert_eq!(Prefix::new(&longer), Err(error));
        }
    }

    #[test]
    fn only_direct_children_have_a_name() {
        let prefix = Prefix::new("jobs").unwrap();
        assert_eq!(prefix.child_name("jobs/.lock"), Some(".lock"));
        for other in ["jobs", "jobs/", "jobs-2/x", "jobs/sub/x", "x/jobs/y"] {
            assert_eq!(prefix.child_name(other), None, "{other}");
        }
    }
}
