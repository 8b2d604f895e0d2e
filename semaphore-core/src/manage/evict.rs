//! Takes a slot away from a session, and tells its holder why.
//!
//! ```text
//!  read the key ─▶ mark it: flags that ask to go, the reason as its value ─▶ wait for a change ─▶ gone: it has left
//!                                                                                   │
//!                                                                                   └─▶ end the session
//! ```
//! A session can't carry a reason: its name can't be changed, and its end says nothing. Its
//! contender key can. Consul keeps the key tied to the session when somebody else writes it
//! (documentation of the KV endpoint). Other kinds of clients read neither its value nor its flags,
//! and each holder watches it.

use core::time::Duration;

use super::{Step, Task};
use crate::api::{CasKey, DestroySession, Entry, ReadKey};
use crate::error::RequestError;
use crate::http::{Request, Response};
use crate::id::{Index, SessionId};
use crate::input::{InvalidInput, Prefix, Scope, checked_name};
use crate::view::ContenderFlags;

/// How long a contender may take to leave after it was asked.
const ASKED_FOR: Duration = Duration::from_secs(10);

/// Asks the contender of a session to leave, with a reason. A holder that uses this crate learns
/// that its slot is lost, by [`Lost::Evicted`](crate::Lost::Evicted). Others may have the slot as
/// soon as the holder gives its permit back. If it has not done so after ten seconds, its session
/// is ended.
///
/// Clients of other kinds only learn that their session has ended, without the reason.
#[derive(Clone, Debug)]
pub struct Evict {
    prefix: Prefix,
    scope: Scope,
    session: SessionId,
    reason: String,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Its key is not marked yet.
    Asking,
    /// Its key was marked at this index. It has time to leave.
    Asked(Index),
    /// Its session has to end.
    Ending,
}

/// How an eviction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Eviction {
    /// It was asked to leave, and has left. What it held is free.
    Left,
    /// It did not leave, and its session was ended.
    Ended,
    /// This session does not contend here.
    NotHere,
}

impl Evict {
    /// Evicts this session. The first 200 characters of the reason are shown.
    ///
    /// # Errors
    /// [`InvalidInput::Name`] for a reason that is empty or has a control character.
    pub fn new(
        prefix: Prefix,
        scope: Scope,
        session: SessionId,
        reason: impl Into<String>,
    ) -> Result<Self, InvalidInput> {
        Ok(Self {
            prefix,
            scope,
            session,
            reason: checked_name("reason", reason.into())?,
            stage: Stage::Asking,
        })
    }

    fn key(&self) -> String {
        self.prefix.contender_key(&self.session)
    }

    /// The key with its value, and the flags that ask its contender to leave.
    fn ask(&self, entry: &Entry<'_>) -> Request {
        let write = CasKey {
            key: &self.key(),
            index: entry.modify_index(),
            value: self.reason.as_bytes(),
            flags: ContenderFlags::asking_to_go(entry.flags()),
        };
        write.request(&self.scope)
    }

    fn end(&mut self) -> Step<Eviction> {
        self.stage = Stage::Ending;
        let session = &self.session;
        Step::Write(DestroySession { session }.request(&self.scope))
    }
}

impl Task for Evict {
    type Output = Eviction;

    fn read(&self) -> Request {
        let wait = match self.stage {
            Stage::Asked(index) => Some((index, ASKED_FOR)),
            Stage::Asking | Stage::Ending => None,
        };
        let read = ReadKey {
            key: &self.key(),
            wait,
            consistent: wait.is_none(),
        };
        let request = read.request(&self.scope);
        match wait {
            // The server adds up to a sixteenth, and the answer takes some time.
            Some((_, wait)) => request.with_timeout(wait * 17 / 16 + ASKED_FOR),
            None => request,
        }
    }

    fn step(&mut self, answer: &Response) -> Result<Step<Eviction>, RequestError> {
        let found = ReadKey::parse(answer)?;
        let is_its = |entry: &Entry<'_>| entry.session() == Some(self.session.as_str());
        let Some(entry) = found.filter(is_its) else {
            return Ok(Step::Done(Ok(match self.stage {
                Stage::Asking => Eviction::NotHere,
                Stage::Asked(_) => Eviction::Left,
                Stage::Ending => Eviction::Ended,
            })));
        };
        Ok(match self.stage {
            Stage::Asking if ContenderFlags::ask_to_go(entry.flags()) => {
                self.stage = Stage::Asked(entry.modify_index());
                Step::Read
            }
            Stage::Asking => Step::Write(self.ask(&entry)),
            Stage::Asked(_) | Stage::Ending => self.end(),
        })
    }
}
