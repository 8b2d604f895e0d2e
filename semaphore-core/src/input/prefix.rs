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
    /// One of the `Prefix…` variants of [`InvalidInput`].
    pub fn new(prefix: impl AsRef<str>) -> Result<Self, InvalidInput> {
        let given = prefix.as_ref();
        match path::canonical(given) {
            Ok(prefix) if is_record(prefix) => Err(InvalidInput::PrefixOfRecord(given.to_owned())),
            Ok(prefix) => Ok(Self(prefix.to_owned())),
            Err(Flaw::Empty) => Err(InvalidInput::PrefixEmpty),
            Err(Flaw::EmptySegment) => Err(InvalidInput::PrefixEmptySegment(given.to_owned())),
            Err(Flaw::DotSegment) => Err(InvalidInput::PrefixDotSegment(given.to_owned())),
            Err(Flaw::ControlCharacter) => {
                Err(InvalidInput::PrefixControlCharacter(given.to_owned()))
            }
            Err(Flaw::Unprintable(character)) => Err(InvalidInput::PrefixUnprintable {
                prefix: given.to_owned(),
                character,
            }),
            Err(Flaw::OuterSpace) => Err(InvalidInput::PrefixOuterSpace(given.to_owned())),
            Err(Flaw::Encoded) => Err(InvalidInput::PrefixEncoded(given.to_owned())),
            Err(Flaw::TooLong(len)) => Err(InvalidInput::PrefixTooLong {
                len,
                max: path::MAX_BYTES,
            }),
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
        use InvalidInput as I;
        let s = str::to_owned;
        let cases = [
            ("", I::PrefixEmpty),
            ("/", I::PrefixEmpty),
            ("//", I::PrefixEmptySegment(s("//"))),
            ("a//b", I::PrefixEmptySegment(s("a//b"))),
            ("a//", I::PrefixEmptySegment(s("a//"))),
            ("//a", I::PrefixEmptySegment(s("//a"))),
            (".", I::PrefixDotSegment(s("."))),
            ("a/../b", I::PrefixDotSegment(s("a/../b"))),
            ("a/./b", I::PrefixDotSegment(s("a/./b"))),
            ("a\nb", I::PrefixControlCharacter(s("a\nb"))),
            ("a\0", I::PrefixControlCharacter(s("a\0"))),
            (" a", I::PrefixOuterSpace(s(" a"))),
            ("/a/b /", I::PrefixOuterSpace(s("/a/b /"))),
            ("a%20b", I::PrefixEncoded(s("a%20b"))),
            ("a/%2F", I::PrefixEncoded(s("a/%2F"))),
            (".lock", I::PrefixOfRecord(s(".lock"))),
            ("a/.lock/", I::PrefixOfRecord(s("a/.lock/"))),
        ];
        for (given, error) in cases {
            assert_eq!(Prefix::new(given), Err(error));
        }
    }

    #[test]
    fn what_no_agent_takes_for_printable_is_refused_and_named() {
        for character in ['\u{a0}', '\u{200b}', '\u{2028}', '\u{feff}', '\u{3000}'] {
            let prefix = format!("a{character}b");
            let flaw = InvalidInput::PrefixUnprintable {
                prefix: prefix.clone(),
                character,
            };
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
        let too_long = |len| InvalidInput::PrefixTooLong {
            len,
            max: path::MAX_BYTES,
        };
        let found = Prefix::new(format!("{longest}x"));
        assert_eq!(found, Err(too_long(path::MAX_BYTES + 1)));
        let encoded = Prefix::new("ä".repeat(path::MAX_BYTES / 2));
        assert_eq!(encoded, Err(too_long(path::MAX_BYTES * 3)));
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
