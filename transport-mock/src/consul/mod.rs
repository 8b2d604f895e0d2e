//! A Consul agent in memory, as a state machine: no clock, no thread, no I/O.
//!
//! ```text
//!   submit(now, request) ──► route ──► kv, session, txn, status ──► state (store, sessions, catalog)
//!                                          │                           │ what changed
//!                                          ▼                           ▼
//!   poll_answer() ◄── ready answers ◄── blocking: reads that wait for an index
//! ```
//!
//! It answers as Consul 1.8.7 does: the same status, index, headers and JSON. Refusals are of the
//! same class, but in other words where no client depends on Go's. A table of scripts and any
//! number of random ones run on both and prove it. With another [`Profile`] it answers as that
//! release and edition; one table has the differences. Its one server is its leader and serves the
//! datacenter `dc1`. Requests may come [through agents](crate::MockConsul::set_agent) of other
//! nodes.
//!
//! The caller says what time it is: every method in which time may pass takes `now`. The same seed
//! and the same calls give the same answers.
//!
//! A test uses [`MockConsul::consul`](crate::MockConsul::consul) to inspect it or to act as an
//! operator. Only the proofs of this repository drive it without a world, through `submit` and
//! `poll_answer` (feature `unstable-proofs`).
//!
//! # What differs from a real agent
//! These differences are intended. No others are known.
//!
//! | what | why |
//! |---|---|
//! | Only `/v1/kv/`, `/v1/txn`, `/v1/session/`, `/v1/status/leader` and `peers`, and a part of `/v1/agent/self` exist | A semaphore needs no other endpoints |
//! | In Enterprise every namespace and partition exists, all share one catalog, and entries don't show theirs | Nothing of Enterprise was run |
//! | Only the methods `GET`, `PUT` and `DELETE` exist | The core's `Request` has no others |
//! | A transaction supports `get`, `set` and `cas` of nodes, and ignores operations on services and checks | An operator's methods replace them |
//! | `Date`, `Vary` and compression headers are missing, and JSON is pretty only with `?pretty` | No client depends on them; a real agent is pretty without being asked only in development mode |
//! | Session ids come from the seed. Which other session wakes a query about a missing session follows the real rule, but with these ids | Runs can be repeated |
//! | A session ends exactly twice its TTL after its last renewal, and a lock delay ends exactly on time; real timers are late by what the machine needs | Runs can be repeated |
//! | A new leader has applied its log, unless `MockConsul::elect_leader_behind` (feature `unstable-proofs`) elects it | For a real one this depends on the machine |
//! | A write takes no time, so no other request comes in between | Delays belong to the network, in [`MockConsul`](crate::MockConsul) |
//! | JSON errors have other texts. Half of a surrogate pair is refused; Go replaces it | Go's decoder would have to be rebuilt |
//! | The transaction `[null]` has no operations; a real agent's handler panics and hangs up | It is a bug |
//! | A transaction that writes in a tree and then deletes it wakes the queries on what is deleted. A real agent forgets them. If the tree was the whole store (`delete-tree` without a key), the next write kills the agent with "close of closed channel" | It is a bug |
//! | A node that was registered with `serfHealth` and is no member of the cluster stays; a real leader removes it within a minute. Dead servers are not removed, as autopilot does after some ten seconds, and agents don't register their nodes again | The test decides what happens to its nodes |

mod acl;
mod answer;
mod blocking;
mod call;
mod catalog;
mod go;
mod go_json;
mod inspect;
mod keys;
mod kv;
mod limits;
mod operator;
mod options;
mod parking;
mod profile;
mod radix;
mod route;
mod session;
mod session_body;
mod sessions;
mod state;
mod status;
mod store;
mod target;
mod tenancy;
mod txn;
mod txn_body;
mod txn_node;

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use semaphore_core::adapter::{Instant, Request, Response};

pub use acl::{Access, Policy};
pub use limits::RequestLimits;
pub use operator::Snapshot;
pub use profile::{Edition, Profile, Version};
pub use sessions::Session;
pub use store::Entry;
pub use tenancy::Tenancy;

use acl::{Acl, Authority};
use answer::Freshness;
use blocking::{Parked, Views};
use call::{Asked, Call, Outcome};
use limits::{Errand, Limiter, Rank};
use parking::Parking;
use state::State;

/// The node of the agent.
pub const NODE: &str = "mock";

const DATACENTER: &str = "dc1";

/// The most that the agent adds to a wait, as a fraction of it.
const JITTER_FRACTION: u32 = 16;

/// A Consul agent in memory, see the [module](self).
#[derive(Clone)]
pub struct Consul {
    profile: Profile,
    limiter: Limiter,
    /// Those of servers that don't lead, by their nodes.
    limiters: BTreeMap<String, Limiter>,
    /// The shortest TTL that servers accept, in nanoseconds.
    least_ttl: i64,
    state: State,
    acl: Acl,
    /// Since when there is no leader, if there is none.
    leaderless_since: Option<Instant>,
    node: String,
    parked: Parking,
    ready: VecDeque<(Exchange, Response)>,
    submitted: u64,
    /// `None` if nothing is random.
    rng: Option<fastrand::Rng>,
}

/// Identifies a submitted request, to find its answer.
#[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Exchange(u64);

impl Consul {
    /// A new agent with nothing stored, which is its own leader. `seed` decides the session ids and
    /// the jitter of waits.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn new(seed: u64) -> Self {
        Self::with_profile(seed, Profile::default())
    }

    /// Like [`new`](Self::new), with another release or edition.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn with_profile(seed: u64, profile: impl Into<Profile>) -> Self {
        let profile = profile.into();
        Self {
            profile,
            limiter: Limiter::default(),
            limiters: BTreeMap::new(),
            least_ttl: session::MIN_TTL_NANOS,
            state: State::new(NODE, profile.rules().session_ids),
            acl: Acl::new(profile.rules()),
            leaderless_since: None,
            node: NODE.into(),
            parked: Parking::default(),
            ready: VecDeque::new(),
            submitted: 0,
            rng: Some(fastrand::Rng::with_seed(seed)),
        }
    }

    /// Another agent of this cluster with its present state. It receives no later changes.
    pub(crate) fn lagging(&self) -> Self {
        let mut agent = Self {
            profile: self.profile,
            limiter: self.limiter.clone(),
            limiters: self.limiters.clone(),
            least_ttl: self.least_ttl,
            state: self.state.clone(),
            acl: self.acl.clone(),
            leaderless_since: self.leaderless_since,
            node: self.node.clone(),
            parked: Parking::default(),
            ready: VecDeque::new(),
            submitted: 0,
            rng: self.rng.clone(),
        };
        // Only the leader ends sessions.
        agent.stop_timers();
        agent
    }

    /// The leader's state in a separate agent, which has a leader and asks for no token.
    pub(crate) fn for_inspection(&self) -> Self {
        let mut agent = self.lagging();
        agent.leaderless_since = None;
        agent.limiter = Limiter::default();
        agent.limiters.clear();
        agent.acl = Acl::new(self.profile.rules());
        agent
    }

    /// A new leader of this cluster that has applied its log only up to this snapshot. It receives
    /// no later changes.
    pub(crate) fn behind(&self, applied: &Snapshot) -> Self {
        let mut leader = self.lagging();
        leader.leaderless_since = None;
        leader.state = applied.0.clone();
        leader.stop_timers();
        leader
    }

    /// Sessions no longer end by their TTL until they are renewed.
    pub(crate) fn stop_timers(&mut self) {
        self.state
            .in_each(|tables| tables.sessions.stop_all_timers());
    }

    /// Restarts the timers of all sessions, as if all were renewed now.
    fn restart_timers(&mut self, now: Instant) {
        self.state
            .in_each(|tables| tables.sessions.restart_all_timers(now));
    }

    /// A new agent without randomness: session ids count up, and waits have no jitter. So equal
    /// states can be recognised, however they were reached.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn without_chance() -> Self {
        Self {
            rng: None,
            ..Self::new(0)
        }
    }

    /// Submits a request. [`poll_answer`](Self::poll_answer) returns its answer, at once unless it
    /// is a blocking query that has to wait.
    ///
    /// ```
    /// use transport_mock::adapter::{Instant, Method, Request};
    /// use transport_mock::consul::Consul;
    ///
    /// let mut consul = Consul::new(7);
    /// let put = Request::new(Method::Put, "/v1/kv/greeting").with_body("hello");
    /// consul.submit(Instant::ORIGIN, &put);
    /// let (_, answer) = consul.poll_answer().expect("a write is answered at once");
    /// assert_eq!(answer.body(), b"true");
    /// ```
    ///
    /// [`Request::timeout`] is ignored. The client gives up with [`abandon`](Self::abandon).
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn submit(&mut self, now: Instant, request: &Request) -> Exchange {
        self.serve(now, None, request)
    }

    /// Like [`submit`](Self::submit), through the agent on another node, which forwards everything
    /// to this one. A new session that names no node belongs to that agent's node. If the node is
    /// not in the catalog, such a session is refused with 500 `Missing node registration` until it
    /// is [registered](Self::register_node).
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn submit_through(
        &mut self,
        now: Instant,
        node: &str,
        request: &Request,
    ) -> Exchange {
        self.serve(now, Some(node), request)
    }

    fn serve(&mut self, now: Instant, node: Option<&str>, request: &Request) -> Exchange {
        self.handle_timeout(now);
        let exchange = Exchange(self.submitted);
        self.submitted += 1;
        let node = node.unwrap_or(&self.node).to_owned();
        match route::serve(self, now, &node, request) {
            Ok(Outcome::Read(asked)) => self.read(now, exchange, asked),
            Ok(Outcome::Ready(response)) | Err(response) => {
                self.ready.push_back((exchange, response));
            }
        }
        self.wake();
        exchange
    }

    /// The next answer, in the order in which the answers became ready. A write's answer comes
    /// first, then those of the blocking queries that it woke, oldest first.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn poll_answer(&mut self) -> Option<(Exchange, Response)> {
        self.ready.pop_front()
    }

    /// The client hung up: the request gets no answer. What it changed stays changed.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn abandon(&mut self, exchange: Exchange) {
        self.parked.remove(exchange);
        self.ready.retain(|(ready, _)| *ready != exchange);
    }

    /// The time for the next [`handle_timeout`](Self::handle_timeout): when a session or a blocking
    /// query's wait ends.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let waits = self.parked.first_end();
        let expiry = self.state.next_expiry();
        waits.into_iter().chain(expiry).min()
    }

    /// Does what is due at `now`, in the order of time. Early or repeated calls do nothing.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some(at) = self.poll_timeout().filter(|at| *at <= now) {
            while self.state.end_expired(at) {}
            self.wake();
            self.end_waits(at);
        }
        self.state.in_each(|tables| {
            tables.store.reap(now);
            tables.sessions.reap(now);
        });
    }

    /// Answers a read, or parks it.
    fn read(&mut self, now: Instant, exchange: Exchange, asked: Asked) {
        let freshness = self.freshness(now);
        let Asked {
            tenancy,
            read,
            options,
            authority,
            pretty,
        } = asked;
        let tables = self.state.tables(&tenancy);
        let view = match read.view(tables, &authority, pretty) {
            Ok(view) => view,
            Err(refusal) => {
                let refusal = self.stamped(refusal);
                self.ready.push_back((exchange, refusal));
                return;
            }
        };
        let (index, watch) = (view.index, view.watch.clone());
        let response = self.stamped(present(view, freshness, &authority));
        if options.min_index == 0 || index.max(1) > options.min_index {
            self.ready.push_back((exchange, response));
            return;
        }
        let wait = options.wait();
        let jitter = wait / JITTER_FRACTION;
        let jitter = u64::try_from(jitter.as_nanos()).unwrap_or(u64::MAX).max(1);
        let jitter = self.rng.as_mut().map_or(0, |rng| rng.u64(..jitter));
        let jitter = Duration::from_nanos(jitter);
        self.parked.add(
            exchange,
            Parked {
                tenancy,
                read,
                authority,
                pretty,
                min_index: options.min_index,
                freshness,
                deadline: now + wait + jitter,
                watch,
                last: response,
            },
        );
    }

    /// Lets the blocking queries read again whose watch covers a change.
    fn wake(&mut self) {
        let changes = self.state.take_changes();
        if changes.is_empty() {
            return;
        }
        let is_woken = |parked: &Parked| {
            let mut changes = changes.iter();
            changes.any(|it| parked.is_woken_by(&self.state, it))
        };
        let woken = self.parked.woken(is_woken);
        let mut views = Views::default();
        for exchange in woken {
            let Some(mut parked) = self.parked.remove(exchange) else {
                continue;
            };
            match views.view(&self.state, &parked) {
                Err(refusal) => {
                    let refusal = self.stamped(refusal);
                    self.ready.push_back((exchange, refusal));
                }
                Ok(view) => {
                    let (index, watch) = (view.index, view.watch.clone());
                    let response = present(view, parked.freshness, &parked.authority);
                    let response = self.stamped(response);
                    if parked.is_still_missing(&watch) && !self.profile.rules().neighbours_wake {
                        parked.min_index = parked.min_index.max(index);
                    }
                    if index.max(1) > parked.min_index {
                        self.ready.push_back((exchange, response));
                    } else {
                        parked.watch = watch;
                        parked.last = response;
                        self.parked.add(exchange, parked);
                    }
                }
            }
        }
    }

    /// Answers the blocking queries whose wait is over.
    fn end_waits(&mut self, now: Instant) {
        while let Some((exchange, parked)) = self.parked.take_ended(now) {
            self.ready.push_back((exchange, parked.last));
        }
    }

    /// Refuses a request that needs a leader while there is none, or that exceeds a limit.
    fn forward(&mut self, call: &Call, errand: Errand) -> Result<(), Response> {
        call.check_datacenter()?;
        if let Some(asked) = self.limiters.get_mut(call.node) {
            asked.admit(call.now, errand, Rank::Follower)?;
        }
        self.limiter.admit(call.now, errand, Rank::Leader)?;
        if errand == (Errand::Read { stale: true }) || self.has_leader() {
            Ok(())
        } else {
            Err(answer::failure("No cluster leader"))
        }
    }

    fn has_leader(&self) -> bool {
        self.leaderless_since.is_none()
    }

    /// What the request's token allows, or the answer to an unknown token.
    fn authorize(&self, call: &Call) -> Result<Authority, Response> {
        self.acl
            .authorize(call.token.as_deref())
            .ok_or_else(|| answer::text(403, "ACL not found"))
    }

    /// An endpoint's answer, with the headers of every answer of the release.
    fn stamped(&self, response: Response) -> Response {
        if self.profile.rules().default_policy_header {
            response.with_header("X-Consul-Default-Acl-Policy", self.acl.default_policy())
        } else {
            response
        }
    }

    fn freshness(&self, now: Instant) -> Freshness {
        Freshness {
            tells_backend: self.profile.rules().query_backend_header,
            known_leader: self.has_leader(),
            last_contact: self
                .leaderless_since
                .map_or(Duration::ZERO, |since| now.saturating_since(since)),
        }
    }

    /// A UUID in the shape of version 4.
    fn new_session_id(&mut self) -> String {
        let bits = match &mut self.rng {
            Some(rng) => rng.u128(..),
            // The index of the write that creates it.
            None => u128::from(self.state.raft_index() + 1),
        };
        let bits = bits & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
        let hex = format!("{bits:032x}");
        [
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        ]
        .join("-")
    }
}

/// A view as an answer, with the headers of a read.
fn present(view: blocking::View, freshness: Freshness, authority: &Authority) -> Response {
    let response = freshness.stamp_at(view.index, view.response);
    if view.filtered && authority.is_told_of_filtering() {
        response.with_header("X-Consul-Results-Filtered-By-ACLs", "true")
    } else {
        response
    }
}
