//! What the agent alone needs: the lower bounds for the cost of an acquisition.
//!
//! - A plain write of a small value.
//! - A bare turn: the two transactions that every acquisition with a kept session needs. One ties
//!   the contender key and writes the record, and the other undoes both. Nothing is decided,
//!   watched or waited for. What an acquisition takes beyond this is the semaphore's own cost.

use std::time::{Duration, Instant};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use semaphore_core::adapter::{Method, Request, Response, Transport as _};
use semaphore_core::sans_io::api::{
    CasKey, CreateSession, DeleteKey, DestroySession, Entry, Operation, SEMAPHORE_FLAGS, Txn,
    TxnOutcome,
};
use semaphore_core::sans_io::{Index, SessionOptions};
use semaphore_core::{Error, Prefix, RequestError, Scope, SessionId};

use crate::backend::Host;
use crate::failure::Failure;

/// How many of each are measured beside a run with so many acquisitions: as many, within these
/// limits.
const LEAST: usize = 20;
const MOST: usize = 200;

/// How many are sent before, so that the connection is open and the agent is ready.
const WARM_UP: usize = 20;

/// About as long as a small record.
const VALUE: &str =
    "a value as long as a small record of a semaphore is, with two holders or three";

/// The measured durations.
#[derive(Clone, Debug, Default)]
pub struct Bare {
    /// Plain writes.
    pub puts: Vec<Duration>,
    /// Bare turns. Empty if the agent accepts no transactions.
    pub turns: Vec<Duration>,
}

/// Measures both for a run with this number of acquisitions, one request after the other, on keys beside the semaphore.
/// Leaves nothing behind.
///
/// # Errors
/// [`Failure::Semaphore`] if a request fails.
pub fn measure(host: &Host, prefix: &Prefix, acquisitions: usize) -> Result<Bare, Failure> {
    let wire = Wire { host };
    let times = acquisitions.clamp(LEAST, MOST);
    host.wait(wire.measure(&format!("{prefix}-bare"), times))
        .map_err(Error::from)
        .map_err(Failure::from)
}

impl Extend<Bare> for Bare {
    fn extend<I: IntoIterator<Item = Bare>>(&mut self, others: I) {
        for other in others {
            self.puts.extend(other.puts);
            self.turns.extend(other.turns);
        }
    }
}

struct Wire<'a> {
    host: &'a Host,
}

impl Wire<'_> {
    async fn measure(&self, place: &str, times: usize) -> Result<Bare, RequestError> {
        let options = SessionOptions::new();
        let create = CreateSession { options: &options };
        let session = CreateSession::parse(&self.send(create.request(&Scope::new())).await?)?;
        let (plain, lock) = (format!("{place}/plain"), format!("{place}/.lock"));
        let contender = format!("{place}/{session}");

        let mut bare = Bare::default();
        let mut index = Some(Index::ZERO);
        for round in 0..WARM_UP + times {
            let began = Instant::now();
            CasKey::parse(&self.send(put(&plain)).await?)?;
            let put = began.elapsed();
            let began = Instant::now();
            index = match index {
                Some(index) => self.turn(&lock, &contender, &session, index).await?,
                None => None,
            };
            let turn = began.elapsed();
            if round >= WARM_UP {
                bare.puts.push(put);
                bare.turns.extend(index.map(|_| turn));
            }
        }

        for key in [&plain, &lock] {
            let delete = DeleteKey { key, index: None };
            DeleteKey::parse(&self.send(delete.request(&Scope::new())).await?)?;
        }
        let session = &session;
        let destroy = DestroySession { session }.request(&Scope::new());
        DestroySession::parse(&self.send(destroy).await?)?;
        Ok(bare)
    }

    /// Enters and leaves. Returns the record's index, or `None` if there are no transactions.
    async fn turn(
        &self,
        lock: &str,
        contender: &str,
        session: &SessionId,
        index: Index,
    ) -> Result<Option<Index>, RequestError> {
        let (value, flags) = (VALUE.as_bytes(), SEMAPHORE_FLAGS);
        let cas = |index| Operation::Cas {
            key: lock,
            index,
            value,
            flags,
        };
        let tie = Operation::Lock {
            key: contender,
            session,
            value: b"",
            flags,
        };
        let Some(entered) = self.apply(&[tie, cas(index)]).await? else {
            return Ok(None);
        };
        let delete = Operation::Delete { key: contender };
        self.apply(&[delete, cas(entered)]).await
    }

    /// Applies them and returns their index.
    async fn apply(&self, operations: &[Operation<'_>]) -> Result<Option<Index>, RequestError> {
        let answer = self.send(Txn { operations }.request(&Scope::new())).await?;
        match Txn::parse(&answer) {
            Ok(TxnOutcome::Applied(results)) => Ok(results.entries.last().map(Entry::modify_index)),
            Ok(_) => Ok(None),
            Err(error) if error.is_permanent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn send(&self, request: Request) -> Result<Response, RequestError> {
        let answer = self.host.send(request).await;
        answer.map_err(RequestError::Transport)
    }
}

fn put(key: &str) -> Request {
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-');
    let target = format!("/v1/kv/{}", utf8_percent_encode(key, KEPT));
    Request::new(Method::Put, target).with_body(VALUE)
}
