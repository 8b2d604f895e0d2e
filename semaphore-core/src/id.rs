//! Types for ids and indexes, so that one can't be used for another.

use core::fmt;
use core::str::FromStr;

use crate::input::InvalidInput;

/// The id of a Consul session: a UUID in lower case, whatever the case of the input.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId([u8; LENGTH]);

/// The number of bytes in the text of a UUID.
const LENGTH: usize = 36;

impl SessionId {
    /// Takes an id over.
    ///
    /// # Errors
    /// [`InvalidInput::SessionId`] if it is not a UUID in its usual form: other texts could change
    /// the key or URL that contains it.
    pub fn new(id: impl Into<String>) -> Result<Self, InvalidInput> {
        let id = id.into();
        Self::read(&id).ok_or(InvalidInput::SessionId(id))
    }

    /// The id in this text, if it is one. It does not allocate, since an answer has thousands.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut id: [u8; LENGTH] = text.as_bytes().try_into().ok()?;
        // Consul treats both cases as one session, but as two contender keys.
        id.make_ascii_lowercase();
        is_uuid(&id).then_some(Self(id))
    }

    /// Whether the id equals this text exactly.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.0 == *text.as_bytes()
    }

    /// The bytes of its text. They compare as the text does.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        // It only has digits, letters and dashes.
        core::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionId").field(&self.as_str()).finish()
    }
}

#[cfg(feature = "serialize")]
impl serde::Serialize for SessionId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
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
    /// For `?cas=`: the key must not exist. For a blocking query: answer at once.
    pub const ZERO: Self = Self(0);
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identifies one request of one machine, to match its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(crate) u64);

/// Identifies a command of a caller until nothing of it is left: an acquisition with its permit, a
/// campaign with its leadership, or a change of a leader's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub(crate) u64);

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A number that grows strictly from grant to grant of one prefix (S5), or from term to term of one
/// election. Send it to the resource with every operation, and let the resource refuse any that is
/// lower than one it has seen.
///
/// For a semaphore it is 1,024 times the index at which the write was applied that gave the slot,
/// plus the number of the acquisition among those that the same write serves. Consul's indexes only
/// grow. For an election it is the `ModifyIndex` of the key in the leader's term. A restored snapshot takes the
/// indexes back: let the resource forget what it has seen, then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(pub u64);

impl FencingToken {
    /// The most acquisitions of one write. A transaction admits fewer.
    pub(crate) const MOST_OF_A_WRITE: u16 = 1024;

    /// The token of the grant with this number in a write that was applied at this index.
    pub(crate) fn of_grant(index: Index, number: u64) -> Self {
        Self(index.0.saturating_mul(Self::MOST_OF_A_WRITE.into()) | number)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// For lower-case text. It checks every byte before it decides, so that the compiler can check many
/// at once.
fn is_uuid(id: &[u8; LENGTH]) -> bool {
    let fits = |(byte, shape): (&u8, &u8)| {
        let is_hex = byte.is_ascii_digit() | matches!(byte, b'a'..=b'f');
        if *shape == b'-' {
            *byte == b'-'
        } else {
            is_hex
        }
    };
    id.iter()
        .zip(SHAPE)
        .fold(true, |all, pair| all & fits(pair))
}

/// The places of the dashes.
const SHAPE: &[u8; LENGTH] = b"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

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

    #[test]
    fn every_place_of_a_session_id_is_looked_at() {
        let good = "4ca8e74b-6350-7587-addf-a18084928f3c";
        for (at, shape) in SHAPE.iter().enumerate() {
            for other in ["/", ":", "`", "g", "G", "-", "0", "\u{1}"] {
                let fits = if *shape == b'-' {
                    other == "-"
                } else {
                    other == "0"
                };
                let mut id = good.to_owned();
                id.replace_range(at..=at, other);
                assert_eq!(SessionId::new(id.as_str()).is_ok(), fits, "{id}");
            }
        }
    }

    #[test]
    fn the_tokens_of_a_write_are_lower_than_those_of_the_next() {
        let last = u64::from(FencingToken::MOST_OF_A_WRITE) - 1;
        let token = |index, number| FencingToken::of_grant(Index(index), number);
        assert!(token(7, 0) < token(7, last));
        assert!(token(7, last) < token(8, 0));
    }

    #[test]
    fn a_session_id_is_shown_in_lower_case() {
        let id = SessionId::new("4CA8E74B-6350-7587-ADDF-A18084928F3C").unwrap();
        let text = "4ca8e74b-6350-7587-addf-a18084928f3c";
        assert_eq!(id.as_str(), text);
        assert_eq!(id.to_string(), text);
        assert_eq!(format!("{id:?}"), format!("SessionId({text:?})"));
    }
}
