//! Names of things, so that one can't be taken for another.

use core::fmt;
use core::str::FromStr;

use crate::error::InvalidInput;

/// The id of a Consul session: a UUID in lower-case text, whatever case it is given in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(String);

impl SessionId {
    /// Takes an id over.
    ///
    /// # Errors
    /// [`InvalidInput::SessionId`] when it is not a UUID in its usual form: anything else would
    /// end up as part of a key or a URL.
    pub fn new(id: impl Into<String>) -> Result<Self, InvalidInput> {
        let mut id = id.into();
        if is_uuid(&id) {
            // Consul reads either case as the same session, and its contender keys as two.
            id.make_ascii_lowercase();
            Ok(Self(id))
        } else {
            Err(InvalidInput::SessionId(id))
        }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SessionId {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

/// A position in Consul's Raft log: `CreateIndex`, `ModifyIndex` or `X-Consul-Index`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Index(pub u64);

impl Index {
    /// As `?cas=`: the key must not exist. As a blocking query's index: answer at once.
    pub const ZERO: Self = Self(0);
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names one request of one machine, so that its answer finds its way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(crate) u64);

/// Names one acquisition from the moment it is asked for until its permit is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AcquireId(pub(crate) u64);

/// A number that rises strictly from grant to grant of one prefix (invariant S5). Hand it to the
/// resource with every operation, and let the resource refuse any that is lower than one seen.
///
/// It is the `ModifyIndex` of the record that the claim replaced: a check-and-set succeeds once
/// per `ModifyIndex`, and Consul's indexes only rise. A snapshot that an administrator restores takes
/// them back: let the resource forget what it has seen, then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(pub u64);

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn is_uuid(id: &str) -> bool {
    id.len() == 36
        && id.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_is_a_uuid_and_nothing_else() {
        assert!(SessionId::new("4ca8e74b-6350-7587-addf-a18084928f3c").is_ok());
        for bad in [
            "",
            "x",
            "4ca8e74b-6350-7587-addf-a18084928f3",
            "4ca8e74b/6350-7587-addf-a18084928f3c",
            "4ca8e74b-6350-7587-addf-a18084928f3g",
            "../../../../../../../../../../../etc",
        ] {
            assert!(SessionId::new(bad).is_err(), "{bad}");
        }
    }
}
