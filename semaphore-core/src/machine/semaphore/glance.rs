//! Reads the contenders and the record, and nothing else below the prefix.
//!
//! ```text
//!            want()                       the names                       the keys are as they were taken to be
//!   Idle ────────────▶ Wanted ──▶ Names ───────────▶ Keys ──▶ under way ───────────────────────▶ a view
//!                        ▲          │ failed          ▲            │
//!                        └──────────┴─────────────────┼── failed ──┤
//!                                                     └────────────┘ some are gone, or others hold
//! ```
//! A list of the prefix sends everything below it, with all values. Others may keep thousands of
//! keys there, and a contender may show 100 kB: then every turn would cost all of that. So if a
//! list was much larger than contenders and record require ([`listing`](super::listing)), they are
//! read in two steps. Neither sends the value of a contender:
//!
//! - the names directly below the prefix;
//! - one transaction of reads, which checks for each session's name that its key is tied to it, and
//!   gets the record. One failed check fails the whole transaction: keys that failed are left out,
//!   and the rest is asked again.
//!
//! It misses a session that is tied to a key with another name. So a holder that seems to have no
//! key is looked up in a list before anything else is done (S3,
//! [`Source::Named`](crate::view::Source)).
//!
//! Sources: Consul's documentation of the KV endpoint (`keys`, `separator`) and of transactions (64
//! operations; one that only reads is answered like a read). Tried with 1.8.7: a check returns the
//! key without its value, and each failed check is named.

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
    /// The number of the present or last request. Answers to others are not needed.
    number: u32,
    began_at: Instant,
    /// The pause before it.
    rest: Pause,
}

#[derive(Clone, Debug)]
enum State {
    Idle,
    Wanted,
    Names,
    Keys(Keys),
}

/// The results so far.
#[derive(Clone, Debug)]
struct Keys {
    /// When the names were requested.
    sent: (Moment, Instant),
    index: Index,
    is_filtered: bool,
    /// The keys that are still to be checked, and whether each should be tied to its session or to
    /// none.
    left: BTreeMap<SessionId, Tie>,
    /// The transaction under way.
    asked: Option<Asked>,
    found: BTreeMap<SessionId, Contender>,
    orphans: BTreeMap<SessionId, Orphan>,
    /// The keys that failed a check, and which.
    gone: BTreeMap<SessionId, Tie>,
    record: RecordKey,
    /// How often the record was requested.
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
    /// The record was missing a moment before. It may have been created since.
    KeysAndNoRecord,
}

/// What a key should be tied to. A holder whose key was not tied may have entered since, so it is
/// checked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tie {
    ItsSession,
    ItsSessionNow,
    Nobody,
}

impl Tie {
    /// The next check for a holder that failed this one.
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

    /// One of ours has entered by a write of the record. The requests under way may have looked for its key before.
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

    /// Since when it runs.
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

    /// Takes the answer to a request. `also` adds sessions to those in the names.
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

    /// Checks as many keys as fit. The last transaction also gets the record, or checks that there
    /// is none: it shows what is true at one moment.
    fn transmit(&mut self, settings: &Settings) -> Option<Request> {
        if self.asked.is_some() {
            return None;
        }
        let most = most_checks(settings);
        let left = self.left.iter().take(most);
        let sessions: Vec<_> = left.map(|(it, tie)| (it.clone(), *tie)).collect();
        let is_last = sessions.len() == self.left.len();
        let what = match self.record {
            _ if !is_last => What::Keys,
            RecordKey::Sought => What::KeysAndRecord,
            RecordKey::Missing => What::KeysAndNoRecord,
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
        let of_record = match what {
            What::Keys => None,
            What::KeysAndRecord => Some(Operation::Get { key: &record }),
            What::KeysAndNoRecord => Some(Operation::CheckNotExists { key: &record }),
        };
        let operations: Vec<_> = checks.chain(of_record).collect();
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

    /// These failed a check.
    fn leave_out(&mut self, asked: &Asked, faults: Vec<TxnFault>) -> Result<(), RequestError> {
        for fault in faults {
            if fault.kind != TxnFaultKind::Check {
                return Err(RequestError::garbled(
                    "a read that failed for no known reason",
                ));
            }
            if let Some((session, tie)) = asked.sessions.get(fault.operation) {
                self.left.remove(session);
                self.gone.insert(session.clone(), *tie);
            } else {
                self.record = match asked.what {
                    What::KeysAndNoRecord => RecordKey::Sought,
                    What::Keys | What::KeysAndRecord => RecordKey::Missing,
                };
                self.rounds += 1;
            }
        }
        if self.rounds >= MOST_ROUNDS {
            return Err(RequestError::garbled("a record that comes and goes"));
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
        match asked.what {
            What::Keys => return None,
            What::KeysAndNoRecord => return Some(self.view(None)),
            What::KeysAndRecord => {}
        }
        let record_key = settings.prefix.record_key();
        let lock = entries.next_if(|entry| entry.key() == record_key);
        self.is_filtered |= lock.is_none();
        let lock = lock.map(|entry: Entry<'_>| Lock::new(&entry));
        let record = lock.as_ref().and_then(|lock| lock.record.as_ref().ok());
        // Holders who came after the names were listed, and holders whose key is tied to no
        // session.
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

    /// Whether nothing is left to request, including the record.
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

/// If others hold each time, a list of the prefix is better.
const MOST_ROUNDS: u32 = 6;

/// How many checks fit into a transaction besides a read, with keys of any length.
fn most_checks(settings: &Settings) -> usize {
    let bytes = settings.prefix.as_str().len() + 256;
    (Txn::MAX_OPERATIONS - 1).min(Txn::MAX_BYTES / 2 / bytes)
}

#[cfg(test)]
mod tests {
    use crate::machine::fixture::{A, at, session, settings};
    use crate::machine::semaphore::glance::*;
    use crate::sans_io::RequestId;

    fn fails(operation: usize, what: &str) -> Response {
        let body =
            format!(r#"{{"Results":null,"Errors":[{{"OpIndex":{operation},"What":"{what}"}}]}}"#);
        Response::new(409, body)
    }

    #[test]
    fn a_record_that_is_created_while_the_keys_are_read_is_not_taken_for_missing() {
        let settings = settings();
        let directory = settings.prefix.directory();
        let mut glance = Glance::new(&settings);
        glance.want(at(0));
        let (number, _) = glance.start(at(0), &settings);
        let sent = (Moment::of(RequestId(1)), at(0));
        let answer = |glance: &mut Glance, number, response: &Response| {
            let also = BTreeSet::new();
            glance
                .handle(number, sent, Ok(response), also, &settings)
                .unwrap()
        };
        let names =
            Response::new(200, format!(r#"["{directory}{A}"]"#)).with_header("X-Consul-Index", "7");
        assert!(answer(&mut glance, number, &names).is_none());
        let ask = |glance: &mut Glance| {
            let (number, request) = glance.go_on(&settings).unwrap();
            (number, String::from_utf8(request.body().to_vec()).unwrap())
        };

        let (number, asked) = ask(&mut glance);
        assert!(asked.contains(r#""Verb":"get""#), "{asked}");
        let record = settings.prefix.record_key();
        let missing = format!("key \\\"{record}\\\" doesn't exist");
        assert!(answer(&mut glance, number, &fails(1, &missing)).is_none());

        let (number, asked) = ask(&mut glance);
        assert!(asked.contains(r#""Verb":"check-not-exists""#), "{asked}");
        let exists = format!("key \\\"{record}\\\" exists");
        assert!(answer(&mut glance, number, &fails(1, &exists)).is_none());

        let (number, asked) = ask(&mut glance);
        assert!(asked.contains(r#""Verb":"get""#), "{asked}");
        let key = |name: &str, rest: &str| {
            format!(
                r#"{{"KV":{{"Key":"{directory}{name}","Flags":0,"CreateIndex":8,"ModifyIndex":9{rest}}}}}"#
            )
        };
        let tied = key(
            A,
            &format!(r#","LockIndex":1,"Session":"{A}","Value":null"#),
        );
        let held = key(".lock", r#","LockIndex":0,"Value":"e30=""#);
        let both = Response::new(
            200,
            format!(r#"{{"Results":[{tied},{held}],"Errors":null}}"#),
        );
        let (view, _) = answer(&mut glance, number, &both).expect("a view");
        assert!(view.lock().is_some());
        assert!(view.is_alive(session(A).as_str()));
    }
}
