//! Every way out.

use crate::asked::Asked;
use crate::machine::semaphore::contender::tests::*;

#[test]
fn leaving_before_anything_was_sent_leaves_nothing() {
    let mut bench = Bench::new();
    bench.leave(0);
    bench.assert_gone(0);
}

#[test]
fn leaving_while_a_session_is_created_waits_for_it_and_destroys_it() {
    let mut bench = Bench::new();
    let (part, _) = bench.send(0).unwrap();
    bench.leave(0);
    assert!(bench.contender.is_leaving());
    assert_eq!(bench.send(1), None);
    bench.answer(1, part, (200, &format!(r#"{{"ID":"{A}"}}"#)));
    bench.assert_destroys(1);
}

#[test]
fn leaving_while_a_session_is_created_in_vain_leaves_nothing() {
    let mut bench = Bench::new();
    let (part, _) = bench.send(0).unwrap();
    bench.leave(0);
    bench.answer(1, part, (500, "No cluster leader"));
    bench.assert_gone(1);
}

#[test]
fn leaving_while_a_key_is_acquired_waits_for_it_and_deletes_it() {
    let mut bench = Bench::new();
    bench.exchange(
        0,
        "/v1/session/create",
        (200, &format!(r#"{{"ID":"{A}"}}"#)),
    );
    let (part, _) = bench.send(0).unwrap();
    bench.leave(0);
    assert_eq!(bench.send(1), None);
    bench.answer(1, part, APPLIED);
    bench.assert_goes(1);
}

#[test]
fn leaving_the_queue_deletes_the_key_and_destroys_the_session() {
    let mut bench = Bench::waiting();
    bench.leave(0);
    assert!(!bench.contender.must_withdraw());
    bench.assert_goes(0);
}

#[test]
fn leaving_with_a_claim_or_a_slot_waits_until_the_record_does_not_name_it() {
    for mut bench in [Bench::claiming(), Bench::held()] {
        assert!(!bench.contender.must_withdraw());
        bench.leave(0);
        assert!(bench.contender.must_withdraw());
        assert_eq!(bench.send(20_000), None, "its key tells that it is alive");
        assert!(!bench.is_due(at(20_000)));
        bench.withdrawn(20_000);
        assert!(!bench.contender.must_withdraw());
        bench.assert_goes(20_000);
    }
}

#[test]
fn an_answer_that_comes_after_the_view_does_not_hold_up_who_leaves() {
    let mut bench = Bench::claiming();
    bench.leave(0);
    bench.withdrawn(1);
    bench.contender.admitted(BASE);
    assert!(!bench.contender.must_withdraw());
    bench.assert_goes(1);
}

#[test]
fn leaving_without_a_key_destroys_the_session_once_it_is_out_of_the_record() {
    let mut bench = Bench::held();
    let lost = bench.observe(1, with_our_key_tied_to(B), false);
    assert!(matches!(lost, Some(ContenderEvent::Lost(ACQUIRE, _))));
    bench.leave(1);
    assert_eq!(bench.send(1), None);
    bench.withdrawn(1);
    bench.assert_destroys(1);
}

#[test]
fn a_view_may_show_that_the_record_does_not_name_a_leaver() {
    let mut bench = Bench::held();
    bench.leave(0);
    assert!(bench.observe(0, unheld(Index(51)), false).is_none());
    bench.assert_goes(0);
}

#[test]
fn a_leaver_has_nothing_more_to_lose() {
    for shown in [
        without_our_key(),
        with_our_key_tied_to(B),
        with_our_key_tied_to(""),
    ] {
        let mut bench = Bench::held();
        bench.leave(0);
        assert!(bench.observe(1, shown, false).is_none());
        assert!(bench.contender.is_leaving());
    }
    let mut bench = Bench::held();
    let (part, _) = bench.send(5_000).unwrap();
    bench.leave(5_000);
    let gone = (404, "Session id 'x' not found");
    assert!(bench.answer(5_000, part, gone).is_none());
    assert!(bench.handle_timeout(13_500, None).is_none());
    assert!(bench.contender.is_leaving());
}

#[test]
fn leaving_again_gains_no_time() {
    let mut bench = Bench::held();
    bench.leave(0);
    assert_eq!(bench.contender.ends_at(), Some(at(30_000)));
    bench.leave(10_000);
    assert_eq!(bench.contender.ends_at(), Some(at(30_000)));
    bench.handle_timeout(30_000, None);
    bench.leave(30_000);
    let left_at = bench.contender.left_at(&bench.settings);
    assert_eq!(left_at, Some(at(0)));
    assert!(bench.contender.is_left_behind());
}

#[test]
fn each_step_out_can_be_skipped_and_the_first_failure_is_kept() {
    let mut bench = Bench::held();
    bench.leave(0);
    bench.skip(1);
    assert!(!bench.contender.must_withdraw(), "not out of the record");
    bench.skip(2);
    let (part, target) = bench.send(2).unwrap();
    assert!(matches!(part, Part::Session(_)), "not the key: {target}");
    bench.answer(2, part, (500, "No cluster leader"));
    bench.skip(3);
    assert!(
        bench.contender.is_left_behind(),
        "the session is ended when it can be"
    );
    bench.exchange(1_000, &format!("/v1/session/destroy/{A}"), (200, "true"));
    bench.assert_gone(1_000);
    assert!(matches!(
        bench.contender.leave_failure(),
        Some(RequestError::Denied { text, .. }) if text == "at 1"
    ));
}

#[test]
fn what_is_refused_for_good_on_the_way_out_is_skipped() {
    let mut bench = Bench::waiting();
    bench.leave(0);
    bench.exchange(0, &format!("/v1/kv/jobs/{A}"), DENIED);
    bench.exchange(0, &format!("/v1/session/destroy/{A}"), DENIED);
    assert!(bench.contender.is_left_behind());
    bench.exchange(1_000, &format!("/v1/session/destroy/{A}"), (200, "true"));
    bench.assert_gone(1_000);
    let failure = bench.contender.leave_failure();
    assert!(matches!(failure, Some(RequestError::Denied { .. })));
}

#[test]
fn whoever_stays_skips_nothing() {
    let mut bench = Bench::held();
    bench.skip(0);
    assert_eq!(bench.contender.held_for(), Some(ACQUIRE));
    assert_eq!(bench.contender.presence(), Presence::Yes(BASE));
    assert!(bench.contender.leave_failure().is_none());
}

#[test]
fn its_caller_is_told_that_it_takes_longer_and_it_goes_on() {
    let mut bench = Bench::held();
    bench.leave(1_000);
    assert_eq!(bench.timeout(), Some(at(31_000)));
    bench.handle_timeout(30_999, None);
    assert!(!bench.contender.is_left_behind());
    bench.handle_timeout(31_000, None);
    assert!(bench.contender.is_left_behind());
    bench.contender.abandon();
    bench.assert_gone(31_000);
}

#[test]
fn one_that_has_given_up_sends_and_reports_nothing_more() {
    let mut bench = Bench::waiting();
    let gone = (404, "Session id 'x' not found");
    bench.exchange(5_000, "/v1/session/renew", gone);
    let (part, target) = bench.send(5_000).unwrap();
    assert!(target.starts_with("/v1/session/info"), "{target}");
    bench.leave(5_000);
    bench.contender.abandon();
    bench.assert_gone(35_000);
    assert!(bench.answer(35_000, part, (200, "[]")).is_none());
}

#[test]
fn giving_up_names_the_failure_that_is_nearest() {
    let denied = |text: &str| RequestError::Denied {
        text: text.into(),
        asked: Asked::default(),
    };
    let others = denied("another request's");
    let text = |bench: &Bench| bench.contender.leave_failure().unwrap().to_string();

    let mut bench = Bench::held();
    bench.leave(0);
    bench
        .contender
        .withdrawal_failed(&denied("the withdrawal's"));
    bench.handle_timeout(30_000, Some(&others));
    assert!(text(&bench).contains("the withdrawal's"));

    let mut bench = Bench::waiting();
    bench.leave(0);
    bench.exchange(0, &format!("/v1/kv/jobs/{A}"), (500, "the key's"));
    bench.handle_timeout(30_000, Some(&others));
    assert!(text(&bench).contains("the key's"));

    let mut bench = Bench::held();
    bench.leave(0);
    bench.handle_timeout(30_000, Some(&others));
    assert!(text(&bench).contains("another request's"));

    let mut bench = Bench::held();
    bench.leave(0);
    bench.handle_timeout(30_000, None);
    assert!(matches!(
        bench.contender.leave_failure(),
        Some(RequestError::Transport(error)) if error.kind() == TransportErrorKind::Timeout
    ));

    let mut bench = Bench::held();
    bench.leave(0);
    bench
        .contender
        .withdrawal_failed(&denied("the withdrawal's"));
    bench.withdrawn(0);
    bench.handle_timeout(30_000, Some(&others));
    assert!(
        text(&bench).contains("another request's"),
        "it was repaired"
    );
}

/// The server that answers may not show the deletion yet.
#[test]
fn a_former_key_of_its_session_is_not_taken_for_its_place() {
    let mut bench = Bench::held();
    bench
        .contender
        .leave_orderly(at(0), Moment(0), &bench.settings);
    bench.withdrawn(0);
    bench.exchange(0, &format!("/v1/kv/jobs/{A}"), (200, "true"));
    let spare = bench.contender.take_session().unwrap();
    bench.contender = Contender::with_session(spare, Moment(1), &bench.settings);
    bench.exchange(1, "/v1/txn", APPLIED);
    bench.observe(2, unheld(BASE), false);
    assert_eq!(bench.contender.create_index(), None);
}
