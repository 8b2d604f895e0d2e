//! Agents that hold requests while there is no leader.
//!
//! ```text
//!  no leader: what is for one waits at the agent ──longest wait──▶ 500 `No cluster leader`
//!                        └── leader elected ── a while ──▶ applied, whether or not somebody still waits
//! ```
//! An agent retries each held request separately, so the first one sent may be applied last. A
//! write that its client gave up may be applied even after a read that the client sent later.
//!
//! Source: measured on agents of 1.8.7 (held for 7.1 s, applied up to 0.3 s after a later read) and
//! of 1.23 (8.6–18 s, 4.7 s).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use semaphore_core::adapter::{Instant, Request, Response};

use crate::kind::RequestKind;

use super::{Call, Event, Host, Message, Network};

/// How long requests are held, and which ones are held now.
#[derive(Debug)]
pub(super) struct Holding {
    /// How long a request waits for a leader.
    wait: RangeInclusive<Duration>,
    /// The longest time between the election and its application.
    late: Duration,
    held: BTreeMap<u64, Held>,
    count: u64,
    /// How many writes were applied after their client had given them up.
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
    /// From now on agents hold requests while there is no leader.
    pub(crate) fn hold_without_leader(&mut self, wait: RangeInclusive<Duration>, late: Duration) {
        self.holding = Some(Holding {
            wait,
            late,
            held: BTreeMap::new(),
            count: 0,
            given_up: 0,
        });
    }

    /// Holds a request that needs a leader, if there is none and requests are held.
    pub(super) fn hold(
        &mut self,
        host: Host,
        call: Option<Call>,
        request: &Request,
        sent_at: Instant,
    ) -> bool {
        let is_answered = if self.is_severed(host) {
            self.is_for_former(host, request)
        } else {
            !self.leaderless || self.is_for_lagging(host, request)
        };
        if is_answered || !needs_leader(request) {
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

    /// No leader came while this request was held.
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

    /// There is a leader: each held request reaches it, at different times.
    pub(super) fn let_held_go(&mut self) {
        let severed: Vec<_> = self.severed.keys().copied().collect();
        self.let_held_of_go(|host| !severed.contains(&host));
    }

    /// The same for some hosts.
    pub(super) fn let_held_of_go(&mut self, goes: impl Fn(Host) -> bool) {
        let Some(holding) = &mut self.holding else {
            return;
        };
        let late = Duration::ZERO..=holding.late;
        let mut given_up = 0;
        let (go, stay) = std::mem::take(&mut holding.held)
            .into_iter()
            .partition(|(_, it)| goes(it.host));
        holding.held = stay;
        let go: BTreeMap<u64, Held> = go;
        for held in go.into_values() {
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

    /// How many requests were held, and how many of those were writes that are applied after their
    /// client gave up.
    pub(crate) fn held(&self) -> (u64, u64) {
        let of = |it: &Holding| (it.count, it.given_up);
        self.holding.as_ref().map(of).unwrap_or_default()
    }

    /// Until when the agent keeps a held request's connection.
    pub(super) fn held_until(&self, call: Call) -> Option<Instant> {
        let held = &self.holding.as_ref()?.held;
        let found = held.values().find(|it| it.call == Some(call));
        found.map(|it| it.until)
    }

    /// Held requests are lost with the agents.
    pub(super) fn lose_held(&mut self) {
        if let Some(holding) = &mut self.holding {
            holding.held.clear();
        }
    }
}

pub(super) fn needs_leader(request: &Request) -> bool {
    let (path, query) = request
        .target()
        .split_once('?')
        .unwrap_or((request.target(), ""));
    let is_local = path.starts_with("/v1/agent/") || path.starts_with("/v1/status/");
    !is_local && query.split('&').all(|pair| pair != "stale")
}
