//! Writes of an election whose outcome the sender can't know. They are resolved by a read, never
//! guessed. One candidate leads at a time, everybody gets a turn, and nothing is left.

use semaphore_core::Election;
use semaphore_core::sans_io::Response;
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::support::election::*;
use crate::support::*;

/// What can happen to a write, and whether its sender learns of it.
fn faults() -> Vec<Fault> {
    let html = "<html><h1>504 Gateway Time-out</h1></html>";
    vec![
        Fault::Refuse,
        Fault::LoseRequest,
        Fault::LoseAnswer,
        Fault::ResetBefore,
        Fault::ResetAfter,
        Fault::BadAnswer,
        Fault::AnswerAfter(Response::new(504, html)),
        Fault::AnswerAfter(Response::new(200, html)),
        Fault::AnswerAfter(Response::new(500, "No cluster leader")),
        Fault::Answer(Response::new(504, html)),
        Fault::too_many_requests(),
        Fault::Duplicate(millis(1)),
        Fault::Duplicate(secs(2)),
        Fault::Duplicate(secs(40)),
        // The client gives up after 3 s.
        Fault::Delay(secs(1)),
        Fault::Delay(secs(4)),
        Fault::Delay(secs(40)),
        Fault::DelayAnswer(secs(1)),
        Fault::DelayAnswer(secs(4)),
    ]
}

/// Two hosts lead twice each. The outcome of one of the first host's writes is unknown.
fn take_turns(kind: RequestKind, fault: &Fault, skip: u64) {
    let rule = Rule::new(fault.clone()).kind(kind);
    take_turns_under(rule, fault, skip);
}

fn take_turns_under(rule: Rule, fault: &Fault, skip: u64) {
    let world = MockConsul::new(3);
    world.inject(rule.host("a").skip(skip));
    let turns = |election: Election| {
        let world = world.clone();
        async move {
            for _ in 0..2 {
                let leadership = election.campaign().await.expect("elected");
                for _ in 0..10 {
                    assert!(leadership.is_leader());
                    let key = found(&world).expect("a key");
                    assert_eq!(key.session, leadership.sequencer().session.as_str());
                    assert_eq!(key.lock_index, leadership.term());
                    world.sleep(millis(100)).await;
                }
                leadership.resign().await.expect("resigned");
            }
        }
    };
    let a = world.start(turns(election(&world, "a")));
    let b = world.start(turns(election(&world, "b")));
    world.run(a);
    world.run(b);
    assert_eq!(world.pending_rules(), 0, "{fault} did not strike");
    world.clear_faults();
    world.advance(secs(90));
    assert_only_key_left(&world);
}

#[test]
fn an_attempt_whose_outcome_is_unknown_is_resolved() {
    for fault in faults() {
        for skip in [0, 1] {
            take_turns(ACQUISITION, &fault, skip);
        }
    }
}

#[test]
fn a_resignation_whose_outcome_is_unknown_is_resolved() {
    for fault in faults() {
        take_turns_under(Rule::new(fault.clone()).matching(resigns), &fault, 0);
    }
}

#[test]
fn sessions_whose_requests_are_unknown_are_made_and_destroyed() {
    for fault in faults() {
        take_turns(RequestKind::SessionCreate, &fault, 0);
        take_turns(RequestKind::SessionDestroy, &fault, 0);
    }
}

#[test]
fn reads_that_fail_are_repeated() {
    for fault in faults() {
        take_turns(RequestKind::KvRead, &fault, 0);
        take_turns(RequestKind::KvWatch, &fault, 0);
    }
}

#[test]
fn an_attempt_that_was_applied_although_its_answer_is_lost_leads() {
    let world = MockConsul::new(1);
    world.inject(Rule::new(Fault::LoseAnswer).kind(ACQUISITION));
    let (_election, leadership) = leader(&world);
    assert_eq!(world.pending_rules(), 0);
    assert_eq!(leadership.term(), 1, "it was not repeated");
    let requests = world.stats().requests_of(ACQUISITION);
    assert_eq!(requests, 1);
}

/// No poll shows it either.
#[test]
fn an_attempt_whose_answer_is_lost_is_read_and_not_repeated() {
    let world = MockConsul::new(1);
    world.inject(Rule::new(Fault::LoseAnswer).kind(ACQUISITION));
    world.inject(
        Rule::new(Fault::LoseAnswer)
            .kind(RequestKind::KvWatch)
            .always(),
    );
    let before = world.now();
    let (_election, leadership) = leader(&world);
    assert!(leadership.is_leader());
    let took = world.now().saturating_since(before);
    assert!(took <= millis(3_100), "{took:?}");
    assert_eq!(world.stats().requests_of(ACQUISITION), 1);
}

#[test]
fn an_attempt_is_not_repeated_while_a_slow_read_is_to_tell_of_it() {
    let world = MockConsul::new(1);
    world.inject(Rule::new(Fault::LoseAnswer).kind(ACQUISITION));
    world.inject(
        Rule::new(Fault::LoseAnswer)
            .kind(RequestKind::KvWatch)
            .always(),
    );
    // The first read comes before the attempt, so it is not slow.
    let slow = Rule::new(Fault::DelayAnswer(secs(2))).kind(RequestKind::KvRead);
    world.inject(slow.skip(1));
    let (_election, leadership) = leader(&world);
    assert!(leadership.is_leader());
    assert_eq!(world.pending_rules(), 0);
    assert_eq!(world.stats().requests_of(ACQUISITION), 1);
}

/// The poll ends after 15 s to 16 s, while a read for the second attempt is under way.
#[test]
fn a_poll_from_before_an_attempt_does_not_tell_what_became_of_it() {
    let world = MockConsul::new(1);
    world.inject(Rule::new(Fault::LoseRequest).kind(ACQUISITION).always());
    let slow = Rule::new(Fault::DelayAnswer(millis(2_500))).kind(RequestKind::KvRead);
    world.inject(slow.skip(1).always());
    let election = elect_with(builder_for(KEY).ttl(secs(30)), &world.client("a"));
    let _campaign = world.start(async move { election.campaign().await });
    // An attempt is given up after 6 s.
    world.advance(millis(16_400));
    assert_eq!(world.stats().requests_of(ACQUISITION), 2);
    world.advance(millis(1_200));
    assert_eq!(world.stats().requests_of(ACQUISITION), 3);
}

#[test]
fn whoever_gives_up_while_its_attempt_is_unknown_leaves_no_lock_delay() {
    let world = MockConsul::new(1);
    world.inject(Rule::new(Fault::LoseAnswer).kind(ACQUISITION).host("a"));
    world.inject(
        Rule::new(Fault::LoseAnswer)
            .kind(RequestKind::KvWatch)
            .host("a")
            .always(),
    );
    let a = election(&world, "a");
    assert!(world.run(a.campaign_timeout(secs(1))).is_err());
    let b = election(&world, "b");
    let before = world.now();
    let second = world.run(b.campaign()).expect("elected");
    let took = world.now().saturating_since(before);
    assert!(took <= secs(4), "{took:?}");
    assert_eq!(second.term(), 2);
}

#[test]
fn an_attempt_that_arrives_when_its_sender_has_gone_leaves_nothing() {
    let world = MockConsul::new(1);
    world.inject(Rule::new(Fault::Delay(secs(10))).kind(ACQUISITION));
    let a = election(&world, "a");
    assert!(world.run(a.campaign_timeout(secs(1))).is_err());
    world.advance(secs(60));
    assert_only_key_left(&world);
}

/// How this program acquires the key.
pub(crate) const ACQUISITION: RequestKind = RequestKind::Txn;
