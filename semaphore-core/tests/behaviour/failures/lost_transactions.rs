//! If a transaction's answer is lost, neither outcome is assumed: a read tells.

use semaphore_core::sans_io::Response;
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::support::aftermath::assert_recovered;
use crate::support::spy::Spy;
use crate::support::steps::{Is, claims, enters, is_transaction, withdraws};
use crate::support::*;

/// What can happen to the answer after the transaction was applied.
fn losses() -> Vec<Fault> {
    let html = "<html><h1>504 Gateway Time-out</h1></html>";
    let contradiction = r#"{"Results":null,"Errors":null}"#;
    vec![
        Fault::LoseAnswer,
        Fault::ResetAfter,
        Fault::BadAnswer,
        Fault::AnswerAfter(Response::new(504, html)),
        Fault::AnswerAfter(Response::new(500, "rpc error making call: EOF")),
        Fault::AnswerAfter(Response::new(200, html)),
        Fault::AnswerAfter(Response::new(200, "")),
        // Rolled back, but without a reason.
        Fault::AnswerAfter(Response::new(409, contradiction)),
    ]
}

/// The requests of a host's acquisition and release. The answer to this step is lost.
fn with_lost(is: Is, fault: &Fault) -> Spy {
    let world = MockConsul::new(1);
    let spy = Spy::on_host(&world, "a");
    world.inject(Rule::new(fault.clone()).matching(is).host("a"));
    // If there is a poll, it must not show the outcome instead.
    let late = Rule::new(Fault::DelayAnswer(secs(10))).host("a");
    world.inject(late.kind(RequestKind::KvWatch).always().optional());
    let semaphore = semaphore(&world, "a", 1);
    world.run(async {
        let permit = semaphore.acquire().await.expect("a slot");
        assert!(permit.is_held());
        let session = permit.sequencers()[0].session.to_string();
        assert_eq!(holders(&world), std::slice::from_ref(&session));
        assert_eq!(contender_keys(&world), [format!("{PREFIX}/{session}")]);
        assert_eq!(session_count(&world), 1, "{}", world.trace());
        permit.release().await.expect("released");
    });
    assert_eq!(world.pending_rules(), 0, "{fault} was never met");
    // A key may stay as long as its session.
    world.advance(secs(2));
    assert_nothing_left(&world);
    assert_recovered(&world, 1);
    spy
}

#[test]
fn an_entry_whose_answer_is_lost_is_made_once() {
    for fault in losses() {
        let spy = with_lost(enters, &fault);
        assert!(
            spy.requests()
                .iter()
                .filter(|it| enters(it))
                .all(is_transaction)
        );
    }
}

#[test]
fn a_claim_whose_answer_is_lost_is_a_grant_when_a_read_shows_it() {
    for fault in losses() {
        let spy = with_lost(claims, &fault);
        assert_eq!(spy.count(claims), 1, "{fault}");
    }
}

#[test]
fn a_release_whose_answer_is_lost_is_over_when_a_read_shows_it() {
    for fault in losses() {
        let spy = with_lost(withdraws, &fault);
        assert_eq!(spy.count(withdraws), 1, "{fault}");
    }
}

#[test]
fn a_transaction_that_was_lost_on_its_way_is_repeated() {
    for is in [enters as Is, claims, withdraws] {
        for fault in [Fault::LoseRequest, Fault::ResetBefore, Fault::Refuse] {
            let spy = with_lost(is, &fault);
            assert_eq!(spy.count(is), 2, "{fault}");
        }
    }
}
