//! A read besides the watch, confirmed by the leader. It reads the prefix if a long poll would only
//! answer at the next change, or if answers contradict each other. It reads the record before a
//! write if others write it at any moment.
//!
//! Source: Consul's documentation of consistency modes: with `?consistent` the leader confirms
//! itself with a majority.

use crate::api::{ListKeys, ReadKey};
use crate::http::Request;
use crate::machine::process::reader::pause::Pause;
use crate::machine::semaphore::settings::Settings;
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(super) struct Refresh {
    of: Of,
    state: State,
    /// The pause before it.
    rest: Pause,
}

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Prefix,
    Record,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Wanted,
    InFlight,
}

impl Refresh {
    pub(super) fn new(of: Of, settings: &Settings) -> Self {
        Self {
            of,
            state: State::Idle,
            rest: Pause::new(settings.retry_cap()),
        }
    }

    pub(super) fn want(&mut self, now: Instant) {
        if self.state == State::Idle {
            self.state = State::Wanted;
            self.rest.hold_until(now);
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.state == State::Idle
    }

    pub(super) fn stop(&mut self) {
        self.state = State::Idle;
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        match self.state {
            State::Wanted => Some(self.rest.due()),
            State::Idle | State::InFlight => None,
        }
    }

    pub(super) fn transmit(&mut self, now: Instant, settings: &Settings) -> Option<Request> {
        if self.timeout().is_none_or(|at| at > now) {
            return None;
        }
        self.state = State::InFlight;
        let (wait, consistent) = (None, true);
        Some(match self.of {
            Of::Prefix => ListKeys {
                prefix: &settings.prefix,
                wait,
                consistent,
            }
            .request(settings.scope()),
            Of::Record => ReadKey {
                key: &settings.prefix.record_key(),
                wait,
                consistent,
            }
            .request(settings.scope()),
        })
    }

    pub(super) fn answered(&mut self) {
        self.rest.reset();
        self.state = State::Idle;
    }

    pub(super) fn failed(&mut self, now: Instant, rng: &mut fastrand::Rng) {
        if self.state == State::InFlight {
            self.state = State::Wanted;
            self.rest.begin(now, rng);
        }
    }
}
