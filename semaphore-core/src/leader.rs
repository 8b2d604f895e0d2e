//! Who leads an election, as one read of its key says.
//!
//! The rules are the guide's: a key that is tied to a session is led by whoever made that session, and
//! its value is what the leader tells of itself. A key without a session has no leader.

use crate::api::{Entry, LOCK_FLAGS, ReadKey, is_filtered};
use crate::error::{Conflict, Error, RequestError};
use crate::http::Response;
use crate::id::{Index, SessionId};
use crate::input::LockKey;
use crate::record::Record;
use crate::sequencer::Sequencer;
use crate::view::ContenderFlags;

/// The leader of an election at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The election's key.
    pub key: String,
    /// What the leader tells of itself: an address, JSON, any bytes.
    pub value: Vec<u8>,
    /// Its session.
    pub session: SessionId,
    /// How often the key had been acquired when it was: with the session it names the term.
    pub lock_index: u64,
}

impl Leader {
    /// Its value as text, unless that is not UTF-8.
    pub fn text(&self) -> Option<&str> {
        core::str::from_utf8(&self.value).ok()
    }

    /// What proves that somebody is this leader, to whoever asks Consul.
    pub fn sequencer(&self) -> Sequencer {
        Sequencer {
            key: self.key.clone(),
            lock_index: self.lock_index,
            session: self.session.clone(),
        }
    }

    /// Whether both are the same leader in the same term, whatever their values are.
    pub fn is_same_term(&self, other: &Self) -> bool {
        (&self.session, self.lock_index) == (&other.session, other.lock_index)
    }
}

/// Whether somebody leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaderStatus {
    /// This one does.
    Led(Leader),
    /// Nobody does.
    Leaderless {
        /// What the key says all the same, none where there is no key. It is a former leader's as a
        /// rule: nobody answers for it any more.
        last_value: Option<Vec<u8>>,
    },
}

impl LeaderStatus {
    /// The leader, if there is one.
    pub fn leader(&self) -> Option<&Leader> {
        match self {
            Self::Led(leader) => Some(leader),
            Self::Leaderless { .. } => None,
        }
    }

    /// The leader, if there is one, taken out.
    pub fn into_leader(self) -> Option<Leader> {
        match self {
            Self::Led(leader) => Some(leader),
            Self::Leaderless { .. } => None,
        }
    }

    /// Understands an answer to [`ReadKey`], with the index to wait on.
    ///
    /// # Errors
    /// [`Error::NotAnElection`] for a key that belongs to something else; [`Error::Request`] for an
    /// answer that says nothing of the key.
    pub fn parse(key: &LockKey, response: &Response) -> Result<(Index, Self), Error> {
        let (index, found) = Self::read(key, response)?;
        let status = found.map_err(|conflict| Error::NotAnElection {
            key: key.to_string(),
            conflict,
        })?;
        Ok((index, status))
    }

    /// Like [`Self::parse`]. An index belongs to a conflict, too: it may be a former one.
    pub(crate) fn read(
        key: &LockKey,
        response: &Response,
    ) -> Result<(Index, Result<Self, Conflict>), RequestError> {
        let (index, entry) = ReadKey::parse_at(response)?;
        let found = match entry {
            Some(entry) => Self::of_entry(key, &entry)?,
            None if is_filtered(response) => return Err(hidden()),
            None => Ok(Self::Leaderless { last_value: None }),
        };
        Ok((index, found))
    }

    fn of_entry(key: &LockKey, entry: &Entry<'_>) -> Result<Result<Self, Conflict>, RequestError> {
        if entry.key() != key.as_str() {
            return Err(garbled("an entry of another key"));
        }
        let value = entry.value()?;
        let session = entry
            .session()
            .map(|id| SessionId::read(id).ok_or_else(|| garbled("a session that is none")))
            .transpose()?;
        if let Some(conflict) = conflict(key, entry.flags(), session.as_ref(), &value) {
            return Ok(Err(conflict));
        }
        let Some(session) = session else {
            let last_value = Some(value);
            return Ok(Ok(Self::Leaderless { last_value }));
        };
        Ok(Ok(Self::Led(Leader {
            key: key.to_string(),
            value,
            session,
            lock_index: entry.lock_index(),
        })))
    }
}

/// The guide's `curl` leaves the flags at 0, Go's client sets its own and refuses all others. A
/// semaphore's record in the guide's dialect has 0, too, but is never tied to a session.
fn conflict(
    key: &LockKey,
    flags: u64,
    session: Option<&SessionId>,
    value: &[u8],
) -> Option<Conflict> {
    let is_record = || session.is_none() && Record::decode(value, 0).is_ok();
    match flags {
        LOCK_FLAGS => None,
        0 => (is_contender_key(key, flags, session) || is_record()).then_some(Conflict::Semaphore),
        flags => Some(conflict_of(flags)),
    }
}

/// Whether it is where somebody contends for a semaphore as in the guide: without flags, on the key that
/// ends with its session.
pub(crate) fn is_contender_key(key: &LockKey, flags: u64, session: Option<&SessionId>) -> bool {
    flags == 0 && session.is_some() && key.last_session().as_ref() == session
}

fn garbled(what: &'static str) -> RequestError {
    RequestError::Garbled { what, source: None }
}

fn hidden() -> RequestError {
    RequestError::Denied {
        text: "the answer leaves the key out".to_owned(),
    }
}

/// What flags say that are not an election's.
pub(crate) fn conflict_of(flags: u64) -> Conflict {
    if ContenderFlags::decode(flags).is_some() {
        Conflict::Semaphore
    } else {
        Conflict::ElectionFlags { flags }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::SEMAPHORE_FLAGS;

    const SESSION: &str = "4ca8e74b-6350-7587-addf-a18084928f3c";

    fn parse(fields: &str) -> Result<LeaderStatus, Error> {
        let body = format!(r#"[{{"Key":"service/db/leader",{fields}}}]"#);
        let response = Response::new(200, body).with_header("X-Consul-Index", "29");
        let key = LockKey::new("service/db/leader").unwrap();
        LeaderStatus::parse(&key, &response).map(|(index, status)| {
            assert_eq!(index, Index(29));
            status
        })
    }

    fn conflict_of(fields: &str) -> Conflict {
        match parse(fields) {
            Err(Error::NotAnElection { key, conflict }) => {
                assert_eq!(key, "service/db/leader");
                conflict
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_guides_example_has_a_leader() {
        let fields = format!(
            r#""Session":"{SESSION}","Value":"Ym9keQ==","Flags":0,"LockIndex":1,
                "ModifyIndex":29,"CreateIndex":29"#
        );
        let leader = parse(&fields).unwrap().into_leader().unwrap();
        assert_eq!(leader.text(), Some("body"));
        assert_eq!(leader.session.as_str(), SESSION);
        assert_eq!(
            leader.sequencer().to_string(),
            format!("1:{SESSION}:service/db/leader")
        );
    }

    #[test]
    fn a_value_that_is_no_text_is_bytes_all_the_same() {
        let fields = format!(r#""Session":"{SESSION}","Value":"/wA=","Flags":0"#);
        let leader = parse(&fields).unwrap().into_leader().unwrap();
        assert_eq!(leader.value, [0xff, 0]);
        assert_eq!(leader.text(), None);
    }

    #[test]
    fn a_key_without_a_session_has_no_leader_but_a_last_value() {
        for session in ["", r#""Session":"","#, r#""Session":null,"#] {
            let status = parse(&format!(r#"{session}"Value":"Ym9keQ==","Flags":0"#)).unwrap();
            let last_value = Some(b"body".to_vec());
            assert_eq!(status, LeaderStatus::Leaderless { last_value });
        }
    }

    #[test]
    fn a_missing_key_has_no_leader_and_one_that_is_hidden_is_denied() {
        let key = LockKey::new("a").unwrap();
        let missing = Response::new(404, "").with_header("X-Consul-Index", "7");
        let (index, status) = LeaderStatus::parse(&key, &missing).unwrap();
        assert_eq!(index, Index(7));
        assert_eq!(status, LeaderStatus::Leaderless { last_value: None });
        let hidden = missing.with_header("X-Consul-Results-Filtered-By-ACLs", "true");
        let error = LeaderStatus::parse(&key, &hidden).unwrap_err();
        assert!(
            matches!(error, Error::Request(RequestError::Denied { .. })),
            "{error:?}"
        );
    }

    #[test]
    fn go_s_flags_are_an_elections_and_others_a_conflict() {
        assert_eq!(LOCK_FLAGS, 3_304_740_253_564_472_344);
        assert!(parse(&format!(r#""Flags":{LOCK_FLAGS}"#)).is_ok());
        let tied = |flags: u64| format!(r#""Flags":{flags},"Session":"{SESSION}""#);
        assert!(parse(&tied(LOCK_FLAGS)).is_ok());
        assert_eq!(
            conflict_of(&tied(42)),
            Conflict::ElectionFlags { flags: 42 }
        );
        assert_eq!(conflict_of(&tied(SEMAPHORE_FLAGS)), Conflict::Semaphore);
    }

    #[test]
    fn a_record_of_the_guide_is_a_semaphores_unless_it_is_what_a_leader_says() {
        // {"Limit":1,"Holders":[]}
        let record = r#""Value":"eyJMaW1pdCI6MSwiSG9sZGVycyI6W119","Flags":0"#;
        assert_eq!(conflict_of(record), Conflict::Semaphore);
        assert!(parse(&format!(r#"{record},"Session":"{SESSION}""#)).is_ok());
    }

    #[test]
    fn a_contender_key_of_the_guide_ends_with_its_session_and_has_no_flags() {
        let session = SessionId::new(SESSION).unwrap();
        let is_one = |key: &str, flags, session| {
            let key = LockKey::new(key).unwrap();
            is_contender_key(&key, flags, session)
        };
        let key = format!("service/db/{SESSION}");
        assert!(is_one(&key, 0, Some(&session)));
        assert!(!is_one(&key, LOCK_FLAGS, Some(&session)));
        assert!(!is_one(&key, 0, None));
        assert!(!is_one("service/db", 0, None));
        assert!(!is_one("service/db", 0, Some(&session)));
    }

    #[test]
    fn what_is_not_of_this_key_or_no_session_is_garbled() {
        let key = LockKey::new("b").unwrap();
        let other = Response::new(200, r#"[{"Key":"a"}]"#).with_header("X-Consul-Index", "7");
        let errors = [
            LeaderStatus::parse(&key, &other).unwrap_err(),
            parse(r#""Session":"leader""#).unwrap_err(),
            parse(r#""Value":"%""#).unwrap_err(),
        ];
        for error in errors {
            let Error::Request(error) = error else {
                panic!("{error:?}");
            };
            assert!(!error.is_permanent(), "{error}");
        }
    }
}
