//! Agents that hold requests while there is no leader, in the hope of one.
//!
//! ```text
//!  no leader: what is for one waits at the agent ──longest wait──▶ 500 `No cluster leader`
//!                        └── leader elected ── a while ──▶ applied, whether or not somebody still waits
//! ```
//! Each tries again on its own, so that what was sent first may be applied last: a write that its client has given up even
//! after a read that its client sent later.
//!
//! Source: measured on agents of 1.8.7 (held for 7.1 s, applied up to 0.3 s after a later read) and of 1.23 (8.6–18 s,
//! 4.7 s).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use semaphore_core::adapter::{Instant, Request, Response};

use crate::kind::RequestKind;

use super::{Call, Event, Host, Message, Network};

/// How long requests are held, and who is.
#[derive(Debug)]
pub(super) struct Holding {
    /// How long a request waits for a leader.
    wait: RangeInclusive<Duration>,
    /// How long after the election it is applied, at most.
    late: Duration,
    held: BTreeMap<u64, Held>,
    count: u64,
    /// How many writes were let go whose client had given them up.
    given_up: u64,
}

#[derive(Debug)]
struct Held {
    host: Host,
    call: Option<Call>,
    request: Request,
    sent_at: Instant,
    until: Instant,
}

impl Network {
    /// From now on agents hold what comes while there is no leader.
    pub(crate) fn hold_without_leader(&mut self, wait: RangeInclusive<Duration>, late: Duration) {
        self.holding = Some(Holding {
            wait,
            late,
            held: BTreeMap::new(),
            count: 0,
            given_up: 0,
        });
    }

    /// Holds a request that only a leader can answer, if there is none and requests are held.
    pub(super) fn hold(
        &mut self,
        host: Host,
        call: Option<Call>,
        request: &Request,
        sent_at: Instant,
    ) -> bool {
        if !self.leaderless || !needs_leader(request) || self.is_for_lagging(host, request) {
            return false;
        }
        let Some(wait) = self.holding.as_ref().map(|it| it.wait.clone()) else {
            return false;
        };
        let until = self.now + self.draw_between(&wait);
        let Some(holding) = &mut self.holding else {
            return false;
        };
        holding.count += 1;
        let held = Held {
            host,
            call,
            request: request.clone(),
            sent_at,
            until,
        };
        holding.held.insert(holding.count, held);
        self.timeline.add(until, Event::HeldInVain(holding.count));
        true
    }

    /// No leader came while this one was held.
    pub(super) fn end_hold(&mut self, number: u64) {
        let held = self.holding.as_mut().and_then(|it| it.held.remove(&number));
        if let Some(Held { host, call, .. }) = held
            && let Some(call) = call
            && self.servers.remove(&call).is_some()
        {
            let answer = Response::new(500, "No cluster leader");
            self.travel(host, Message::Answer(call, Ok(answer)));
        }
    }

    /// There is a leader: what is held reaches it, each at another time.
    pub(super) fn let_held_go(&mut self) {
        let Some(holding) = &mut self.holding else {
            return;
        };
        let late = Duration::ZERO..=holding.late;
        let mut given_up = 0;
        for held in std::mem::take(&mut holding.held).into_values() {
            let at = self.now + self.draw_between(&late);
            let Held {
                host,
                call,
                request,
                sent_at,
                ..
            } = held;
            let is_wanted = call.is_some_and(|call| self.clients.contains_key(&call));
            if RequestKind::of(&request).is_write() && !is_wanted {
                given_up += 1;
            }
            self.timeline
                .add(at, Event::Arrive(host, call, request, sent_at));
        }
        if let Some(holding) = &mut self.holding {
            holding.given_up += given_up;
        }
    }

    /// How many requests were held, and how many writes of them are applied though their client has given them up.
    pub(crate) fn held(&self) -> (u64, u64) {
        let of = |it: &Holding| (it.count, it.given_up);
        self.holding.as_ref().map(of).unwrap_or_default()
    }

    /// Until when the agent keeps the connection of a request that it holds.
    pub(super) fn held_until(&self, call: Call) -> Option<Instant> {
        let held = &self.holding.as_ref()?.held;
        let found = held.values().find(|it| it.call == Some(call));
        found.map(|it| it.until)
    }

    /// What is held is lost with the agents.
    pub(super) fn lose_held(&mut self) {
        if let Some(holding) = &mut self.holding {
            holding.held.clear();
        }
    }
}

fn needs_leader(request: &Request) -> bool {
    let (path, query) = request
        .target()
        .split_once('?')
        .unwrap_or((request.target(), ""));
    let is_local = path.starts_with("/v1/agent/") || path.starts_with("/v1/status/");
    !is_local && query.split('&').all(|pair| pair != "stale")
}
