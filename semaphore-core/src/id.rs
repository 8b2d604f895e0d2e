//! Names of things, so that one can't be taken for another.

use core::fmt;
use core::str::FromStr;

use crate::defect::{Defect, is_on};
use crate::input::InvalidInput;

/// The id of a Consul session: a UUID in lower-case text, whatever case it is given in.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId([u8; LENGTH]);

/// How many bytes the text of a UUID has.
const LENGTH: usize = 36;

impl SessionId {
    /// Takes an id over.
    ///
    /// # Errors
    /// [`InvalidInput::SessionId`] when it is not a UUID in its usual form: anything else would
    /// end up as part of a key or a URL.
    pub fn new(id: impl Into<String>) -> Result<Self, InvalidInput> {
        let id = id.into();
        Self::read(&id).ok_or(InvalidInput::SessionId(id))
    }

    /// The id that this text is, if it is one. An answer names thousands: it allocates nothing.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut id: [u8; LENGTH] = text.as_bytes().try_into().ok()?;
        // Consul reads either case as the same session, and its contender keys as two.
        id.make_ascii_lowercase();
        is_uuid(&id).then_some(Self(id))
    }

    /// Whether this very text is the id.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.0 == *text.as_bytes()
    }

    /// The bytes of its text, which compare as the text does.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        // Nothing but digits, letters and dashes gets in.
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

/// Names what a caller asked a machine for, until nothing of it is left: an acquisition with its permit, a campaign with its
/// leadership, a change of the value that a leader shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub(crate) u64);

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A number that rises strictly from grant to grant of one prefix (invariant S5), or from term to
/// term of one election. Hand it to the
/// resource with every operation, and let the resource refuse any that is lower than one seen.
///
/// Of a semaphore it is 64 times the `ModifyIndex` of the record that the claim replaced, and the number of the
/// acquisition among those that the same write admits: a check-and-set succeeds once per `ModifyIndex`, Consul's indexes
/// only rise, and a transaction has room for fewer than 64. Where the write made the record, the index before the record's
/// `CreateIndex` stands for the one that it replaced: whatever was granted before is older, even if somebody deleted the record
/// meanwhile. Of an election it is the `ModifyIndex` of the key in the leader's
/// term. A snapshot that an administrator restores takes them back: let the resource forget what it has seen, then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(pub u64);

impl FencingToken {
    /// Of the acquisition with this number among those that a write admits, which replaces the record of this index.
    pub(crate) fn of_claim(replaced: Index, number: u64) -> Self {
        Self(replaced.0.saturating_mul(CLAIMS_OF_A_WRITE) | number)
    }

    /// The same of a write that made the record, which was created at this index. The next write that admits replaces the record of
    /// this very index, so that its claims come after these.
    pub(crate) fn of_first_claim(created: Index, number: u64) -> Self {
        let before = if is_on(Defect::FirstTokenRepeated) {
            created.0
        } else {
            created.0.saturating_sub(1)
        };
        Self::of_claim(Index(before), number)
    }
}

/// More than one write can admit: a transaction has 64 operations, two of which are none of theirs.
const CLAIMS_OF_A_WRITE: u64 = 64;

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Of lower-case text. It looks at every byte before it decides, so that the compiler may look at many
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

/// Where the dashes are.
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
    fn a_session_id_is_shown_in_lower_case() {
        let id = SessionId::new("4CA8E74B-6350-7587-ADDF-A18084928F3C").unwrap();
        let text = "4ca8e74b-6350-7587-addf-a18084928f3c";
        assert_eq!(id.as_str(), text);
        assert_eq!(id.to_string(), text);
        assert_eq!(format!("{id:?}"), format!("SessionId({text:?})"));
    }
}
