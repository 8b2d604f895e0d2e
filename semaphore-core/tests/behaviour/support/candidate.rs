//! A candidate that does not use this crate: a session, and the guide's requests on one key.

use semaphore_core::adapter::Transport as _;
use semaphore_core::sans_io::api::{AcquireKey, CreateSession, LOCK_FLAGS};
use semaphore_core::sans_io::{Method, Request, Response, SessionOptions};
use semaphore_core::{Behavior, Scope, SessionId};
use transport_mock::MockConsul;

use crate::support::secs;

/// The key of most elections.
pub(crate) const LEADER: &str = "service/db/leader";

/// A foreign candidate.
pub(crate) struct Candidate {
    pub(crate) session: SessionId,
}

impl Candidate {
    /// Its session has a TTL of a day and no lock delay, and does not delete its keys.
    pub(crate) fn new(world: &MockConsul) -> Self {
        let options = SessionOptions::new()
            .with_name("candidate")
            .and_then(|options| options.with_lock_delay(secs(0)))
            .and_then(|options| options.with_ttl(SessionOptions::MAX_TTL))
            .expect("options")
            .with_behavior(Behavior::Release);
        let create = CreateSession { options: &options };
        let created = send(world, create.request(&Scope::new()));
        let session = CreateSession::parse(&created).expect("a session");
        Self { session }
    }

    /// A candidate that already leads.
    pub(crate) fn leading(world: &MockConsul, value: &str) -> Self {
        let candidate = Self::new(world);
        candidate.leads(world, value);
        candidate
    }

    /// Acquires the key, or changes its value while it leads.
    pub(crate) fn leads(&self, world: &MockConsul, value: &str) {
        assert!(self.acquires(world, LEADER, value, LOCK_FLAGS));
    }

    /// Tries to acquire any key with any flags.
    pub(crate) fn acquires(&self, world: &MockConsul, key: &str, value: &str, flags: u64) -> bool {
        let acquire = AcquireKey {
            key,
            session: &self.session,
            value: value.as_bytes(),
            flags,
        };
        let answer = send(world, acquire.request(&Scope::new()));
        AcquireKey::parse(&answer).expect("an answer")
    }

    /// Releases the key, and leaves this value.
    pub(crate) fn resigns(&self, world: &MockConsul, value: &str) {
        let target = format!(
            "/v1/kv/{LEADER}?release={}&flags={LOCK_FLAGS}",
            self.session
        );
        send(world, Request::new(Method::Put, target).with_body(value));
    }

    /// Its session ends.
    pub(crate) fn dies(&self, world: &MockConsul) {
        world.consul(|consul, now| consul.destroy_session(now, self.session.as_str()));
    }
}

fn send(world: &MockConsul, request: Request) -> Response {
    let client = world.client("candidate");
    world.run(client.send(request)).expect("an answer")
}
