//! The key of an election.

use core::fmt;

use crate::error::InvalidInput;

/// The key on which an election's participants agree, in canonical form:
/// `service/<service name>/leader` in the guide, `<prefix>/.lock` for `consul lock`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElectionKey(String);

impl ElectionKey {
    /// Checks a key. One leading slash is trimmed; whatever else Consul would redirect or read as
    /// another key is refused.
    ///
    /// # Errors
    /// [`InvalidInput::ElectionKey`].
    pub fn new(key: impl AsRef<str>) -> Result<Self, InvalidInput> {
        let given = key.as_ref();
        let key = given.strip_prefix('/').unwrap_or(given);
        match fault(key) {
            None => Ok(Self(key.to_owned())),
            Some(fault) => Err(InvalidInput::ElectionKey {
                key: given.to_owned(),
                fault,
            }),
        }
    }

    /// The key as Consul knows it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ElectionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn fault(key: &str) -> Option<&'static str> {
    if key.is_empty() {
        Some("is empty")
    } else if key.chars().any(char::is_control) {
        Some("has a control character")
    } else if key.split('/').any(str::is_empty) {
        Some("has an empty segment")
    } else if key.split('/').any(|segment| matches!(segment, "." | "..")) {
        Some("has a segment of dots")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_taken_as_it_is_but_for_a_slash_in_front() {
        for (given, key) in [
            ("service/db/leader", "service/db/leader"),
            ("/service/db/leader", "service/db/leader"),
            ("service/db/.lock", "service/db/.lock"),
            ("a key ?#%", "a key ?#%"),
        ] {
            assert_eq!(ElectionKey::new(given).unwrap().as_str(), key);
        }
    }

    #[test]
    fn what_consul_would_read_as_another_key_is_refused() {
        for (given, fault) in [
            ("", "is empty"),
            ("/", "is empty"),
            ("a/", "has an empty segment"),
            ("a//b", "has an empty segment"),
            ("//a", "has an empty segment"),
            ("a/./b", "has a segment of dots"),
            ("..", "has a segment of dots"),
            ("a\nb", "has a control character"),
        ] {
            let key = given.to_owned();
            assert_eq!(
                ElectionKey::new(given),
                Err(InvalidInput::ElectionKey { key, fault })
            );
        }
    }
}
