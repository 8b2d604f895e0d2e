//! A look at who contends and at the record, and at nothing else that lies below the prefix.
//!
//! ```text
//!            want()                       the names                       the keys are as they were taken to be
//!   Idle ────────────▶ Wanted ──▶ Names ───────────▶ Keys ──▶ under way ───────────────────────▶ a view
//!                        ▲          │ failed          ▲            │
//!                        └──────────┴─────────────────┼── failed ──┤
//!                                                     └────────────┘ some are gone, or others hold
//! ```
//! A list of the prefix sends everything below it, with each value. Others may keep thousands of keys there, and a contender may
//! show 100 kB: then a turn would cost as much as all of that. So where a list was much larger than contenders and record need
//! ([`listing`](super::listing)), it is read in two steps, neither of which sends the value of a contender:
//!
//! - the names directly below the prefix;
//! - one transaction of reads that checks for each name of a session that its key is tied to it, and gets the record. One
//!   check that fails fails all of them: what is gone is left out, and the rest asked again.
//!
//! What it does not see is a session that is tied to a key of another name. A holder that seems to have no key is looked for in a
//! list before anything else is done (invariant S3, [`Source::Named`](crate::view::Source)).
//!
//! Sources: Consul's documentation of the KV endpoint (`keys`, `separator`) and of transactions (64 operations; one that only
//! reads is answered like a read). Tried with 1.8.7: a check shows the key without its value, and each that fails is named.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::{Entry, ListNames, Operation, Results, Txn, TxnFault, TxnFaultKind, TxnOutcome};
use crate::error::RequestError;
use crate::http::{Request, Response};
use crate::id::{Index, SessionId};
use crate::machine::process::moment::Moment;
use crate::machine::process::reader::pause::Pause;
use crate::machine::semaphore::settings::Settings;
use crate::record::Record;
use crate::time::Instant;
use crate::view::{Contender, Lock, Orphan, View};

#[derive(Clone, Debug)]
pub(super) struct Glance {
    state: State,
    /// The request under way, or the last: an answer to any other is of no use.
    number: u32,
    began_at: Instant,
    /// Until it is due.
    rest: Pause,
}

#[derive(Clone, Debug)]
enum State {
    Idle,
    Wanted,
    Names,
    Keys(Keys),
}

/// What is known so far.
#[derive(Clone, Debug)]
struct Keys {
    /// When the names were asked for.
    sent: (Moment, Instant),
    index: Index,
    is_filtered: bool,
    /// Whose keys are still to be asked for, and whether that key is to be tied to its session or to nobody.
    left: BTreeMap<SessionId, Tie>,
    /// Asked for by the transaction under way, if one is.
    asked: Option<Asked>,
    found: BTreeMap<SessionId, Contender>,
    orphans: BTreeMap<SessionId, Orphan>,
    /// Those of whom something was not so, and what.
    gone: BTreeMap<SessionId, Tie>,
    record: RecordKey,
    /// How often it has asked for the record.
    rounds: u32,
}

#[derive(Clone, Debug)]
struct Asked {
    sessions: Vec<(SessionId, Tie)>,
    what: What,
}

/// Whether there is a record, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordKey {
    Sought,
    Missing,
}

/// What a transaction asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Keys,
    KeysAndRecord,
}

/// Whom a key is to be tied to. A holder whose key was not tied to it may have entered since: it is asked for once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tie {
    ItsSession,
    ItsSessionNow,
    Nobody,
}

impl Tie {
    /// What is asked next of a holder of whom this is not so.
    fn next(self) -> Option<Self> {
        match self {
            Self::ItsSession => Some(Self::ItsSessionNow),
            Self::ItsSessionNow => Some(Self::Nobody),
            Self::Nobody => None,
        }
    }
}

/// A view, and when the first of its requests was sent.
pub(super) type Seen = (View, (Moment, Instant));

impl Glance {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            state: State::Idle,
            number: 0,
            began_at: Instant::ORIGIN,
            rest: Pause::new(settings.retry_cap()),
        }
    }

    pub(super) fn want(&mut self, now: Instant) {
        if matches!(self.state, State::Idle) {
            self.state = State::Wanted;
            self.rest.hold_until(now);
        }
    }

    /// One of ours has entered. What is under way may have looked for its key before.
    pub(super) fn entered(&mut self, now: Instant) {
        if self.began_at().is_some() {
            self.state = State::Idle;
            self.want(now);
        }
    }

    pub(super) fn stop(&mut self) {
        self.state = State::Idle;
    }

    pub(super) fn is_wanted(&self) -> bool {
        matches!(self.state, State::Wanted)
    }

    /// Since when it is under way.
    pub(super) fn began_at(&self) -> Option<Instant> {
        matches!(self.state, State::Names | State::Keys(_)).then_some(self.began_at)
    }

    /// When it may begin.
    pub(super) fn starts_at(&self) -> Option<Instant> {
        self.is_wanted().then(|| self.rest.due())
    }

    /// Whether its next step follows at once.
    pub(super) fn goes_on(&self) -> bool {
        matches!(&self.state, State::Keys(keys) if keys.asked.is_none())
    }

    pub(super) fn start(&mut self, now: Instant, settings: &Settings) -> (u32, Request) {
        self.state = State::Names;
        self.began_at = now;
        let names = ListNames {
            path: &settings.prefix.directory(),
            wait: None,
            consistent: true,
        };
        self.number += 1;
        (self.number, names.request(settings.scope()))
    }

    pub(super) fn go_on(&mut self, settings: &Settings) -> Option<(u32, Request)> {
        let State::Keys(keys) = &mut self.state else {
            return None;
        };
        let request = keys.transmit(settings)?;
        self.number += 1;
        Some((self.number, request))
    }

    /// Takes the answer to a request. `also` has whom it asks for beside those who are named.
    pub(super) fn handle(
        &mut self,
        number: u32,
        sent: (Moment, Instant),
        answer: Result<&Response, RequestError>,
        also: BTreeSet<SessionId>,
        settings: &Settings,
    ) -> Result<Option<Seen>, RequestError> {
        if number != self.number {
            return Ok(None);
        }
        match &mut self.state {
            State::Names => {
                let keys = Keys::named(sent, answer?, also, settings)?;
                self.state = State::Keys(keys);
                Ok(None)
            }
            State::Keys(keys) => {
                let Some(seen) = keys.handle(answer?, settings)? else {
                    return Ok(None);
                };
                tracing::debug!(name: "read-by-name", "read who contends without what else lies below the prefix");
                self.state = State::Idle;
                self.rest.reset();
                Ok(Some(seen))
            }
            State::Idle | State::Wanted => Ok(None),
        }
    }

    pub(super) fn failed(&mut self, now: Instant, rng: &mut fastrand::Rng) {
        if self.began_at().is_some() {
            self.state = State::Wanted;
            self.rest.begin(now, rng);
        }
    }
}

impl Keys {
    fn named(
        sent: (Moment, Instant),
        response: &Response,
        also: BTreeSet<SessionId>,
        settings: &Settings,
    ) -> Result<Self, RequestError> {
        let list = ListNames::parse(response)?;
        let named = list.names.iter().filter_map(|key| {
            let name = settings.prefix.child_name(key)?;
            SessionId::read(name).filter(|session| session.is(name))
        });
        Ok(Self {
            sent,
            index: list.index,
            is_filtered: list.filtered,
            left: named.chain(also).map(|it| (it, Tie::ItsSession)).collect(),
            asked: None,
            found: BTreeMap::new(),
            orphans: BTreeMap::new(),
            gone: BTreeMap::new(),
            record: RecordKey::Sought,
            rounds: 0,
        })
    }

    /// Asks for as many as fit; with the last of them for the record.
    fn transmit(&mut self, settings: &Settings) -> Option<Request> {
        if self.asked.is_some() {
            return None;
        }
        let most = most_checks(settings);
        let left = self.left.iter().take(most);
        let sessions: Vec<_> = left.map(|(it, tie)| (it.clone(), *tie)).collect();
        let is_last = sessions.len() == self.left.len();
        let what = match self.record {
            RecordKey::Sought if is_last => What::KeysAndRecord,
            _ => What::Keys,
        };
        let record = settings.prefix.record_key();
        let keys = sessions.iter();
        let keys = keys.map(|(it, _)| settings.prefix.contender_key(it));
        let keys: Vec<_> = keys.collect();
        let checks = keys.iter().zip(&sessions);
        let checks = checks.map(|(key, (session, tie))| Operation::CheckSession {
            key,
            session: (*tie != Tie::Nobody).then_some(session),
        });
        let get = (what == What::KeysAndRecord).then_some(Operation::Get { key: &record });
        let operations: Vec<_> = checks.chain(get).collect();
        let request = Txn {
            operations: &operations,
        };
        let request = request.confirmed_read(settings.scope());
        self.asked = Some(Asked { sessions, what });
        Some(request)
    }

    fn handle(
        &mut self,
        response: &Response,
        settings: &Settings,
    ) -> Result<Option<Seen>, RequestError> {
        let outcome = Txn::parse(response)?;
        let Some(asked) = self.asked.take() else {
            return Ok(None);
        };
        match outcome {
            TxnOutcome::Applied(results) => Ok(self.learn(&asked, results, settings)),
            TxnOutcome::RolledBack(faults) => {
                self.leave_out(&asked, faults)?;
                Ok(self.knows_all().then(|| self.view(None)))
            }
        }
    }

    /// These are not as they were taken to be.
    fn leave_out(&mut self, asked: &Asked, faults: Vec<TxnFault>) -> Result<(), RequestError> {
        for fault in faults {
            if fault.kind != TxnFaultKind::Check {
                return Err(RequestError::garbled(
                    "a read that failed for no known reason",
                ));
            }
            match asked.sessions.get(fault.operation) {
                Some((session, tie)) => {
                    self.left.remove(session);
                    self.gone.insert(session.clone(), *tie);
                }
                None => self.record = RecordKey::Missing,
            }
        }
        Ok(())
    }

    fn learn(&mut self, asked: &Asked, results: Results<'_>, settings: &Settings) -> Option<Seen> {
        self.is_filtered |= results.filtered;
        let mut entries = results.entries.into_iter().peekable();
        for (session, tie) in &asked.sessions {
            self.left.remove(session);
            let key = settings.prefix.contender_key(session);
            let Some(entry) = entries.next_if(|entry| entry.key() == key) else {
                // An agent leaves out what may not be read.
                self.is_filtered = true;
                continue;
            };
            match tie {
                Tie::ItsSession | Tie::ItsSessionNow => {
                    let contender = Contender::new(session.clone(), &entry);
                    self.found.insert(session.clone(), contender);
                }
                Tie::Nobody => {
                    let orphan = Orphan::new(session.clone(), &entry);
                    self.orphans.insert(session.clone(), orphan);
                }
            }
        }
        if asked.what == What::Keys {
            return self.knows_all().then(|| self.view(None));
        }
        let record_key = settings.prefix.record_key();
        let lock = entries.next_if(|entry| entry.key() == record_key);
        self.is_filtered |= lock.is_none();
        let lock = lock.map(|entry: Entry<'_>| Lock::new(&entry));
        let record = lock.as_ref().and_then(|lock| lock.record.as_ref().ok());
        // Who has come since the names were listed, and holds; and who holds by a key that is tied to nobody.
        let holders = record.into_iter().flat_map(Record::holders);
        let unknown = holders.filter_map(|holder| {
            let session = SessionId::new(holder).ok()?;
            let is_known = self.found.contains_key(&session) || self.orphans.contains_key(&session);
            let tie = self.gone.get(&session);
            let tie = tie.map_or(Some(Tie::ItsSession), |tie| tie.next())?;
            (!is_known).then_some((session, tie))
        });
        self.left = unknown.collect();
        self.rounds += 1;
        let is_over = self.left.is_empty() || self.rounds >= MOST_ROUNDS;
        is_over.then(|| self.view(lock))
    }

    /// Whether nothing is left to be asked, the record included.
    fn knows_all(&self) -> bool {
        self.left.is_empty() && self.record == RecordKey::Missing
    }

    fn view(&mut self, lock: Option<Lock>) -> Seen {
        let contenders = core::mem::take(&mut self.found).into_values().collect();
        let orphans = core::mem::take(&mut self.orphans).into_values().collect();
        let view = View::of_named(self.index, contenders, orphans, lock, self.is_filtered);
        (view, self.sent)
    }
}

/// Where others hold each time, a list of the prefix tells more.
const MOST_ROUNDS: u32 = 6;

/// How many checks fit into a transaction beside a read, whatever the keys are.
fn most_checks(settings: &Settings) -> usize {
    let bytes = settings.prefix.as_str().len() + 256;
    (Txn::MAX_OPERATIONS - 1).min(Txn::MAX_BYTES / 2 / bytes)
}
