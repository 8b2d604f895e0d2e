//! A read outside the watch, confirmed by the leader: for when a long poll would only answer at the
//! next change, or when its answers contradict each other.

use core::time::Duration;

use crate::api::ListKeys;
use crate::http::Request;
use crate::machine::process::reader::backoff::Backoff;
use crate::machine::semaphore::settings::Settings;
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(super) struct Refresh {
    state: State,
    backoff: Backoff,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Wanted { at: Instant },
    InFlight,
}

impl Refresh {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            state: State::Idle,
            backoff: Backoff::new(Duration::from_millis(100), settings.retry_cap()),
        }
    }

    pub(super) fn want(&mut self, now: Instant) {
        if self.state == State::Idle {
            self.state = State::Wanted { at: now };
        }
    }

    pub(super) fn stop(&mut self) {
        self.state = State::Idle;
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        match self.state {
            State::Wanted { at } => Some(at),
            State::Idle | State::InFlight => None,
        }
    }

    pub(super) fn transmit(&mut self, now: Instant, settings: &Settings) -> Option<Request> {
        if self.timeout().is_none_or(|at| at > now) {
            return None;
        }
        self.state = State::InFlight;
        let list = ListKeys {
            prefix: &settings.prefix,
            wait: None,
            consistent: true,
        };
        Some(
            list.request(settings.scope())
                .with_timeout(settings.request_timeout()),
        )
    }

    pub(super) fn answered(&mut self) {
        self.backoff.reset();
        self.state = State::Idle;
    }

    pub(super) fn failed(&mut self, now: Instant, rng: &mut fastrand::Rng) {
        if self.state == State::InFlight {
            let at = now + self.backoff.next(rng);
            self.state = State::Wanted { at };
        }
    }
}
