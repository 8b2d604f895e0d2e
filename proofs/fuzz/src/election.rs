//! A mangled Consul for a [`Candidate`]: see `drive`.

use std::time::Duration;

use semaphore_core::sans_io::{
    Candidate, CommandId, ElectionSettings, Instant, Request, Response, SessionOptions, Term, Value,
};
use semaphore_core::{Error, LockKey, SessionId};
use transport_mock::RequestKind;
use transport_mock::consul::Consul;

use crate::ceiling::Ceiling;
use crate::choices::Choices;
use crate::drive::drive;
use crate::key_oracle::KeyOracle;
use crate::stranger::{self, KEY};
use crate::subject::{MOST_UNANSWERED, Subject, Wait, scope};

/// Plays the input.
pub fn run(input: &[u8]) {
    let mut choices = Choices::new(input);
    let (campaigner, seed) = Campaigner::drawn(&mut choices);
    drive(campaigner, seed, &mut choices);
}

/// A candidate with its oracle.
pub(crate) struct Campaigner {
    candidate: Candidate,
    oracle: KeyOracle,
    polls: Ceiling,
}

impl Campaigner {
    /// `value` is the candidate's value.
    pub(crate) fn new(options: SessionOptions, value: &[u8], seed: u64) -> Self {
        let key = LockKey::new(KEY).expect("a key");
        let settings = ElectionSettings::new(key)
            .with_scope(scope())
            .with_session_options(options)
            .with_value(Value::new(value).expect("a small value"));
        let mut oracle = KeyOracle::default();
        oracle.allow(value);
        Self {
            candidate: Candidate::new(settings, seed),
            oracle,
            // PROMISES: reads.
            polls: Ceiling::new(60, Duration::from_millis(10)),
        }
    }

    fn drawn(choices: &mut Choices<'_>) -> (Self, u64) {
        let mut options = SessionOptions::new();
        if choices.once_in(4) {
            options = options.with_ttl(SessionOptions::MAX_TTL).expect("a TTL");
        }
        let value = choices.pick(&[&b"node-1"[..], b"", b"\xff\x00"]);
        let seed = choices.number() & 0xff;
        (Self::new(options, value, seed), seed)
    }
}

impl Subject for Campaigner {
    type Machine = Candidate;

    /// Eight sessions are created or destroyed at once. An abandoned poll, the next one, and a read or a
    /// write.
    const MOST_OPEN: usize = 8 + MOST_UNANSWERED + 3;

    fn machine(&self) -> &Candidate {
        &self.candidate
    }

    fn machine_mut(&mut self) -> &mut Candidate {
        &mut self.candidate
    }

    fn check(&mut self, now: Instant, request: &Request) {
        if RequestKind::of(request) == RequestKind::KvWatch {
            self.polls.take(now);
        }
        self.oracle.check(request);
    }

    fn show(&mut self, request: &Request, response: &Response) {
        self.oracle.show(request, response);
    }

    fn granted(&mut self, term: &Term) -> Vec<SessionId> {
        self.oracle.check_term(term);
        vec![term.sequencer.session.clone()]
    }

    fn ask(&mut self, now: Instant, _: u32, wait: Wait) -> Result<CommandId, Error> {
        let asked: Result<CommandId, _> = match wait {
            Wait::Not => self.candidate.try_campaign(now),
            Wait::Until(deadline) => self.candidate.campaign(now, Some(deadline)),
            Wait::Forever => self.candidate.campaign(now, None),
        };
        asked
    }

    fn change(
        &mut self,
        now: Instant,
        choices: &mut Choices<'_>,
        known: Option<CommandId>,
    ) -> Option<CommandId> {
        let value = choices.pick(&[&b"node-1"[..], b"busy", b"", &[b'x'; 300]]);
        self.oracle.allow(value);
        let value = Value::new(value).expect("a small value");
        let change = self.candidate.set_value(now, known?, &value);
        Some(change)
    }

    fn disturb(way: usize, now: Instant, consul: &mut Consul, choices: &mut Choices<'_>) {
        stranger::disturb(way, now, consul, choices);
    }

    fn tidy(_: Instant, _: &mut Consul) {}
}
