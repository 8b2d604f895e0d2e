//! Each fault at its place on the way: what the client sees, and what Consul has applied.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::support::{
    MILLISECOND, SECOND, create_session, get, put, put_new, status, stored, text, watch,
};
use semaphore_core::adapter::{Instant, Transport, TransportErrorKind};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

/// Writes `new` over `old` and meets `fault`. Returns what the client sees and when, and what is
/// stored.
fn write_with(fault: Fault) -> (Result<u16, TransportErrorKind>, Instant, String) {
    let world = MockConsul::new(1);
    let client = world.client("a");
    world.inject(Rule::new(fault).kind(RequestKind::KvPut).target("new"));
    let (seen, at) = world.run(async {
        assert_eq!(status(&client, put("key", "old")).await, Ok(200));
        let seen = status(&client, put("key?flags=1&new", "new")).await;
        (seen, world.now())
    });
    assert_eq!(world.pending_rules(), 0);
    let elapsed = at.saturating_since(Instant::ORIGIN + 2 * MILLISECOND);
    world.advance(60 * SECOND);
    let stored = stored(&world, "key").unwrap_or_default();
    (seen, Instant::from_origin(elapsed), stored)
}

fn after(duration: std::time::Duration) -> Instant {
    Instant::from_origin(duration)
}

#[test]
fn without_a_fault_an_exchange_takes_a_millisecond_each_way() {
    let world = MockConsul::new(1);
    let client = world.client("a");
    assert_eq!(world.run(status(&client, put("key", "value"))), Ok(200));
    assert_eq!(world.now(), after(2 * MILLISECOND));
}

#[test]
fn a_refused_connection_is_not_sent_and_not_applied() {
    let (seen, _, stored) = write_with(Fault::Refuse);
    assert_eq!(seen, Err(TransportErrorKind::NotSent));
    assert_eq!(stored, "old");
}

#[test]
fn a_lost_request_times_out_and_is_not_applied() {
    let (seen, at, stored) = write_with(Fault::LoseRequest);
    assert_eq!(seen, Err(TransportErrorKind::Timeout));
    assert_eq!(at, after(10 * SECOND));
    assert_eq!(stored, "old");
}

#[test]
fn a_lost_answer_times_out_and_the_write_is_applied() {
    let (seen, at, stored) = write_with(Fault::LoseAnswer);
    assert_eq!(seen, Err(TransportErrorKind::Timeout));
    assert_eq!(at, after(10 * SECOND));
    assert_eq!(stored, "new");
}

#[test]
fn a_reset_before_delivery_is_unknown_and_not_applied() {
    let (seen, _, stored) = write_with(Fault::ResetBefore);
    assert_eq!(seen, Err(TransportErrorKind::Unknown));
    assert_eq!(stored, "old");
}

#[test]
fn a_reset_after_delivery_is_unknown_and_applied() {
    let (seen, _, stored) = write_with(Fault::ResetAfter);
    assert_eq!(seen, Err(TransportErrorKind::Unknown));
    assert_eq!(stored, "new");
}

#[test]
fn a_delayed_request_is_answered_later() {
    let (seen, at, stored) = write_with(Fault::Delay(SECOND));
    assert_eq!(seen, Ok(200));
    assert_eq!(at, after(SECOND + 2 * MILLISECOND));
    assert_eq!(stored, "new");
}

#[test]
fn a_request_delayed_beyond_its_timeout_is_still_applied() {
    let (seen, at, stored) = write_with(Fault::Delay(20 * SECOND));
    assert_eq!(seen, Err(TransportErrorKind::Timeout));
    assert_eq!(at, after(10 * SECOND));
    assert_eq!(stored, "new");
}

#[test]
fn a_delayed_answer_comes_later() {
    let (seen, at, stored) = write_with(Fault::DelayAnswer(SECOND));
    assert_eq!(seen, Ok(200));
    assert_eq!(at, after(SECOND + 2 * MILLISECOND));
    assert_eq!(stored, "new");
}

#[test]
fn an_answer_cut_short_is_a_bad_answer_to_an_applied_write() {
    let (seen, _, stored) = write_with(Fault::BadAnswer);
    assert_eq!(seen, Err(TransportErrorKind::BadAnswer));
    assert_eq!(stored, "new");
}

#[test]
fn an_answer_from_the_way_leaves_the_write_unapplied() {
    for (fault, expected) in [
        (Fault::too_many_requests(), 429),
        (Fault::no_leader(), 500),
        (Fault::unavailable(), 503),
    ] {
        let (seen, _, stored) = write_with(fault);
        assert_eq!(seen, Ok(expected));
        assert_eq!(stored, "old");
    }
}

#[test]
fn a_proxy_may_answer_instead_after_the_write_was_applied() {
    let timeout = semaphore_core::adapter::Response::new(504, "<html>Gateway Timeout</html>");
    let (seen, _, stored) = write_with(Fault::AnswerAfter(timeout));
    assert_eq!(seen, Ok(504));
    assert_eq!(stored, "new");
}

#[test]
fn a_duplicate_is_applied_twice_and_answered_once() {
    let world = MockConsul::new(1);
    let client = world.client("a");
    world.inject(Rule::new(Fault::Duplicate(SECOND)).kind(RequestKind::KvPut));
    world.run(async {
        assert_eq!(status(&client, put("key", "first")).await, Ok(200));
        assert_eq!(status(&client, put("key", "second")).await, Ok(200));
    });
    assert_eq!(stored(&world, "key").as_deref(), Some("second"));
    world.advance(2 * SECOND);
    assert_eq!(stored(&world, "key").as_deref(), Some("first"));
    assert_eq!(world.stats_of("a").answers, 2);
}

#[test]
fn a_write_that_is_delivered_twice_is_applied_once_and_gets_the_answer_to_the_second_copy() {
    let world = MockConsul::new(1);
    let client = world.client("a");
    world.inject(Rule::new(Fault::Twice));
    let outcome = world.run(client.send(put_new("key", "new"))).unwrap();
    assert_eq!(text(&outcome), "false");
    assert_eq!(stored(&world, "key").as_deref(), Some("new"));
    let answers = world.stats_of("a").answers;
    assert_eq!(answers, 1);
}

#[test]
fn a_delayed_request_is_overtaken() {
    let world = MockConsul::new(1);
    let client = world.client("a");
    let first = Rule::new(Fault::Delay(SECOND));
    world.inject(first.matching(|request| request.body() == b"first"));
    let late = world.start({
        let client = client.clone();
        async move { client.send(put_new("key", "first")).await.map(|a| text(&a)) }
    });
    world.advance(MILLISECOND / 2);
    let second = world.run(client.send(put_new("key", "second"))).unwrap();
    assert_eq!(text(&second), "true");
    assert_eq!(world.run(late).unwrap(), "false");
    assert_eq!(stored(&world, "key").as_deref(), Some("second"));
}

#[test]
fn an_index_reset_shows_in_the_answer() {
    let world = MockConsul::new(1);
    let client = world.client("a");
    world.inject(Rule::new(Fault::Index(0)).kind(RequestKind::KvRead));
    world.run(async {
        client.send(put("key", "value")).await.unwrap();
        let reset = client.send(get("key")).await.unwrap();
        assert_eq!(reset.header("X-Consul-Index"), Some("0"));
        assert_eq!(text(&reset), "value");
        assert_ne!(
            crate::support::index_of(&client.send(get("key")).await.unwrap()),
            0
        );
    });
}

#[test]
fn a_rule_strikes_its_host_its_kind_and_its_times_only() {
    let world = MockConsul::new(1);
    world.inject(
        Rule::new(Fault::Refuse)
            .host("a")
            .kind(RequestKind::KvPut)
            .skip(1)
            .times(2),
    );
    let (a, b) = (world.client("a"), world.client("b"));
    let refused = Err(TransportErrorKind::NotSent);
    world.run(async {
        assert_eq!(status(&b, put("key", "1")).await, Ok(200));
        assert_eq!(status(&a, put("key", "1")).await, Ok(200));
        assert_eq!(status(&a, put("key", "2")).await, refused);
        assert_eq!(status(&b, put("key", "2")).await, Ok(200));
        assert_eq!(status(&a, create_session()).await, Ok(200));
        assert_eq!(status(&a, put("key", "3")).await, refused);
        assert_eq!(status(&a, put("key", "4")).await, Ok(200));
    });
    assert_eq!(world.pending_rules(), 0);
}

#[test]
fn a_rule_for_always_strikes_until_faults_are_cleared() {
    let world = MockConsul::new(1);
    world.inject(Rule::new(Fault::Refuse).always());
    let client = world.client("a");
    for _ in 0..10 {
        let seen = world.run(status(&client, get("key")));
        assert_eq!(seen, Err(TransportErrorKind::NotSent));
    }
    world.clear_faults();
    assert_eq!(world.run(status(&client, get("key"))), Ok(404));
}

/// The panic's text if dropping the world panics.
fn last_words(world: MockConsul) -> Option<String> {
    let end = catch_unwind(AssertUnwindSafe(|| drop(world)));
    let panic = end.err()?;
    Some(
        panic
            .downcast::<String>()
            .map_or_else(|_| "no text".to_owned(), |words| *words),
    )
}

/// A world with a rule that refuses the second write, and with only one write.
fn world_with_an_unmet_rule() -> MockConsul {
    let world = MockConsul::new(1);
    let second = Rule::new(Fault::Refuse).host("a").target("key").skip(1);
    world.inject(second.times(2));
    let client = world.client("a");
    assert_eq!(world.run(status(&client, put("key", "1"))), Ok(200));
    world
}

#[test]
fn a_world_that_ends_names_the_rules_that_did_not_strike() {
    let world = world_with_an_unmet_rule();
    world.inject(
        Rule::new(Fault::LoseAnswer)
            .kind(RequestKind::KvPut)
            .times(2),
    );
    world.inject(Rule::new(Fault::LoseRequest).kind(RequestKind::KvRead));
    let client = world.client("b");
    let lost = Err(TransportErrorKind::Timeout);
    assert_eq!(world.run(status(&client, put("other", "1"))), lost);
    assert_eq!(world.run(status(&client, get("other"))), lost);
    assert_eq!(world.pending_rules(), 2);
    let words = last_words(world).expect("a panic");
    let rules: Vec<_> = words.lines().skip(1).collect();
    assert_eq!(rules.len(), 2, "{words}");
    let refusal = "connection refused, of host a, key: struck 0 of 2 times";
    assert!(rules[0].ends_with(refusal), "{words}");
    let half = "answer lost, kv put: struck 1 of 2 times";
    assert!(rules[1].ends_with(half), "{words}");
    for line in rules {
        assert!(line.contains("faults_of_one_exchange.rs:"), "{words}");
    }
}

#[test]
fn a_rule_for_always_has_to_strike_once() {
    let world = MockConsul::new(1);
    let client = world.client("a");
    world.inject(Rule::new(Fault::Refuse).always());
    let refused = Err(TransportErrorKind::NotSent);
    assert_eq!(world.run(status(&client, put("key", "1"))), refused);
    assert_eq!(last_words(world), None);
    let world = MockConsul::new(1);
    world.inject(Rule::new(Fault::Refuse).always());
    let words = last_words(world).expect("a panic");
    assert!(words.contains("struck 0 times, for always"), "{words}");
}

#[test]
fn a_rule_that_was_cleared_before_it_struck_is_named_too() {
    let world = world_with_an_unmet_rule();
    world.clear_faults();
    assert_eq!(world.pending_rules(), 1);
    let words = last_words(world).expect("a panic");
    assert!(words.contains("struck 0 of 2 times"), "{words}");
}

#[test]
fn only_the_last_clone_of_a_world_minds_rules_that_did_not_strike() {
    let world = world_with_an_unmet_rule();
    let other = world.clone();
    assert_eq!(last_words(world), None);
    let client = other.client("a");
    for _ in 0..2 {
        let refused = Err(TransportErrorKind::NotSent);
        assert_eq!(other.run(status(&client, put("key", "2"))), refused);
    }
    assert_eq!(last_words(other), None);
}

#[test]
fn optional_rules_and_those_that_may_be_unmet_are_no_reason_to_panic() {
    let world = MockConsul::new(1);
    world.inject(Rule::new(Fault::Refuse).always().optional());
    assert_eq!(last_words(world), None);
    let world = world_with_an_unmet_rule();
    world.allow_unmet_rules();
    assert_eq!(last_words(world), None);
}

#[test]
fn a_test_that_fails_says_why_and_not_which_rules_did_not_strike() {
    let end = catch_unwind(|| {
        let _world = world_with_an_unmet_rule();
        std::panic::panic_any("the test's own reason");
    });
    let reason = end.expect_err("it panics");
    assert_eq!(reason.downcast_ref(), Some(&"the test's own reason"));
}

#[test]
fn a_dropped_request_hangs_up_on_consul() {
    let world = MockConsul::new(1);
    let client = world.client("a");
    let watching = world.start({
        let client = client.clone();
        async move {
            client
                .send(watch("key", 1_000_000, 60 * SECOND))
                .await
                .map(drop)
        }
    });
    world.advance(SECOND);
    assert_eq!(world.stats_of("a").open, 1);
    watching.abort();
    world.advance(2 * MILLISECOND);
    assert_eq!(world.stats_of("a").open, 0);
    assert!(world.trace().contains("hung up"));
}

#[test]
fn more_connections_than_the_agent_allows_are_reset() {
    let world = MockConsul::new(1);
    world.set_max_connections(Some(2));
    let client = world.client("a");
    let mut watching: Vec<_> = (0..3)
        .map(|_| {
            let client = client.clone();
            world.start(async move { status(&client, watch("key", 1_000_000, 5 * SECOND)).await })
        })
        .collect();
    world.advance(SECOND);
    let seen: Vec<_> = watching
        .iter_mut()
        .map(transport_mock::Task::try_take)
        .collect();
    assert_eq!(seen, [None, None, Some(Err(TransportErrorKind::Unknown))]);
    assert_eq!(world.stats().peak_open, 3);
}
