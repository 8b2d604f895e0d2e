//! An election's writes were given up, but their session lives on. Late ones are given back, and no
//! other term ends.

use std::sync::Arc;

use semaphore_core::sans_io::Method;
use semaphore_core::sans_io::api::LOCK_FLAGS;
use semaphore_core::{Client, Error, Leadership};
use transport_mock::consul::{Access, Policy};
use transport_mock::{Fault, MockConsul, MockProcess, Rule, Task};

use super::shared_sessions::*;
use crate::client::{client, client_of};
use crate::support::election::resigns;
use crate::support::steps::{Is, ties_key};
use crate::support::stranger::operate;
use crate::support::*;

/// The agents hold the attempt while there is no leader. They continue it although its caller is
/// gone.
#[test]
fn an_attempt_that_is_applied_after_its_campaign_was_given_up_is_given_back() {
    let (mut late, mut tied) = (0, 0);
    for seed in 0..80 {
        let world = MockConsul::new(seed);
        world.hold_without_leader(millis(8_600)..=secs(18), millis(4_700));
        let client = client(&world, "a");
        let holds = lead(&world, &client, 0);
        // In half of the worlds, the key exists already.
        if seed % 2 == 0 {
            let term = lead(&world, &client, 1);
            world.run(term.resign()).expect("resigned");
            world.advance(secs(2));
        }
        let election = election_of(&client, 1);
        let waiting = world.start(async move { election.campaign().await });
        give_up_without_leader(&world, waiting, seed);
        for _ in 0..600 {
            world.advance(millis(100));
            tied += u32::from(holder(&world, 1).is_some());
        }
        assert_eq!(holder(&world, 1), None, "seed {seed}\n{}", world.trace());
        assert!(holds.is_leader(), "seed {seed}\n{}", world.trace());
        let next = lead(&world, &client, 1);
        assert!(next.is_leader());
        late += world.held_without_leader().1;
    }
    assert!(late > 20, "{late} writes came late");
    assert!(tied > 0, "none of them has tied the key");
}

#[test]
fn a_session_on_which_nothing_stands_but_what_may_come_late_ends_at_once() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    world.inject(Rule::new(Fault::LoseRequest).matching(ties_key).times(1));
    let election = election_of(&client, 0);
    let outcome = world.run(election.campaign_timeout(secs(4)));
    drop(outcome);
    world.advance(secs(2));
    assert_eq!(session_count(&world), 0, "{}", world.trace());
    let before = world.stats().total_requests();
    world.advance(secs(60));
    assert_eq!(world.stats().total_requests(), before, "{}", world.trace());
}

#[test]
fn a_shutdown_waits_for_an_attempt_that_may_come_late_and_fails_only_at_the_end_of_its_time() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let holds = lead(&world, &client, 0);
    world.inject(Rule::new(Fault::LoseRequest).matching(ties_key).times(1));
    let election = election_of(&client, 1);
    let outcome = world.run(election.campaign_timeout(millis(500)));
    assert!(outcome.is_err(), "{outcome:?}");
    let start = world.now();
    let late = world.run(election.shutdown_timeout(secs(3)));
    assert!(matches!(late, Err(Error::Timeout { .. })), "{late:?}");
    assert_eq!(world.now().saturating_since(start), secs(3));
    world
        .run(election.shutdown_timeout(secs(60)))
        .expect("nothing came");
    assert!(world.now().saturating_since(start) < secs(30));
    assert!(holds.is_leader());
}

#[test]
fn who_gives_up_an_attempt_that_was_lost_keeps_the_session_of_others() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let holds = lead(&world, &client, 0);
    world.inject(Rule::new(Fault::LoseRequest).matching(ties_key).times(1));
    let election = election_of(&client, 1);
    let outcome = world.run(election.campaign_timeout(millis(500)));
    assert!(outcome.is_err(), "{outcome:?}");
    // Another campaign starts at once, although the first attempt may still arrive.
    let term = world.run(election.campaign()).expect("elected");
    assert_eq!(session_of(&term), session_of(&holds), "{}", world.trace());
    world.run(term.resign()).expect("resigned");
    world.advance(secs(60));
    assert!(holds.is_leader());
    assert_eq!(holder(&world, 1), None);
}

#[test]
fn an_attempt_whose_answer_was_lost_is_given_back_where_its_campaign_is_over() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let holds = lead(&world, &client, 0);
    world.inject(Rule::new(Fault::LoseAnswer).matching(ties_key).times(1));
    let election = election_of(&client, 1);
    let waiting = world.start(async move { election.campaign().await });
    while holder(&world, 1).is_none() {
        world.advance(millis(1));
    }
    // Neither the answer nor the watch has shown it yet.
    waiting.abort();
    world.advance(secs(5));
    assert_eq!(holder(&world, 1), None, "{}", world.trace());
    assert!(holds.is_leader());
    assert!(is_alive(&world, &session_of(&holds)));
}

#[test]
fn a_resignation_whose_answer_is_lost_is_looked_after() {
    for fault in [Fault::LoseAnswer, Fault::LoseRequest, Fault::no_leader()] {
        let world = MockConsul::new(1);
        let client = client(&world, "a");
        let terms = lead_each(&world, &client, 2);
        world.inject(Rule::new(fault.clone()).matching(resigns).times(1));
        let resigned = world.run(terms[1].resign());
        assert!(resigned.is_ok(), "{resigned:?}");
        assert_eq!(holder(&world, 1), None, "{fault:?}\n{}", world.trace());
        let again = lead(&world, &client, 1);
        world.advance(secs(60));
        assert!(again.is_leader() && terms[0].is_leader());
    }
}

/// A resignation names the term that it ends.
#[test]
fn a_late_copy_of_a_resignation_ends_no_later_term() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let terms = lead_each(&world, &client, 2);
    let copied = Rule::new(Fault::Duplicate(secs(4))).matching(resigns);
    world.inject(copied.times(1));
    world.run(terms[1].resign()).expect("resigned");
    let again = lead(&world, &client, 1);
    assert_eq!(session_of(&again), session_of(&terms[1]));
    world.advance(secs(30));
    assert!(again.is_leader(), "{}", world.trace());
    assert_eq!(holder(&world, 1), Some(session_of(&again)));
}

#[test]
fn a_late_copy_of_an_attempt_ties_no_key_that_was_given_back() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let terms = lead_each(&world, &client, 1);
    let copied = Rule::new(Fault::Duplicate(secs(4))).matching(ties_key);
    world.inject(copied.times(1));
    let term = lead(&world, &client, 1);
    world.run(term.resign()).expect("resigned");
    world.advance(secs(30));
    assert_eq!(holder(&world, 1), None, "{}", world.trace());
    assert!(terms[0].is_leader());
}

/// A client whose token has all permissions, for now.
fn with_token(world: &MockConsul) -> Client {
    world.consul(|consul, _| {
        consul.set_acl_default_deny();
        consul.add_token("a", Policy::management());
    });
    let builder = Client::builder().token("a");
    builder.connect(world.client("a")).expect("valid options")
}

#[test]
fn a_resignation_that_is_refused_is_told_and_goes_on_and_ends_nobody_else() {
    let world = MockConsul::new(1);
    let client = with_token(&world);
    let terms = lead_each(&world, &client, 2);
    let denied = Policy::management().with_key(&key(1), Access::Read);
    world.consul(|consul, _| consul.add_token("a", denied));
    let outcome = world.run(terms[1].resign());
    assert!(outcome.is_err(), "{outcome:?}");
    // Longer than a session lives without renewals: the other term keeps this one alive.
    world.advance(secs(60));
    assert!(terms[0].is_leader());
    assert!(holder(&world, 1).is_some());
    world.consul(|consul, _| consul.add_token("a", Policy::management()));
    world.advance(secs(60));
    assert_eq!(holder(&world, 1), None, "{}", world.trace());
    assert!(terms.first().is_some_and(Leadership::is_leader));
}

/// A term after an attempt whose request was lost, and another campaign that waits. The key did not
/// exist at the attempt. So only time can tell that the attempt will not arrive.
fn led_with_an_attempt_lost(
    world: &MockConsul,
    client: &Client,
) -> (Leadership, Task<Result<Leadership, Error>>) {
    let lost = Rule::new(Fault::LoseRequest).matching(ties_key);
    world.inject(lost.times(1));
    let election = election_of(client, 1);
    let first = world.run(election.campaign()).expect("elected");
    let waiting = world.start(async move { election.campaign().await });
    (first, waiting)
}

#[test]
fn who_resigns_is_told_at_once_where_another_campaign_goes_on_with_its_session() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let holds = lead(&world, &client, 0);
    let (first, waiting) = led_with_an_attempt_lost(&world, &client);
    world.advance(secs(1));
    let began = world.now();
    world.run(first.resign()).expect("resigned");
    let second = world.run(waiting).expect("elected");
    assert!(world.now().saturating_since(began) < secs(1));
    assert_eq!(session_of(&second), session_of(&holds));
    world.advance(secs(60));
    assert!(second.is_leader() && holds.is_leader());
}

/// Another campaign does not wait for the late attempt either: it uses another session.
#[test]
fn a_key_that_is_overwritten_while_an_attempt_may_come_makes_no_hot_loop() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let holds = lead(&world, &client, 0);
    let (first, waiting) = led_with_an_attempt_lost(&world, &client);
    let path = format!("/v1/kv/{}", key(1));
    operate(&world, Method::Put, &path, "by hand");
    world.run(first.lost());
    let before = world.stats_of("a").total_requests();
    world.advance(secs(5));
    let sent = world.stats_of("a").total_requests() - before;
    assert!(sent < 60, "{sent} requests\n{}", world.trace());
    operate(&world, Method::Delete, &path, "");
    world.advance(secs(5));
    let second = world.run(waiting).expect("elected");
    assert!(second.is_leader() && holds.is_leader());
    assert_ne!(session_of(&second), session_of(&holds));
}

/// A copy of the write arrives first, so Consul refuses the write itself: the key has changed. It is
/// still tied to the session.
#[test]
fn a_leader_that_resigns_beside_a_write_that_its_copy_has_overtaken_gives_the_key_back() {
    for resigns_at in [50, 100, 150, 199] {
        let world = MockConsul::new(1);
        let client = client(&world, "a");
        let holds = lead(&world, &client, 0);
        let term = Arc::new(lead(&world, &client, 1));
        let session = session_of(&term);
        world.inject(
            Rule::new(Fault::Delay(millis(200)))
                .matching(ties_key)
                .times(1),
        );
        let leader = Arc::clone(&term);
        let mut setting = world.start(async move { leader.set_value("new").await });
        world.advance(millis(20));
        let copy = format!("/v1/kv/{}?acquire={session}&flags={LOCK_FLAGS}", key(1));
        operate(&world, Method::Put, &copy, "new");
        world.advance(millis(resigns_at - 20));
        let mut resigning = world.start(async move { term.resign().await });
        world.advance(secs(2));
        assert!(resigning.try_take().is_some(), "{}", world.trace());
        assert!(setting.try_take().is_some(), "{}", world.trace());
        assert_eq!(
            holder(&world, 1),
            None,
            "{resigns_at} ms\n{}",
            world.trace()
        );
        assert!(holds.is_leader());
        assert!(lead(&world, &client, 1).is_leader());
    }
}

/// The simulator found this (seed 14047269). The attempt comes between two reads, so its candidacy is back when the
/// last of the others has left the session, whose end would leave a lock delay on the key.
#[test]
fn an_attempt_that_comes_while_the_program_ends_is_given_back_before_the_session_ends() {
    let world = MockConsul::new(1);
    let process = MockProcess::new(&world.client("a"));
    let client = client_of(&process);
    let before = lead(&world, &client, 1);
    world.run(before.resign()).expect("resigned");
    let _other = lead(&world, &client, 0);
    let late = |fault, is: Is| world.inject(Rule::new(fault).matching(is).times(1));
    late(Fault::Delay(millis(4)), ties_key);
    late(Fault::DelayAnswer(millis(5)), resigns);
    // The second one unties the key of the attempt.
    late(Fault::Delay(millis(20)), resigns);
    let election = election_of(&client, 1);
    let _waiting = world.start(async move { election.campaign().await });
    world.advance(millis(5));
    process.exit();
    world.advance(millis(500));
    let found = found(&world, 1).expect("a key");
    assert_eq!(found.lock_index, 2, "it has come\n{}", world.trace());
    let election = election_of(&self::client(&world, "b"), 1);
    let next = world.run(election.campaign_timeout(secs(1)));
    assert!(next.expect("elected").is_leader());
}
