//! A Consul agent in memory, as a state machine: no clock, no thread, no I/O.
//!
//! ```text
//!   submit(now, request) ──► route ──► kv, session, txn, status ──► state (store, sessions, catalog)
//!                                          │                           │ what changed
//!                                          ▼                           ▼
//!   poll_answer() ◄── ready answers ◄── blocking: reads that wait for an index
//! ```
//!
//! It answers as Consul 1.8.7 does, which a table of scripts and any number of random ones prove,
//! run on both: the same status, index, headers and JSON, and refusals of the same class, in other words where no client
//! goes by Go's. Or it answers as another [`Profile`] has it: a release and an edition. What differs between them is one table. Its
//! one server is its own leader and serves the datacenter `dc1`; requests may come
//! [through agents](crate::MockConsul::set_agent) of other nodes.
//!
//! Time is what the caller says it is: every method that can let time pass takes `now`. The same seed and the same calls
//! give the same answers.
//!
//! A test reaches it by [`MockConsul::consul`](crate::MockConsul::consul), to look and to act as an operator. To drive it
//! without a world, by `submit` and `poll_answer`, is for the proofs of this repository (feature `unstable-proofs`).
//!
//! # What differs from a real agent
//! On purpose, and nothing else is known to:
//!
//! | what | why |
//! |---|---|
//! | Other endpoints than `/v1/kv/`, `/v1/txn`, `/v1/session/`, `/v1/status/leader` and `peers`, `/v1/agent/self` are unknown, and of the last only a part is shown | A semaphore needs no others |
//! | In Enterprise every namespace and partition is there, the catalog is one for all of them, and entries don't show theirs | Nothing of Enterprise was run |
//! | Other methods than `GET`, `PUT` and `DELETE` don't exist | The core's `Request` has no others |
//! | Of operations on the catalog a transaction knows `get`, `set` and `cas` of nodes; it passes over those on services and checks | They are what an operator's methods are for |
//! | `Date`, `Vary` and headers of compression are not shown, JSON is pretty only with `?pretty` | No client goes by them; a real agent is pretty unasked only in development mode |
//! | Ids of sessions come from the seed. Which other session wakes a query about one that is gone follows the real rule, but from these ids | Runs can be repeated |
//! | A session ends exactly twice its TTL after its last renewal, a lock delay exactly when it is over; a real one's timers are late by what the machine needs | Runs can be repeated |
//! | A leader that was elected has applied its log, unless `MockConsul::elect_leader_behind` (feature `unstable-proofs`) elects it | When a real one has is up to the machine |
//! | A write's time is none, so that no other request comes in between | Delays are the network's, in [`MockConsul`](crate::MockConsul) |
//! | JSON that is refused is refused in other words, and one half of a surrogate pair is refused, where Go replaces it | Go's decoder would have to be rebuilt |
//! | The transaction `[null]` is one without operations; a real agent's handler panics and hangs up | It is a bug |
//! | A transaction that deletes a tree after it wrote in it wakes who waits for what is deleted. A real agent forgets them, and when the tree was the whole store (`delete-tree` without a key) it dies of the next write, with "close of closed channel" | It is a bug |
//! | A node that was registered with `serfHealth` and is no member of the cluster stays; a real leader removes it within a minute. Nor does autopilot take out a server that has died, as a real leader does after some ten seconds, or an agent register its node again | A test decides what becomes of its nodes |

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
use std::collections::VecDeque;

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
use limits::{Errand, Limiter};
use parking::Parking;
use state::State;

/// The name of the agent's own node.
pub const NODE: &str = "mock";

const DATACENTER: &str = "dc1";

/// What the agent adds to a wait at most, as a fraction of it.
const JITTER_FRACTION: u32 = 16;

/// A Consul agent in memory, see the [module](self).
#[derive(Clone)]
pub struct Consul {
    profile: Profile,
    limiter: Limiter,
    state: State,
    acl: Acl,
    /// When the leader was lost, while there is none.
    leaderless_since: Option<Instant>,
    node: String,
    parked: Parking,
    ready: VecDeque<(Exchange, Response)>,
    submitted: u64,
    /// None where nothing is left to chance.
    rng: Option<fastrand::Rng>,
}

/// One request that was submitted, to tell its answer from others'.
#[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Exchange(u64);

impl Consul {
    /// A new agent, its own leader, with nothing stored. `seed` decides the ids of sessions and
    /// the jitter of waits.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn new(seed: u64) -> Self {
        Self::with_profile(seed, Profile::default())
    }

    /// The same of another release or edition.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn with_profile(seed: u64, profile: impl Into<Profile>) -> Self {
        let profile = profile.into();
        Self {
            profile,
            limiter: Limiter::default(),
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

    /// Another agent of this cluster as it is at this moment, which learns of nothing from now on.
    pub(crate) fn lagging(&self) -> Self {
        let mut agent = Self {
            profile: self.profile,
            limiter: self.limiter.clone(),
            state: self.state.clone(),
            acl: self.acl.clone(),
            leaderless_since: self.leaderless_since,
            node: self.node.clone(),
            parked: Parking::default(),
            ready: VecDeque::new(),
            submitted: 0,
            rng: self.rng.clone(),
        };
        // Sessions are ended by the leader alone.
        agent.stop_timers();
        agent
    }

    /// The leader's state in a separate agent that has a leader and asks for no token.
    pub(crate) fn for_inspection(&self) -> Self {
        let mut agent = self.lagging();
        agent.leaderless_since = None;
        agent.limiter = Limiter::default();
        agent.acl = Acl::new(self.profile.rules());
        agent
    }

    /// A new leader of this cluster that has applied no more of its log than this, and learns of
    /// nothing from now on.
    pub(crate) fn behind(&self, applied: &Snapshot) -> Self {
        let mut leader = self.lagging();
        leader.leaderless_since = None;
        leader.state = applied.0.clone();
        leader.stop_timers();
        leader
    }

    /// No session ends by its TTL any more, until it is renewed.
    pub(crate) fn stop_timers(&mut self) {
        self.state
            .in_each(|tables| tables.sessions.stop_all_timers());
    }

    /// All sessions live as if they were renewed now.
    fn restart_timers(&mut self, now: Instant) {
        self.state
            .in_each(|tables| tables.sessions.restart_all_timers(now));
    }

    /// A new agent that leaves nothing to chance: the ids of its sessions count up, and its waits
    /// have no jitter. A state that was reached in two ways can then be recognised.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn without_chance() -> Self {
        Self {
            rng: None,
            ..Self::new(0)
        }
    }

    /// Hands a request over. Its answer comes out of [`poll_answer`](Self::poll_answer), at once
    /// unless it is a blocking query that has to wait.
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
    /// [`Request::timeout`] is not looked at: giving up is the client's part, by
    /// [`abandon`](Self::abandon).
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn submit(&mut self, now: Instant, request: &Request) -> Exchange {
        self.serve(now, None, request)
    }

    /// The same through the agent on another node, which forwards everything to this one. It is its
    /// node that a session stands on whose maker names none. A node that is not in the catalog can be
    /// [registered](Self::register_node); until then, such a session is refused with 500 `Missing node
    /// registration`.
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

    /// The next answer, in the order in which they became ready: first that of a write, then
    /// those of the blocking queries that it woke, oldest first.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn poll_answer(&mut self) -> Option<(Exchange, Response)> {
        self.ready.pop_front()
    }

    /// The client hung up: the request is not answered any more. What it changed stays changed.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn abandon(&mut self, exchange: Exchange) {
        self.parked.remove(exchange);
        self.ready.retain(|(ready, _)| *ready != exchange);
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do next: a session ends or
    /// a blocking query's wait is over.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let waits = self.parked.first_end();
        let expiry = self.state.next_expiry();
        waits.into_iter().chain(expiry).min()
    }

    /// Does what is due at `now`, in the order of time. Calls that are early or repeated do
    /// nothing.
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

    /// Lets the blocking queries look again whose watch covers what changed.
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

    /// Refuses a request that the leader would have to answer while there is none, and one too many.
    fn forward(&mut self, call: &Call, errand: Errand) -> Result<(), Response> {
        call.check_datacenter()?;
        self.limiter.admit(call.now, errand)?;
        if errand == (Errand::Read { stale: true }) || self.has_leader() {
            Ok(())
        } else {
            Err(answer::failure("No cluster leader"))
        }
    }

    fn has_leader(&self) -> bool {
        self.leaderless_since.is_none()
    }

    /// What the request's bearer may do, or the answer to an unknown token.
    fn authorize(&self, call: &Call) -> Result<Authority, Response> {
        self.acl
            .authorize(call.token.as_deref())
            .ok_or_else(|| answer::text(403, "ACL not found"))
    }

    /// The answer of an endpoint, with what every answer of the release has.
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
