//! The leader's value: it changes only through `acquire`, and an unknown outcome is resolved.

use futures_util::future::join_all;
use semaphore_core::sans_io::{Method, Request, Value};
use semaphore_core::{Error, InvalidInput};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::support::election::*;
use crate::support::*;

/// Whether the request may write the key.
fn is_write(request: &Request) -> bool {
    let body = String::from_utf8_lossy(request.body());
    RequestKind::of(request) == RequestKind::Txn && body.contains("\"lock\"")
}

#[test]
fn a_change_is_shown_and_costs_neither_term_nor_sequencer() {
    let world = MockConsul::new(1);
    let (_election, leadership) = leader(&world);
    for value in ["b", "", "{\"port\":1}"] {
        world.run(leadership.set_value(value)).expect("set");
        let key = found(&world).expect("a key");
        assert_eq!((key.value.as_str(), key.lock_index), (value, 1));
        assert_eq!(key.session, leadership.sequencer().session.as_str());
    }
    world.advance(secs(60));
    assert!(leadership.is_leader());
    world.run(leadership.resign()).expect("resigned");
    assert_eq!(found(&world).expect("a key").value, "{\"port\":1}");
    assert_only_key_left(&world);
}

#[test]
fn no_request_writes_the_key_but_by_acquire_and_release() {
    let world = MockConsul::new(1);
    world.set_write_log(true);
    let (_election, leadership) = leader(&world);
    world.run(leadership.set_value("b")).expect("set");
    world.run(leadership.resign()).expect("resigned");
    for write in world.take_writes() {
        let request = &write.request;
        let body = String::from_utf8_lossy(request.body());
        let is_plain = request.target().starts_with("/v1/kv/")
            && !request.target().contains("?acquire=")
            && !request.target().contains("?release=");
        let is_set = body.contains(r#""Verb":"set""#) || body.contains(r#""Verb":"cas""#);
        assert!(!is_plain && !is_set, "{} {body}", request.target());
        assert_ne!(request.method(), Method::Delete);
    }
}

#[test]
fn changes_at_once_are_written_in_their_order() {
    let world = MockConsul::new(1);
    let (_election, leadership) = leader(&world);
    let all = join_all(["1", "2", "3"].map(|value| leadership.set_value(value)));
    let all = world.run(all);
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert_eq!(found(&world).expect("a key").value, "3");
}

#[test]
fn a_change_whose_answer_is_lost_is_resolved() {
    for fault in [Fault::LoseAnswer, Fault::LoseRequest, Fault::ResetAfter] {
        let world = MockConsul::new(1);
        let (_election, leadership) = leader(&world);
        world.inject(Rule::new(fault).matching(is_write));
        world.run(leadership.set_value("b")).expect("set");
        assert_eq!(world.pending_rules(), 0);
        assert_eq!(found(&world).expect("a key").value, "b");
        assert!(leadership.is_leader());
        assert_eq!(found(&world).expect("a key").lock_index, 1);
    }
}

#[test]
fn a_change_that_consul_refuses_is_told_and_the_leadership_goes_on() {
    let world = MockConsul::new(1);
    let (_election, leadership) = leader(&world);
    let refusal = Fault::Answer(semaphore_core::sans_io::Response::new(
        403,
        "Permission denied",
    ));
    // The refusal may be temporary. It is reported if it lasts as long as a lease.
    world.inject(Rule::new(refusal).matching(is_write).always());
    let set = world.run(leadership.set_value("b"));
    assert!(matches!(set, Err(Error::Request(_))), "{set:?}");
    world.clear_faults();
    world.advance(secs(30));
    assert!(leadership.is_leader());
    assert_eq!(found(&world).expect("a key").value, "a");
    world.run(leadership.set_value("c")).expect("set");
    assert_eq!(found(&world).expect("a key").value, "c");
}

#[test]
fn a_value_that_consul_can_not_store_is_refused_before_anything_is_sent() {
    let world = MockConsul::new(1);
    let (_election, leadership) = leader(&world);
    let before = world.stats().total_requests();
    let set = world.run(leadership.set_value(vec![0; Value::MAX_LEN + 1]));
    let is_refused = matches!(
        set,
        Err(Error::InvalidInput {
            input: InvalidInput::ValueTooLarge { .. },
            ..
        })
    );
    assert!(is_refused, "{set:?}");
    assert_eq!(world.stats().total_requests(), before);
}

#[test]
fn a_large_value_is_stored_whole() {
    let world = MockConsul::new(1);
    let (_election, leadership) = leader(&world);
    let value = "x".repeat(Value::MAX_LEN);
    world.run(leadership.set_value(value.clone())).expect("set");
    assert_eq!(found(&world).expect("a key").value, value);
    world.run(leadership.resign()).expect("resigned");
    assert_only_key_left(&world);
}

#[test]
fn the_next_leadership_begins_with_the_value_that_was_set_last() {
    let world = MockConsul::new(1);
    let (election, leadership) = leader(&world);
    world.run(leadership.set_value("b")).expect("set");
    world.run(leadership.resign()).expect("resigned");
    let again = world.run(election.campaign()).expect("elected");
    assert_eq!(found(&world).expect("a key").value, "b");
    drop(again);
    // The same holds if the session is kept in between.
    let again = world.run(election.campaign()).expect("elected");
    world.run(again.set_value("c")).expect("set");
    drop(again);
    let again = world.run(election.campaign()).expect("elected");
    assert_eq!(found(&world).expect("a key").value, "c");
    world.run(again.resign()).expect("resigned");
    assert_eq!(found(&world).expect("a key").value, "c");
}

#[test]
fn a_value_that_was_set_before_a_loss_is_the_next_leaderships() {
    let world = MockConsul::new(1);
    let (election, leadership) = leader(&world);
    world.partition("a");
    let set = world.run(join_all(
        ["b", "c"].map(|value| leadership.set_value(value)),
    ));
    assert!(
        set.iter().all(|it| matches!(it, Err(Error::Lost(_)))),
        "{set:?}"
    );
    world.heal("a");
    drop(leadership);
    let _again = world.run(election.campaign()).expect("elected");
    assert_eq!(found(&world).expect("a key").value, "c");
}

#[test]
fn a_value_that_consul_refused_is_not_the_next_leaderships() {
    let world = MockConsul::new(1);
    let (election, leadership) = leader(&world);
    let refusal = Fault::Answer(semaphore_core::sans_io::Response::new(
        403,
        "Permission denied",
    ));
    world.inject(Rule::new(refusal).matching(is_write).always());
    let set = world.run(leadership.set_value("b"));
    assert!(matches!(set, Err(Error::Request(_))), "{set:?}");
    world.clear_faults();
    drop(leadership);
    let _again = world.run(election.campaign()).expect("elected");
    assert_eq!(found(&world).expect("a key").value, "a");
}

/// A late copy of the first attempt does not bring the first value back.
#[test]
fn a_leader_that_resigns_leaves_the_value_that_it_was_told_last() {
    let world = MockConsul::new(1);
    world.inject(Rule::new(Fault::Duplicate(secs(2))).matching(is_write));
    let (_election, leadership) = leader(&world);
    world.run(leadership.set_value("b")).expect("set");
    world.inject(
        Rule::new(Fault::Refuse)
            .matching(is_write)
            .always()
            .optional(),
    );
    world.advance(secs(3));
    let is_repaired = world.trace().contains("connection refused");
    assert!(!is_repaired, "{}", world.trace());
    world.run(leadership.resign()).expect("resigned");
    assert_eq!(found(&world).expect("a key").value, "b");
    assert_only_key_left(&world);
}
