//! Faults that hit more than one exchange: partitions, a lost leader, a destroyed session.

use crate::support::{
    MILLISECOND, SECOND, create_session, get, put, session_id, status, stored, text,
};
use semaphore_core::adapter::{Method, Request, Runtime as _, Transport, TransportErrorKind};
use transport_mock::MockConsul;

#[test]
fn a_partitioned_host_sees_its_timeouts_and_others_nothing() {
    let world = MockConsul::new(1);
    let (a, b) = (world.client("a"), world.client("b"));
    world.partition("a");
    let cut_off = world.run(status(&a, put("key", "a")));
    assert_eq!(cut_off, Err(TransportErrorKind::Timeout));
    assert_eq!(world.run(status(&b, get("key"))), Ok(404));
    world.heal("a");
    assert_eq!(world.run(status(&a, put("key", "a"))), Ok(200));
}

#[test]
fn what_was_sent_into_a_partition_never_arrives() {
    let world = MockConsul::new(1);
    let client = world.client("a");
    world.partition("a");
    let _ = world.run(status(&client, put("key", "lost")));
    world.heal("a");
    world.advance(60 * SECOND);
    assert_eq!(stored(&world, "key"), None);
}

#[test]
fn an_answer_under_way_when_the_partition_begins_is_lost() {
    let world = MockConsul::new(1);
    let client = world.client("a");
    let mut task = world.start(async move { status(&client, put("key", "value")).await });
    world.advance(MILLISECOND);
    world.partition("a");
    world.advance(5 * SECOND);
    assert_eq!(task.try_take(), None);
    world.advance(5 * SECOND);
    assert_eq!(task.try_take(), Some(Err(TransportErrorKind::Timeout)));
    assert_eq!(stored(&world, "key").as_deref(), Some("value"));
}

#[test]
fn what_was_sent_into_a_stall_arrives_when_it_ends_though_its_client_gave_up() {
    let world = MockConsul::new(1);
    let client = world.client("a");
    world.stall("a");
    let seen = world.run(status(&client, put("key", "late")));
    assert_eq!(seen, Err(TransportErrorKind::Timeout));
    world.advance(60 * SECOND);
    assert_eq!(stored(&world, "key"), None);
    world.heal("a");
    world.advance(SECOND);
    assert_eq!(stored(&world, "key").as_deref(), Some("late"));
}

#[test]
fn without_a_leader_writes_are_answered_500_until_one_is_elected() {
    let world = MockConsul::new(1);
    let client = world.client("a");
    world.lose_leader();
    let answer = world.run(client.send(put("key", "value"))).unwrap();
    assert_eq!(
        (answer.status(), text(&answer).trim()),
        (500, "No cluster leader")
    );
    world.elect_leader();
    assert_eq!(world.run(status(&client, put("key", "value"))), Ok(200));
}

#[test]
fn a_session_destroyed_by_an_operator_is_unknown_at_its_next_renewal() {
    let world = MockConsul::new(1);
    let client = world.client("a");
    let id = session_id(&world.run(client.send(create_session())).unwrap());
    let renew = Request::new(Method::Put, format!("/v1/session/renew/{id}"));
    assert_eq!(world.run(status(&client, renew.clone())), Ok(200));
    world.consul(|consul, now| consul.destroy_session(now, &id));
    assert_eq!(world.run(status(&client, renew)), Ok(404));
}

#[test]
fn clearing_faults_ends_partitions_and_elects_a_leader() {
    let world = MockConsul::new(1);
    let client = world.client("a");
    world.partition("a");
    world.lose_leader();
    world.clear_faults();
    assert_eq!(world.run(status(&client, put("key", "value"))), Ok(200));
}

#[test]
fn clearing_faults_ends_an_ordered_latency_and_keeps_one_that_was_set() {
    let world = MockConsul::new(1);
    let client = world.client("a");
    let turn = || {
        let began = client.now();
        assert_eq!(world.run(status(&client, put("key", "value"))), Ok(200));
        client.now().saturating_since(began)
    };
    world.set_latency(5 * MILLISECOND..=5 * MILLISECOND);
    assert_eq!(turn(), 10 * MILLISECOND);
    world.order("latency?ms=200").unwrap();
    world.order("latency?ms=300").unwrap();
    assert_eq!(turn(), 600 * MILLISECOND);
    world.order("clear").unwrap();
    assert_eq!(turn(), 10 * MILLISECOND);
    world.clear_faults();
    assert_eq!(turn(), 10 * MILLISECOND);
}
