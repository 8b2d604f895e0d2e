//! The sequencer of Consul's sessions page: proof that a session acquired a key.

use core::fmt;
use core::str::FromStr;

use crate::api::{Entry, ReadKey};
use crate::http::Request;
use crate::id::SessionId;
use crate::input::InvalidInput;
use crate::input::Scope;

/// The tuple `(Key, LockIndex, Session)` of an election's key, or of a semaphore's contender key. A
/// third party can check with one read of Consul that its bearer still leads, or still contends.
///
/// For a semaphore it is about the contender key, not the slot; the slot has the
/// [`FencingToken`](crate::FencingToken). It requires that all clients write the key with
/// `acquire`: a plain `PUT` resets its lock index, and no sequencer is current after that. Anybody
/// can acquire *some* key, so a resource must check the sequencer's key.
///
/// As text it is `<lock index>:<session>:<key>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sequencer {
    /// The key that was acquired.
    pub key: String,
    /// How often it had been acquired, including this time.
    pub lock_index: u64,
    /// The session that acquired it.
    pub session: SessionId,
}

/// What a read of Consul says about a [`Sequencer`].
///
/// It is true at the moment of the read, which Consul's leader confirmed. It may change right
/// afterwards. Serve only what is current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SequencerStatus {
    /// The session still has the key.
    Current,
    /// The key is gone, free, or acquired again since. A stale sequencer stays stale: refuse its
    /// bearer permanently.
    Stale,
    /// Consul did not say. It could not be asked, had no leader or was overloaded until all tries
    /// were used up, or it hid the key because of missing permissions. Refuse the bearer for now;
    /// it may ask again.
    Unknown,
}

impl SequencerStatus {
    /// Whether its bearer may be served.
    pub fn is_current(self) -> bool {
        self == Self::Current
    }
}

impl Sequencer {
    /// The request whose answer says whether this is current: see [`ReadKey::parse`] and
    /// [`Self::check`].
    pub fn verify(&self, scope: &Scope) -> Request {
        ReadKey {
            key: &self.key,
            wait: None,
            consistent: true,
        }
        .request(scope)
    }

    /// Judges the entry that was read. An entry of another key says nothing.
    pub fn check(&self, found: Option<&Entry<'_>>) -> SequencerStatus {
        let Some(entry) = found else {
            return SequencerStatus::Stale;
        };
        if entry.key() != self.key {
            return SequencerStatus::Unknown;
        }
        let session = entry.session().and_then(SessionId::read);
        if entry.lock_index() == self.lock_index && session.as_ref() == Some(&self.session) {
            SequencerStatus::Current
        } else {
            SequencerStatus::Stale
        }
    }
}

impl fmt::Display for Sequencer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.lock_index, self.session, self.key)
    }
}

impl FromStr for Sequencer {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let mut parts = text.splitn(3, ':');
            let lock_index = parts.next()?.parse().ok()?;
            let session = SessionId::new(parts.next()?).ok()?;
            let key = parts.next().filter(|key| !key.is_empty())?.to_owned();
            Some(Self {
                key,
                lock_index,
                session,
            })
        };
        parse().ok_or_else(|| InvalidInput::Sequencer(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Response;

    const SESSION: &str = "4ca8e74b-6350-7587-addf-a18084928f3c";

    fn sequencer() -> Sequencer {
        Sequencer {
            key: "service/db/x:y".to_owned(),
            lock_index: 2,
            session: SessionId::new(SESSION).unwrap(),
        }
    }

    #[test]
    fn it_is_printed_and_parsed() {
        let text = sequencer().to_string();
        assert_eq!(text, format!("2:{SESSION}:service/db/x:y"));
        assert_eq!(text.parse(), Ok(sequencer()));
        for bad in [
            "",
            "2",
            "2:x:key",
            &format!("x:{SESSION}:k"),
            &format!("2:{SESSION}:"),
        ] {
            assert!(bad.parse::<Sequencer>().is_err(), "{bad}");
        }
    }

    #[test]
    fn it_is_current_only_while_all_three_agree() {
        let status = |session: &str, lock_index: u64| {
            let body = format!(
                r#"[{{"Key":"service/db/x:y","Session":"{session}","LockIndex":{lock_index}}}]"#
            );
            let response = Response::new(200, body);
            let entry = ReadKey::parse(&response).unwrap();
            sequencer().check(entry.as_ref())
        };
        assert_eq!(status(SESSION, 2), SequencerStatus::Current);
        assert_eq!(status(SESSION, 3), SequencerStatus::Stale);
        assert_eq!(status("", 2), SequencerStatus::Stale);
        assert_eq!(sequencer().check(None), SequencerStatus::Stale);
    }

    #[test]
    fn a_session_is_the_same_in_either_case() {
        let body = format!(
            r#"[{{"Key":"service/db/x:y","Session":"{}","LockIndex":2}}]"#,
            SESSION.to_uppercase()
        );
        let response = Response::new(200, body);
        let entry = ReadKey::parse(&response).unwrap();
        assert!(sequencer().check(entry.as_ref()).is_current());
    }

    #[test]
    fn an_entry_of_another_key_says_nothing() {
        let body = format!(r#"[{{"Key":"other","Session":"{SESSION}","LockIndex":2}}]"#);
        let response = Response::new(200, body);
        let entry = ReadKey::parse(&response).unwrap();
        let status = sequencer().check(entry.as_ref());
        assert_eq!(status, SequencerStatus::Unknown);
        assert!(!status.is_current());
    }
}
