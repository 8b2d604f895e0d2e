//! A leader that was elected before it has applied its log: what it answers, and which requests
//! wait.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use crate::support::{
    SECOND, create_session, get, index_of, put, put_new, session_id, status, stored, text, watch,
};
use semaphore_core::adapter::{Method, Request, Response, Transport as _};
use transport_mock::consul::Snapshot;
use transport_mock::{Fault, MockClient, MockConsul, Rule, Task};

struct Bench {
    world: MockConsul,
    client: MockClient,
}

impl Bench {
    fn new() -> Self {
        let world = MockConsul::new(1);
        let client = world.client("a");
        Self { world, client }
    }

    fn send(&self, request: Request) -> Response {
        self.world
            .run(self.client.send(request))
            .expect("an answer")
    }

    /// Sends a request that is answered later.
    fn start(&self, request: Request) -> Task<Response> {
        let client = self.client.clone();
        let answer = async move { client.send(request).await.expect("an answer") };
        let task = self.world.start(answer);
        self.world.advance(SECOND);
        task
    }

    fn snapshot(&self) -> Snapshot {
        self.world.consul(|consul, _| consul.snapshot())
    }
}

fn renew(id: &str) -> Request {
    Request::new(Method::Put, format!("/v1/session/renew/{id}"))
}

fn info(id: &str) -> Request {
    Request::new(Method::Get, format!("/v1/session/info/{id}?consistent"))
}

#[test]
fn a_session_that_is_not_yet_applied_is_unknown_to_a_renewal() {
    let bench = Bench::new();
    let applied = session_id(&bench.send(create_session()));
    let before = bench.snapshot();
    let unapplied = session_id(&bench.send(create_session()));
    bench.world.elect_leader_behind(&before);
    let unknown = bench.send(renew(&unapplied));
    assert_eq!(unknown.status(), 404);
    assert_eq!(
        text(&unknown),
        format!("Session id '{unapplied}' not found")
    );
    assert_eq!(bench.send(renew(&applied)).status(), 200);
    bench.world.catch_up_leader();
    assert_eq!(bench.send(renew(&unapplied)).status(), 200);
}

#[test]
fn a_consistent_read_waits_until_the_log_is_applied() {
    let bench = Bench::new();
    let before = bench.snapshot();
    let id = session_id(&bench.send(create_session()));
    bench.world.elect_leader_behind(&before);
    let mut confirmed = bench.start(info(&id));
    assert!(confirmed.try_take().is_none());
    bench.world.catch_up_leader();
    assert!(text(&bench.world.run(confirmed)).contains(&id));
}

#[test]
fn a_default_read_shows_what_is_applied_at_its_index() {
    let bench = Bench::new();
    bench.send(put("key", "old"));
    let before = bench.snapshot();
    bench.send(put("key", "new"));
    let newest = index_of(&bench.send(get("key")));
    bench.world.elect_leader_behind(&before);
    let old = bench.send(get("key"));
    assert_eq!(text(&old), "old");
    assert!(index_of(&old) < newest);
    bench.world.catch_up_leader();
    assert_eq!(text(&bench.send(get("key"))), "new");
}

#[test]
fn a_blocking_query_is_answered_with_what_the_log_held() {
    let bench = Bench::new();
    bench.send(put("key", "old"));
    let index = index_of(&bench.send(get("key")));
    let before = bench.snapshot();
    bench.send(put("key", "new"));
    bench.world.elect_leader_behind(&before);
    let mut poll = bench.start(watch("key", index, 60 * SECOND));
    assert!(poll.try_take().is_none());
    bench.world.catch_up_leader();
    assert_eq!(text(&bench.world.run(poll)), "new");
    assert!(bench.world.now().since_origin() < 2 * SECOND);
}

#[test]
fn writes_are_applied_behind_the_log_in_their_order_and_answered_then() {
    let bench = Bench::new();
    let before = bench.snapshot();
    bench.send(put("key", "from the log"));
    bench.world.elect_leader_behind(&before);
    let mut refused = bench.start(put_new("key", "too late"));
    let mut first = bench.start(put_new("other", "first"));
    let mut second = bench.start(put_new("other", "second"));
    assert!(refused.try_take().is_none());
    assert!(first.try_take().is_none());
    assert!(second.try_take().is_none());
    bench.world.catch_up_leader();
    assert_eq!(text(&bench.world.run(refused)), "false");
    assert_eq!(text(&bench.world.run(first)), "true");
    assert_eq!(text(&bench.world.run(second)), "false");
    assert_eq!(stored(&bench.world, "key").as_deref(), Some("from the log"));
}

#[test]
fn a_write_whose_client_gave_up_is_applied_all_the_same() {
    let bench = Bench::new();
    let before = bench.snapshot();
    bench.world.elect_leader_behind(&before);
    bench.start(put("given-up", "value")).abort();
    bench.world.inject(Rule::new(Fault::ResetAfter));
    let reset = status(&bench.client, put("reset", "value"));
    assert!(bench.world.run(reset).is_err());
    bench.world.advance(SECOND);
    assert_eq!(stored(&bench.world, "given-up"), None);
    bench.world.catch_up_leader();
    bench.world.advance(SECOND);
    for key in ["given-up", "reset"] {
        assert_eq!(stored(&bench.world, key).as_deref(), Some("value"), "{key}");
    }
}

#[test]
fn a_write_is_refused_when_the_leader_is_lost_before_it_has_caught_up() {
    let bench = Bench::new();
    let before = bench.snapshot();
    bench.world.elect_leader_behind(&before);
    let write = bench.start(put("key", "value"));
    bench.world.lose_leader();
    assert_eq!(text(&bench.world.run(write)), "No cluster leader");
    bench.world.elect_leader();
    assert_eq!(stored(&bench.world, "key"), None);
}

#[test]
fn no_session_expires_before_the_log_is_applied_and_then_all_times_start_anew() {
    let bench = Bench::new();
    let id = session_id(&bench.send(create_session()));
    bench.world.elect_leader_behind(&bench.snapshot());
    assert_eq!(bench.send(renew(&id)).status(), 200);
    bench.world.advance(60 * SECOND);
    bench.world.catch_up_leader();
    let sessions = || bench.world.consul(|consul, _| consul.sessions().count());
    bench.world.advance(19 * SECOND);
    assert_eq!(sessions(), 1);
    bench.world.advance(SECOND);
    assert_eq!(sessions(), 0);
}

#[test]
fn a_host_whose_agent_lags_reads_from_that_and_is_renewed_by_the_leader() {
    let bench = Bench::new();
    let before = bench.snapshot();
    let id = session_id(&bench.send(create_session()));
    bench.send(put("key", "value"));
    bench.world.lag("a");
    bench.world.elect_leader_behind(&before);
    assert_eq!(text(&bench.send(get("key"))), "value");
    assert_eq!(bench.send(renew(&id)).status(), 404);
    bench.world.catch_up("a");
    assert_eq!(bench.send(get("key")).status(), 404);
}

#[test]
fn what_waited_for_the_log_does_not_outlast_the_connections() {
    let bench = Bench::new();
    let before = bench.snapshot();
    bench.world.elect_leader_behind(&before);
    let client = bench.client.clone();
    let write = bench
        .world
        .start(async move { status(&client, put("key", "value")).await });
    bench.world.advance(SECOND);
    bench.world.break_connections();
    assert!(bench.world.run(write).is_err());
    bench.world.advance(SECOND);
    assert_eq!(stored(&bench.world, "key"), None);
}

#[test]
fn clearing_faults_lets_the_leader_catch_up() {
    let bench = Bench::new();
    let before = bench.snapshot();
    let id = session_id(&bench.send(create_session()));
    bench.world.elect_leader_behind(&before);
    bench.world.clear_faults();
    assert_eq!(bench.send(renew(&id)).status(), 200);
}
