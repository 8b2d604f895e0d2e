//! A history for a judge.

use std::time::Duration;

use judge::Record;
use semaphore_core::error::Subject;
use semaphore_core::sans_io::Instant;
use semaphore_core::{FencingToken, Lost, SessionId};
use simulation::check::{Bounds, Invariant, Judge};
use simulation::history::{Belief, BeliefNo, Change, Ending, Found, Happening, Subject as Of, Who};
use simulation::plan::{HostBounds, Place};

pub(crate) const A: &str = "aaaaaaaa-0000-0000-0000-000000000000";
pub(crate) const B: &str = "bbbbbbbb-0000-0000-0000-000000000000";

pub(crate) fn at(secs: u64) -> Instant {
    Instant::from_origin(Duration::from_secs(secs))
}

/// A history for a judge, up to the first verdict.
pub(crate) struct History {
    judge: Judge,
    pub(crate) held: Vec<Belief>,
    pub(crate) verdict: Option<Invariant>,
    now: Instant,
}

pub(crate) fn bounds() -> Bounds {
    Bounds {
        limit: 1,
        changes_limits: false,
        retry_cap: Duration::from_secs(1),
        latency: Duration::from_millis(1),
        lock_delay: Duration::from_secs(15),
        longest_lock_delay: Duration::from_secs(15),
        longest_session: Duration::from_secs(30),
        lost_poll: Duration::from_secs(22),
        request_timeout: Duration::from_secs(2),
        is_slow: false,
        of_yesterday: None,
    }
}

pub(crate) fn history() -> History {
    history_within(bounds())
}

pub(crate) fn history_within(bounds: Bounds) -> History {
    History {
        judge: Judge::new(bounds),
        held: Vec::new(),
        verdict: None,
        now: at(0),
    }
}

impl History {
    pub(crate) fn at(mut self, secs: u64) -> Self {
        self.now = at(secs);
        self.settled()
    }

    pub(crate) fn then(self, what: &Happening) -> Self {
        self.in_one_step([what])
    }

    /// All of this happens before the judge hears that the step is over.
    pub(crate) fn in_one_step<const N: usize>(mut self, all: [&Happening; N]) -> Self {
        for what in all {
            let verdict = self.judge.happen(self.now, what);
            self.note(verdict);
        }
        self.settled()
    }

    pub(crate) fn granted(mut self, belief: &Belief, token: u64) -> Self {
        self.held.push(belief.clone());
        let (belief, token) = (belief.clone(), FencingToken(token));
        self.then(&Happening::Granted { belief, token })
    }

    pub(crate) fn settled(mut self) -> Self {
        let held: Vec<_> = self.held.iter().collect();
        let verdict = self.judge.settle(self.now, &held);
        self.note(verdict);
        self
    }

    pub(crate) fn note(&mut self, verdict: Result<(), simulation::check::Violation>) {
        let found = verdict.err().map(|violation| violation.invariant);
        self.verdict = self.verdict.or(found);
    }
}

pub(crate) fn belief(no: u32, host: usize, session: &str) -> Belief {
    Belief {
        no: BeliefNo(no),
        who: Who::Ours(host),
        prefix: 0,
        sessions: vec![session.to_owned()],
        permits: 1,
    }
}

/// A process of this host starts, with leases of 15 s unless it shares connections.
pub(crate) fn booted(host: usize, lease: Option<Duration>) -> Happening {
    Happening::Booted {
        host,
        prefix: 0,
        place: Place::Semaphore,
        bounds: HostBounds {
            limit: 1,
            lease,
            ..HostBounds::default()
        },
    }
}

pub(crate) fn began(session: &str, host: usize) -> Happening {
    let (session, owner) = (session.to_owned(), Who::Ours(host));
    Happening::SessionBegan { session, owner }
}

pub(crate) fn ended(session: &str, by: Ending) -> Happening {
    let session = session.to_owned();
    Happening::SessionEnded { session, by }
}

pub(crate) fn taken(session: &str) -> Happening {
    let (session, is_guarded) = (session.to_owned(), false);
    Happening::Taken {
        session,
        prefix: 0,
        is_guarded,
    }
}

/// The session has ended, and its lock delay is long enough.
pub(crate) fn guarded(session: &str) -> Happening {
    let (session, is_guarded) = (session.to_owned(), true);
    Happening::Taken {
        session,
        prefix: 0,
        is_guarded,
    }
}

pub(crate) fn lost(reason: Lost) -> Happening {
    let belief = belief(1, 0, A);
    Happening::Lost { belief, reason }
}

pub(crate) fn lease_expired() -> Lost {
    Lost::LeaseExpired {
        session: session(),
        last_failure: None,
        unsent: None,
        on: Subject::default(),
    }
}

#[expect(clippy::expect_used, reason = "a test's own constant")]
pub(crate) fn session() -> SessionId {
    SessionId::new(A).expect("a session")
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "what is found in its place may be none"
)]
pub(crate) fn record(limit: u32, holders: &[&str]) -> Found {
    let mut record = Record::new(limit);
    for holder in holders {
        record.add(holder);
    }
    Some(Ok(record))
}

/// A write by host 0 that removes nobody.
pub(crate) fn written(before: Found, after: Found, added: &[&str]) -> Happening {
    Happening::Changed(change(Who::Ours(0), before, after, added))
}

pub(crate) fn change(by: Who, before: Found, after: Found, added: &[&str]) -> Change {
    Change {
        prefix: 0,
        by,
        sent_at: None,
        is_bound: true,
        added: added.iter().map(|it| (*it).to_owned()).collect(),
        passed: Vec::new(),
        may_have_passed: Vec::new(),
        removed: Vec::new(),
        ahead: Vec::new(),
        waiting: 0,
        of: Of::Record { before, after },
    }
}

pub(crate) fn admits(session: &str) -> Happening {
    written(record(1, &[]), record(1, &[session]), &[session])
}
