//! Takes a slot away from a session, and tells it why.
//!
//! ```text
//!  read the key ─▶ mark it: flags that ask to go, the reason as its value ─▶ wait for a change ─▶ gone: it has left
//!                                                                                   │
//!                                                                                   └─▶ end the session
//! ```
//! A session has no room for a reason: its name can't be changed, and its end tells nothing. Its contender key has: Consul keeps it tied
//! to the session when somebody else writes it (documentation of the KV endpoint), no client of another kind reads its value or its
//! flags, and each holder watches it.

use core::time::Duration;

use super::{Step, Task};
use crate::api::{CasKey, DestroySession, Entry, ReadKey};
use crate::error::RequestError;
use crate::http::{Request, Response};
use crate::id::{Index, SessionId};
use crate::input::{InvalidInput, Prefix, Scope, checked_name};
use crate::view::ContenderFlags;

/// How long a contender may take to go when it is asked to.
const ASKED_FOR: Duration = Duration::from_secs(10);

/// Asks the contender on a session to go, and says why. A holder that uses this crate is told that its slot is lost, by
/// [`Lost::Evicted`](crate::Lost::Evicted), and others may have the slot as soon as it gives its permit back. If it has not done so after
/// ten seconds, its session is ended.
///
/// Some are not told the reason, but only that their session has ended: holders in a crowd (see [`Settings::with_crowd`]) and
/// those that are looked after [together](crate::Builder::own_polls), since they watch only the record; clients of other kinds;
/// and waiters.
///
/// [`Settings::with_crowd`]: crate::sans_io::Settings::with_crowd
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
    /// Its key is to be marked.
    Asking,
    /// It was marked at this index, and is waited for.
    Asked(Index),
    /// Its session is to end.
    Ending,
}

/// How an eviction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Eviction {
    /// It was asked to go, and has gone. What it held is free.
    Left,
    /// It did not go, and its session was ended.
    Ended,
    /// Nobody contends here by this session.
    NotHere,
}

impl Evict {
    /// This session, for a reason of which the first 200 characters are shown.
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

    /// The key as it is, with the flags that ask to go.
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
            // The server adds up to a sixteenth, and the answer takes its time.
            Some((_, wait)) => request.with_timeout(wait * 17 / 16 + ASKED_FOR),
            None => request,
        }
    }

    fn step(&mut self, answer: &Response) -> Result<Step<Eviction>, RequestError> {
        let (index, found) = ReadKey::parse_at(answer)?;
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
                self.stage = Stage::Asked(index);
                Step::Read
            }
            Stage::Asking => Step::Write(self.ask(&entry)),
            Stage::Asked(_) | Stage::Ending => self.end(),
        })
    }
}
