//! Who leads an election, according to one read of its key.
//!
//! The rules are the guide's. If the key is tied to a session, the owner of that session leads, and
//! the value is what the leader shows. A key without a session has no leader. [`ElectionKey`]
//! decides whether it is an election's key.

use crate::api::{Entry, ReadKey};
use crate::election_key::ElectionKey;
use crate::error::{Conflict, Error, RequestError};
use crate::http::Response;
use crate::id::{FencingToken, Index, SessionId};
use crate::input::LockKey;
use crate::sequencer::Sequencer;
use crate::subject::Subject;

/// The leader of an election at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The election's key.
    pub key: String,
    /// The leader's value: an address, JSON, any bytes.
    pub value: Vec<u8>,
    /// Its session.
    pub session: SessionId,
    /// How often the key was acquired, including this time. With the session it identifies the
    /// term.
    pub lock_index: u64,
    /// Separates this term from earlier ones: the [fencing token](crate::Leadership::fencing_token)
    /// of this leader is at least this high. If you have followed the election since before the
    /// term, the tokens of all earlier leaders are below it, and a resource can refuse those. After
    /// a single read it is only the index at which the key was created.
    pub fence: FencingToken,
}

impl Leader {
    /// The leader that the key shows, if there is one.
    pub(crate) fn of(key: &LockKey, shown: &ElectionKey) -> Option<Self> {
        if shown.conflict_at(key).is_some() {
            return None;
        }
        Some(Self {
            key: key.to_string(),
            value: shown.value.clone(),
            session: shown.session.clone()?,
            lock_index: shown.lock_index,
            fence: FencingToken(shown.create_index.0),
        })
    }

    /// Whether the token certainly belongs to an earlier leader.
    pub fn is_after(&self, token: FencingToken) -> bool {
        token < self.fence
    }

    /// Its value as text, if that is UTF-8.
    pub fn text(&self) -> Option<&str> {
        core::str::from_utf8(&self.value).ok()
    }

    /// Proves to everyone who can ask Consul that somebody is this leader.
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
    /// This one leads.
    Led(Leader),
    /// Nobody leads.
    Leaderless {
        /// The key's value, or `None` without a key. It is usually a former leader's, and no longer
        /// valid.
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

    /// The leader, if there is one, by value.
    pub fn into_leader(self) -> Option<Leader> {
        match self {
            Self::Led(leader) => Some(leader),
            Self::Leaderless { .. } => None,
        }
    }

    /// Reads an answer to [`ReadKey`], with the index to wait on.
    ///
    /// # Errors
    /// [`Error::NotAnElection`] if the key belongs to something else. [`Error::Request`] if the
    /// answer says nothing about the key.
    pub fn parse(key: &LockKey, response: &Response) -> Result<(Index, Self), Error> {
        let Sighting { index, found, .. } = Sighting::of(key, response)?;
        let status = found.map_err(|conflict| Error::NotAnElection {
            key: key.to_string(),
            conflict,
            on: Subject::default(),
        })?;
        Ok((index, status))
    }

    fn of_entry(key: &LockKey, entry: &Entry<'_>) -> Result<Result<Self, Conflict>, RequestError> {
        if entry.key() != key.as_str() {
            return Err(RequestError::garbled("an entry of another key"));
        }
        let found = ElectionKey::new(entry)?;
        if let Some(conflict) = found.conflict_at(key) {
            return Ok(Err(conflict));
        }
        Ok(Ok(match Leader::of(key, &found) {
            Some(leader) => Self::Led(leader),
            None => Self::Leaderless {
                last_value: Some(found.value),
            },
        }))
    }
}

/// What one read of the key shows.
#[derive(Debug)]
pub(crate) struct Sighting {
    /// The index to wait on. If the key is not an election's, it may be older.
    pub(crate) index: Index,
    /// When the key last changed. `None` without a key.
    pub(crate) changed_at: Option<Index>,
    pub(crate) found: Result<LeaderStatus, Conflict>,
}

impl Sighting {
    pub(crate) fn of(key: &LockKey, response: &Response) -> Result<Self, RequestError> {
        let (index, entry) = ReadKey::parse_at(response)?;
        let found = match &entry {
            Some(entry) => LeaderStatus::of_entry(key, entry)?,
            None => Ok(LeaderStatus::Leaderless { last_value: None }),
        };
        Ok(Self {
            index,
            changed_at: entry.map(|entry| entry.modify_index()),
            found,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{LOCK_FLAGS, SEMAPHORE_FLAGS};

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
            Err(Error::NotAnElection { key, conflict, .. }) => {
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
        let fields = format!(r#""Session":"{SESSION}","Value":"/wA=","Flags":0,"LockIndex":1"#);
        let leader = parse(&fields).unwrap().into_leader().unwrap();
        assert_eq!(leader.value, [0xff, 0]);
        assert_eq!(leader.text(), None);
    }

    #[test]
    fn a_key_without_a_session_has_no_leader_but_a_last_value() {
        for session in ["", r#""Session":"","#, r#""Session":null,"#] {
            let status = parse(&format!(
                r#"{session}"Value":"Ym9keQ==","Flags":0,"LockIndex":1"#
            ))
            .unwrap();
            let last_value = Some(b"body".to_vec());
            assert_eq!(status, LeaderStatus::Leaderless { last_value });
        }
    }

    #[test]
    fn a_value_that_was_written_without_acquire_is_somebody_elses() {
        let written = r#""Value":"Ym9keQ==","Flags":0,"LockIndex":0"#;
        assert_eq!(conflict_of(written), Conflict::ElectionFlags { flags: 0 });
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
        let tied = |flags: u64| format!(r#""Flags":{flags},"Session":"{SESSION}","LockIndex":1"#);
        assert!(parse(&tied(LOCK_FLAGS)).is_ok());
        assert_eq!(
            conflict_of(&tied(42)),
            Conflict::ElectionFlags { flags: 42 }
        );
        assert_eq!(conflict_of(&tied(SEMAPHORE_FLAGS)), Conflict::Semaphore);
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
