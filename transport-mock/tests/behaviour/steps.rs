//! A test that goes step by step sees everything that happens in between. Looking changes nothing.

use std::time::Duration;

use semaphore_core::adapter::{
    Instant, Method, Request, Runtime as _, Transport as _, TransportErrorKind,
};
use transport_mock::{Fault, MockConsul};

fn at(millis: u64) -> Instant {
    Instant::from_origin(Duration::from_millis(millis))
}

fn put(key: &str) -> Request {
    Request::new(Method::Put, format!("/v1/kv/{key}")).with_body("x")
}

#[test]
fn a_step_is_one_timer_or_message_and_what_it_wakes() {
    let world = MockConsul::new(5);
    let client = world.client("a");
    let task = world.start(async move { client.send(put("k")).await });
    let has_key = || world.consul(|consul, _| consul.entry("k").is_some());
    assert!(world.step(at(100)), "the request arrives");
    assert!(has_key());
    assert_eq!(world.now(), at(1));
    assert!(world.step(at(100)), "so does the answer");
    assert_eq!(world.now(), at(2));
    assert!(!world.step(at(100)), "nothing more is due");
    assert_eq!(world.now(), at(100));
    assert_eq!(world.run(task).expect("an answer").status(), 200);
}

#[test]
fn the_write_log_tells_whose_request_reached_consul() {
    let world = MockConsul::new(5);
    let (a, b) = (world.client("a"), world.client("b"));
    world.run(a.send(put("unlogged"))).expect("an answer");
    assert!(world.take_writes().is_empty());
    world.set_write_log(true);
    world.run(a.send(put("first"))).expect("an answer");
    world
        .run(b.send(Request::new(Method::Get, "/v1/kv/first")))
        .expect("an answer");
    let lost = world.run(b.send_into(put("lost"), Some(Fault::LoseRequest)));
    assert_eq!(lost.expect_err("lost").kind(), TransportErrorKind::Timeout);
    let twice = Some(Fault::Duplicate(Duration::from_millis(1)));
    world
        .run(b.send_into(put("twice"), twice))
        .expect("an answer");
    world.advance(Duration::from_secs(1));
    let writes = world.take_writes();
    let writes = writes
        .iter()
        .map(|it| (it.host.as_str(), it.request.target()));
    let expected = [
        ("a", "/v1/kv/first"),
        ("b", "/v1/kv/twice"),
        ("b", "/v1/kv/twice"),
    ];
    assert_eq!(writes.collect::<Vec<_>>(), expected);
    assert!(world.take_writes().is_empty());
}

#[test]
fn notes_stand_in_the_trace_and_a_trace_that_is_off_stays_empty() {
    let world = MockConsul::new(5);
    world.note("now it begins");
    assert!(world.trace().contains("now it begins"));
    let quiet = MockConsul::new(5);
    quiet.set_tracing(false);
    quiet.note("nobody hears it");
    quiet
        .run(quiet.client("a").send(put("k")))
        .expect("an answer");
    assert_eq!(quiet.trace(), "");
}

#[test]
fn a_clock_of_its_own_rate_measures_everything_on_its_host() {
    let world = MockConsul::new(5);
    let slow = world.client("slow").with_clock_rate(0.5);
    world.run(slow.sleep(Duration::from_secs(1)));
    let true_time = world.now().since_origin();
    assert!(true_time >= Duration::from_secs(2) && true_time < Duration::from_millis(2_001));
    let own_time = slow.now().since_origin();
    assert!(own_time >= Duration::from_secs(1) && own_time < Duration::from_millis(1_001));
    let request = put("k").with_timeout(Duration::from_secs(3));
    world
        .run(slow.send_into(request, Some(Fault::LoseRequest)))
        .expect_err("lost");
    assert!(world.now().since_origin() >= Duration::from_secs(8));
}

#[test]
fn broken_connections_end_at_once_and_what_was_on_its_way_never_arrives() {
    let world = MockConsul::new(5);
    let client = world.client("a");
    let delayed = Some(Fault::Delay(Duration::from_secs(5)));
    let sent = world.start(async move { client.send_into(put("k"), delayed).await });
    world.advance(Duration::from_secs(1));
    world.break_connections();
    let error = world.run(sent).expect_err("broken");
    assert_eq!(error.kind(), TransportErrorKind::Unknown);
    assert_eq!(world.now(), at(1_000));
    world.advance(Duration::from_secs(10));
    assert!(world.consul(|consul, _| consul.entry("k").is_none()));
    assert_eq!(world.stats().open, 0);
}

#[test]
fn a_session_lives_for_as_many_ttls_as_the_operator_says() {
    let world = MockConsul::new(5);
    world.consul(|consul, _| consul.set_session_lifetime(1.2));
    let body = r#"{"TTL":"10s","NodeChecks":[]}"#;
    let create = Request::new(Method::Put, "/v1/session/create").with_body(body);
    world
        .run(world.client("a").send(create))
        .expect("an answer");
    let count = || world.consul(|consul, _| consul.sessions().count());
    world.advance(Duration::from_millis(11_900));
    assert_eq!(count(), 1);
    world.advance(Duration::from_millis(200));
    assert_eq!(count(), 0);
}

#[test]
fn writes_elsewhere_move_the_index_on() {
    let world = MockConsul::new(5);
    let before = world.consul(|consul, _| consul.last_index());
    world.consul(|consul, _| consul.advance_index(1_000));
    world
        .run(world.client("a").send(put("k")))
        .expect("an answer");
    let index = world.consul(|consul, _| {
        consul
            .entry("k")
            .map(transport_mock::consul::Entry::modify_index)
    });
    assert_eq!(index, Some(before + 1_001));
}
