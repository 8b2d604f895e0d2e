//! Campaigns that follow one another within half a second share a session. So a loop of short terms
//! or short attempts does not create one for each.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use semaphore_core::Error;
use semaphore_core::adapter::{Method, Request};
use semaphore_core::sans_io::api::LOCK_FLAGS;
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::election::unknown::ACQUISITION;
use crate::support::election::*;
use crate::support::spy::Spy;
use crate::support::steps::{creates_session, destroys_session};
use crate::support::*;

#[test]
fn a_loop_of_short_attempts_campaigns_with_one_session() {
    let world = MockConsul::new(1);
    let (_a, _leadership) = leader(&world);
    let b = election(&world, "b");
    let before = world.stats_of("b").requests_of(RequestKind::SessionCreate);
    for _ in 0..100 {
        let outcome = world.run(b.campaign_timeout(millis(50)));
        assert!(matches!(outcome, Err(Error::Timeout { .. })), "{outcome:?}");
    }
    let made = world.stats_of("b").requests_of(RequestKind::SessionCreate) - before;
    assert!(made <= 2, "{made} sessions");
    world.advance(KEPT);
    assert_eq!(session_count(&world), 1, "only the leader's is left");
}

/// Many answers come after the attempt has ended.
#[test]
fn a_short_attempt_beside_a_leader_is_one_look_at_the_key() {
    const ATTEMPTS: usize = 1_000;
    let world = MockConsul::new(1);
    world.set_latency(millis(1)..=millis(4));
    let (_a, _leadership) = leader(&world);
    let b = election(&world, "b");
    let spy = Spy::on_host(&world, "b");
    for _ in 0..ATTEMPTS {
        let outcome = world.run(b.campaign_timeout(millis(5)));
        assert!(matches!(outcome, Err(Error::Timeout { .. })), "{outcome:?}");
    }
    let sessions = [creates_session, destroys_session].map(|is| spy.count(is));
    assert_eq!(sessions, [1, 0]);
    let looks = [RequestKind::KvRead, RequestKind::KvWatch].map(|kind| spy.of(kind).len());
    assert!(looks.iter().sum::<usize>() <= ATTEMPTS + 1, "{looks:?}");
    let others = spy.requests().len() - looks.iter().sum::<usize>();
    assert!(others <= 10, "{others} requests for the sessions");
}

#[test]
fn clones_lead_in_turn_with_one_session_and_each_term_has_a_token_and_sequencer_of_its_own() {
    let world = MockConsul::new(1);
    world.set_latency(millis(1)..=millis(1));
    let a = election(&world, "a");
    let began = world.now();
    let terms = join_all((0..50).map(|_| async {
        let leadership = a.campaign().await.expect("a leadership");
        let term = (
            leadership.fencing_token(),
            leadership.sequencer().to_string(),
        );
        assert!(leadership.is_leader());
        leadership.resign().await.expect("resigned");
        assert!(!leadership.is_leader());
        term
    }));
    let terms = world.run(terms);
    let took = world.now().saturating_since(began);
    assert!(
        terms.windows(2).all(|pair| pair[0].0 < pair[1].0),
        "{terms:?}"
    );
    let sequencers: BTreeSet<_> = terms.iter().map(|term| &term.1).collect();
    assert_eq!(sequencers.len(), terms.len());
    let made = world.stats_of("a").requests_of(RequestKind::SessionCreate);
    assert_eq!(made, 1, "{}", world.trace());
    assert!(took <= millis(50 * 8), "{took:?}");
    world.advance(secs(2));
    assert_only_key_left(&world);
}

#[test]
fn a_handle_that_campaigns_again_at_once_keeps_its_session_for_a_second_and_no_longer() {
    let world = MockConsul::new(1);
    let a = election(&world, "a");
    for _ in 0..10 {
        let leadership = world.run(a.campaign()).expect("a leadership");
        world.run(leadership.resign()).expect("resigned");
    }
    let made = world.stats_of("a").requests_of(RequestKind::SessionCreate);
    assert!(made <= 2, "{made}");
    assert_eq!(
        found(&world).expect("a key").session,
        "",
        "it is free meanwhile"
    );
    assert_only_key_left(&world);
}

#[test]
fn nothing_is_kept_once_nobody_will_campaign_any_more() {
    let world = MockConsul::new(1);
    let a = election(&world, "a");
    for _ in 0..3 {
        let leadership = world.run(a.campaign()).expect("a leadership");
        world.run(leadership.resign()).expect("resigned");
    }
    world.run(a.shutdown());
    assert_only_key_left(&world);
}

#[test]
fn while_a_session_is_kept_others_lead_as_if_it_were_not() {
    let world = MockConsul::new(1);
    let a = election(&world, "a");
    let b = election(&world, "b");
    for _ in 0..10 {
        let leadership = world.run(a.campaign()).expect("a leadership");
        world.run(leadership.resign()).expect("resigned");
        let leadership = world
            .run(b.try_campaign())
            .expect("an answer")
            .expect("free");
        world.run(leadership.resign()).expect("resigned");
        world.advance(millis(300));
    }
    world.advance(secs(2));
    assert_only_key_left(&world);
}

/// `LockIndex` starts again with the key. So the same session would have the same sequencer in two
/// terms.
#[test]
fn a_session_is_not_kept_where_the_terms_of_the_key_are_counted_again() {
    let delete = |world: &MockConsul| {
        world.consul(|consul, now| {
            consul.submit(now, &Request::new(Method::Delete, format!("/v1/kv/{KEY}")));
        });
    };
    let overwrite = |world: &MockConsul| {
        let target = format!("/v1/kv/{KEY}?flags={LOCK_FLAGS}");
        world.consul(|consul, now| {
            consul.submit(now, &Request::new(Method::Put, target).with_body("by hand"));
        });
    };
    let hands: [&dyn Fn(&MockConsul); 2] = [&delete, &overwrite];
    for hand in hands {
        let world = MockConsul::new(1);
        let a = election(&world, "a");
        let mut sequencers = BTreeSet::new();
        for _ in 0..5 {
            let leadership = world.run(a.campaign()).expect("a leadership");
            sequencers.insert(leadership.sequencer().to_string());
            world.run(leadership.resign()).expect("resigned");
            hand(&world);
        }
        assert_eq!(sequencers.len(), 5, "{sequencers:?}");
        world.advance(KEPT);
        assert_eq!(session_count(&world), 0, "{}", world.trace());
    }
}

/// It is checked against the key, so a late copy of it ends no later term.
#[test]
fn a_resignation_that_is_lost_is_repeated() {
    for fault in [Fault::LoseRequest, Fault::LoseAnswer, Fault::ResetAfter] {
        let world = MockConsul::new(1);
        let a = election(&world, "a");
        for _ in 0..2 {
            let leadership = world.run(a.campaign()).expect("a leadership");
            world.run(leadership.resign()).expect("resigned");
        }
        let leadership = world.run(a.campaign()).expect("a leadership");
        world.inject(Rule::new(fault.clone()).matching(resigns));
        world.run(leadership.resign()).expect("resigned");
        assert_eq!(world.pending_rules(), 0, "{fault}");
        let next = world.run(a.campaign()).expect("a leadership");
        world.advance(secs(5));
        assert!(next.is_leader(), "{fault}");
        world.run(next.resign()).expect("resigned");
        world.advance(secs(2));
        assert_only_key_left(&world);
    }
}

#[test]
fn a_session_that_ends_while_it_is_kept_is_followed_by_another() {
    let world = MockConsul::new(1);
    let a = election(&world, "a");
    for _ in 0..3 {
        let leadership = world.run(a.campaign()).expect("a leadership");
        world.run(leadership.resign()).expect("resigned");
    }
    world.consul(|consul, now| {
        let sessions: Vec<_> = consul.sessions().map(|it| it.id().to_owned()).collect();
        for session in sessions {
            consul.destroy_session(now, &session);
        }
    });
    let leadership = world.run(a.campaign()).expect("a leadership");
    assert!(leadership.is_leader());
}

/// The watch may show the election before the answer to the attempt.
#[test]
fn who_resigns_before_the_attempt_is_answered_gives_the_key_back_at_once() {
    let world = MockConsul::new(1);
    let (_first, leadership) = leader(&world);
    let b = election(&world, "b");
    let waiting = world.start({
        let b = b.clone();
        async move { b.campaign().await.expect("a leadership") }
    });
    world.advance(secs(1));
    let slow = Rule::new(Fault::DelayAnswer(millis(20)))
        .host("b")
        .kind(ACQUISITION);
    world.inject(slow);
    world.run(leadership.resign()).expect("resigned");
    let leadership = world.run(waiting);
    assert_eq!(world.pending_rules(), 0, "{}", world.trace());
    let before = world.now();
    world.run(leadership.resign()).expect("resigned");
    let took = world.now().saturating_since(before);
    assert!(took <= millis(40), "{took:?}");
}
