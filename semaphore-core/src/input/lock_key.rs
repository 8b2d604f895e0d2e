//! The key of an election.

use core::fmt;

use super::path;
use crate::id::SessionId;
use crate::input::InvalidInput;

/// The key whose owner is the leader, in canonical form: `service/db/leader`.
///
/// `consul lock` with one slot uses `<prefix>/.lock`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockKey(String);

impl LockKey {
    /// Checks a key. One leading and one trailing slash are removed. Everything else that Consul
    /// would redirect or read as another key is refused.
    ///
    /// # Errors
    /// [`InvalidInput::Key`].
    pub fn new(key: impl AsRef<str>) -> Result<Self, InvalidInput> {
        let given = key.as_ref();
        match path::canonical(given) {
            Ok(key) => Ok(Self(key.to_owned())),
            Err(flaw) => Err(InvalidInput::Key {
                key: path::shown(given),
                flaw,
            }),
        }
    }

    /// The key, without a leading or trailing slash.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The session in its last segment, as in a semaphore's contender key.
    pub(crate) fn last_session(&self) -> Option<SessionId> {
        let (_, last) = self.0.rsplit_once('/')?;
        SessionId::read(last)
    }
}

impl AsRef<str> for LockKey {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::path::Flaw;
    use super::*;

    #[test]
    fn a_session_at_the_end_is_read_in_either_case() {
        const ID: &str = "aaaaaaaa-0000-0000-0000-000000000000";
        for (key, is_session) in [
            (format!("service/db/{ID}"), true),
            (format!("service/db/{}", ID.to_uppercase()), true),
            (format!("service/db-{ID}"), false),
            (format!("{ID}/leader"), false),
            (ID.to_owned(), false),
        ] {
            let found = LockKey::new(&key).unwrap().last_session();
            assert_eq!(found.is_some_and(|it| it.is(ID)), is_session, "{key}");
        }
    }

    #[test]
    fn keys_of_any_depth_are_taken_also_consul_locks() {
        for (given, canonical) in [
            ("leader", "leader"),
            ("/service/db/leader", "service/db/leader"),
            ("a/b/c/d/e/", "a/b/c/d/e"),
            ("service/db/.lock", "service/db/.lock"),
            (".lock", ".lock"),
        ] {
            let key = LockKey::new(given).unwrap();
            assert_eq!(key.as_str(), canonical);
            assert_eq!(key.as_ref(), canonical);
        }
    }

    #[test]
    fn what_consul_would_read_as_another_key_is_refused() {
        for (given, flaw) in [
            ("", Flaw::Empty),
            ("/", Flaw::Empty),
            ("//", Flaw::EmptySegment),
            ("a//b", Flaw::EmptySegment),
            ("a/../b", Flaw::DotSegment),
            (".", Flaw::DotSegment),
            ("a\nb", Flaw::ControlCharacter),
            ("a\u{a0}b", Flaw::Unprintable('\u{a0}')),
            ("a ", Flaw::OuterSpace),
            ("a%2fb", Flaw::Encoded),
            (&"x".repeat(200_000), Flaw::TooLong(200_000)),
        ] {
            let key = path::shown(given);
            assert_eq!(LockKey::new(given), Err(InvalidInput::Key { key, flaw }));
        }
    }
}
