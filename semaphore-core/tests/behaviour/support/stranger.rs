//! A contender that does not use this crate.

use semaphore_core::adapter::{Method, Request, Response, Transport as _};
use semaphore_core::{Prefix, SessionId};
use transport_mock::{MockClient, MockConsul};

use crate::support::PREFIX;

/// A session with a contender key, which the guide's requests have made.
pub(crate) struct Stranger {
    client: MockClient,
    pub(crate) session: SessionId,
}

impl Stranger {
    /// A session without a TTL, which lives until it is destroyed.
    pub(crate) fn session(world: &MockConsul) -> Self {
        Self::session_with(world, r#"{"NodeChecks":[]}"#)
    }

    /// A session with this creation body.
    pub(crate) fn session_with(world: &MockConsul, body: &str) -> Self {
        let client = world.client("stranger");
        let created = call(world, &client, Method::Put, "/v1/session/create", body);
        let created: serde_json::Value = serde_json::from_slice(created.body()).expect("JSON");
        let id = created["ID"].as_str().expect("an id");
        let session = SessionId::new(id).expect("a session id");
        Self { client, session }
    }

    /// A session with a contender key. It waits and never claims.
    pub(crate) fn enters(world: &MockConsul) -> Self {
        let stranger = Self::session(world);
        stranger.acquires(world, &stranger.key());
        stranger
    }

    /// Acquires any key.
    pub(crate) fn acquires(&self, world: &MockConsul, key: &str) {
        let target = format!(
            "/v1/kv/{key}?acquire={}&flags=16210313421097356768",
            self.session
        );
        let answer = self.call(world, Method::Put, &target, "stranger");
        assert_eq!(answer.body().trim_ascii(), b"true", "{target}");
    }

    /// Its contender key.
    pub(crate) fn key(&self) -> String {
        let prefix = Prefix::new(PREFIX).expect("a prefix");
        prefix.contender_key(&self.session)
    }

    /// Sends any request of the stranger.
    pub(crate) fn call(
        &self,
        world: &MockConsul,
        method: Method,
        target: &str,
        body: &str,
    ) -> Response {
        call(world, &self.client, method, target, body)
    }

    pub(crate) fn is_alive(&self, world: &MockConsul) -> bool {
        world.consul(|consul, _| {
            consul
                .sessions()
                .any(|session| session.id() == self.session.as_str())
        })
    }

    /// Destroys the session and its key with it.
    pub(crate) fn leaves(self, world: &MockConsul) {
        let key = format!("/v1/kv/{}", self.key());
        self.call(world, Method::Delete, &key, "");
        world.consul(|consul, now| consul.destroy_session(now, self.session.as_str()));
    }
}

/// Sends a request as an operator.
pub(crate) fn operate(world: &MockConsul, method: Method, target: &str, body: &str) -> Response {
    call(world, &world.client("operator"), method, target, body)
}

fn call(
    world: &MockConsul,
    client: &MockClient,
    method: Method,
    target: &str,
    body: &str,
) -> Response {
    let request = Request::new(method, target).with_body(body);
    let answer = world.run(client.send(request)).expect("an answer");
    assert_eq!(answer.status(), 200, "{target}");
    answer
}
