//! The machine of a follower without its driver. It sends one request at a time, and answers may
//! come in any order.

use semaphore_core::sans_io::{
    Follow, Index, Instant, RequestId, Response, Transmit, TransportError, TransportErrorKind,
};
use semaphore_core::{InvalidInput, LeaderEvent, LeaderStatus, LockKey, Scope};

use crate::support::candidate::LEADER;
use crate::support::*;

const A: &str = "aaaaaaaa-0000-0000-0000-000000000000";

fn at(seconds: u64) -> Instant {
    Instant::from_origin(secs(seconds))
}

fn follow() -> Follow {
    let key = LockKey::new(LEADER).expect("a key");
    Follow::new(key, Scope::new(), 1)
}

fn answer(index: u64, fields: &str) -> Response {
    let body = format!(r#"[{{"Key":"{LEADER}"{fields}}}]"#);
    let index = Index(index).to_string();
    Response::new(200, body).with_header("X-Consul-Index", index)
}

fn led(index: u64) -> Response {
    answer(index, &format!(r#","Session":"{A}","LockIndex":1"#))
}

#[track_caller]
fn send(follow: &mut Follow, now: Instant) -> (RequestId, String) {
    let Transmit { id, request, .. } = follow.poll_transmit(now).expect("a request");
    assert!(follow.poll_transmit(now).is_none(), "one at a time");
    assert_eq!(follow.poll_timeout(), None, "until it is answered");
    (id, request.target().to_owned())
}

fn event(follow: &mut Follow) -> Option<LeaderEvent> {
    let event = follow.poll_event()?;
    Some(event.expect("an event"))
}

#[test]
fn it_reads_then_polls_from_the_index_of_the_answer_before() {
    let mut follow = follow();
    let (id, target) = send(&mut follow, at(1));
    assert_eq!(target, "/v1/kv/service/db/leader?consistent");
    follow.handle_response(at(1), id, &Ok(led(7)));
    assert!(follow.poll_transmit(at(1)).is_none(), "an event waits");
    assert!(matches!(event(&mut follow), Some(LeaderEvent::Elected(_))));
    let (id, target) = send(&mut follow, at(1));
    assert_eq!(target, "/v1/kv/service/db/leader?index=7&wait=5s");
    follow.handle_response(at(6), id, &Ok(led(7)));
    assert!(event(&mut follow).is_none(), "nothing is new");
    let (_, target) = send(&mut follow, at(6));
    assert_eq!(target, "/v1/kv/service/db/leader?index=7&wait=5s");
}

#[test]
fn its_poll_may_take_as_long_as_the_server_holds_it_open() {
    let mut follow = follow();
    let (id, _) = send(&mut follow, at(1));
    follow.handle_response(at(1), id, &Ok(led(7)));
    follow.poll_event();
    let Transmit { request, .. } = follow.poll_transmit(at(1)).expect("a poll");
    assert!(request.is_long_poll());
    assert!(request.timeout() > secs(5) * 17 / 16);
}

#[test]
fn what_is_answered_before_its_time_with_nothing_new_is_asked_of_the_leader() {
    let mut follow = follow();
    for (sent, answered) in [(1, 1), (1, 3)] {
        let (id, _) = send(&mut follow, at(sent));
        follow.handle_response(at(answered), id, &Ok(led(7)));
        follow.poll_event();
    }
    let (id, target) = send(&mut follow, at(3));
    assert_eq!(target, "/v1/kv/service/db/leader?consistent");
    follow.handle_response(at(3), id, &Ok(led(7)));
    assert!(event(&mut follow).is_none());
    let (_, target) = send(&mut follow, at(3));
    assert_eq!(target, "/v1/kv/service/db/leader?index=7&wait=5s");
}

#[test]
fn the_leader_is_asked_for_as_long_as_its_index_is_below_one_shown_before() {
    let mut follow = follow();
    let mut exchange = |now, response: Response| {
        let (id, target) = send(&mut follow, at(now));
        follow.handle_response(at(now), id, &Ok(response));
        (target, event(&mut follow))
    };
    let gone = |index| answer(index, r#","Value":null"#);
    assert!(exchange(1, led(7)).1.is_some());
    let (_, shown) = exchange(2, gone(5));
    assert!(shown.is_none(), "{shown:?}");
    let (target, shown) = exchange(2, gone(5));
    assert_eq!(target, "/v1/kv/service/db/leader?consistent");
    assert!(matches!(shown, Some(LeaderEvent::Leaderless { .. })));
    let (target, shown) = exchange(2, led(6));
    assert!(target.contains("index=5") && target.contains("consistent"));
    assert!(matches!(shown, Some(LeaderEvent::Elected(_))));
    let (target, shown) = exchange(3, gone(8));
    assert!(target.contains("index=6") && target.contains("consistent"));
    assert!(shown.is_some());
    let (target, _) = exchange(4, led(9));
    assert_eq!(target, "/v1/kv/service/db/leader?index=8&wait=5s");
}

#[test]
fn an_answer_before_its_time_is_shown_once_the_leader_says_the_same() {
    let gone = answer(7, r#","Value":null"#);
    let mut follow = follow();
    let (id, _) = send(&mut follow, at(1));
    follow.handle_response(at(1), id, &Ok(led(7)));
    assert!(event(&mut follow).is_some());
    let (id, _) = send(&mut follow, at(1));
    follow.handle_response(at(3), id, &Ok(gone.clone()));
    let told = event(&mut follow);
    assert!(told.is_none(), "{told:?}");
    let (id, _) = send(&mut follow, at(3));
    follow.handle_response(at(3), id, &Ok(gone));
    let told = event(&mut follow);
    assert!(
        matches!(told, Some(LeaderEvent::Leaderless { .. })),
        "{told:?}"
    );
}

#[test]
fn a_conflict_from_long_ago_is_not_told_and_the_leaders_word_is() {
    let foreign = |index| answer(index, r#","Flags":7"#);
    let mut follow = follow();
    for (now, response) in [(1, led(7)), (2, foreign(5)), (3, led(7))] {
        let (id, _) = send(&mut follow, at(now));
        follow.handle_response(at(now), id, &Ok(response));
        while event(&mut follow).is_some() {}
    }
    assert!(follow.current().and_then(LeaderStatus::leader).is_some());
    let (id, _) = send(&mut follow, at(4));
    follow.handle_response(at(4), id, &Ok(foreign(8)));
    assert!(matches!(follow.poll_event(), Some(Err(_))));
    assert!(follow.is_interrupted());
    assert_eq!(follow.current(), None);
}

#[test]
fn answers_that_come_late_or_twice_are_ignored() {
    let mut follow = follow();
    let (first, _) = send(&mut follow, at(1));
    follow.handle_response(at(1), first, &Ok(led(7)));
    assert!(event(&mut follow).is_some());
    let gone = answer(9, r#","Value":null"#);
    follow.handle_response(at(1), first, &Ok(gone.clone()));
    let (second, _) = send(&mut follow, at(2));
    follow.handle_response(at(2), first, &Ok(gone.clone()));
    assert!(event(&mut follow).is_none());
    assert_eq!(follow.poll_timeout(), None, "the second is under way");
    follow.handle_response(at(2), second, &Ok(gone.clone()));
    assert!(event(&mut follow).is_some());
}

#[test]
fn failures_are_waited_out_with_growing_waits_and_told_once() {
    let mut follow = follow();
    let mut now = at(1);
    let mut waits = Vec::new();
    for failure in 0..12 {
        let (id, _) = send(&mut follow, now);
        let error = TransportError::new(TransportErrorKind::NotSent);
        follow.handle_response(now, id, &Err(error));
        let told = event(&mut follow);
        assert_eq!(told.is_some(), failure == 0, "{told:?}");
        let due = follow.poll_timeout().expect("another try");
        assert!(follow.poll_transmit(due - millis(1)).is_none(), "too early");
        waits.push(due.saturating_since(now));
        now = due;
    }
    assert!(
        waits[0] >= millis(50) && waits[0] <= millis(100),
        "{waits:?}"
    );
    assert!(
        waits[11] >= millis(2_500) && waits[11] <= secs(5),
        "{waits:?}"
    );
    assert!(follow.is_interrupted());
}

#[test]
fn what_lay_there_while_nobody_asked_is_neither_news_nor_a_failure() {
    let gone = answer(9, r#","Value":null"#);
    let timeout = TransportError::new(TransportErrorKind::Timeout);
    for result in [Ok(gone), Err(timeout)] {
        let mut follow = follow();
        let (id, _) = send(&mut follow, at(1));
        follow.handle_response(at(1), id, &Ok(led(7)));
        assert!(event(&mut follow).is_some());
        let (id, _) = send(&mut follow, at(1));
        follow.handle_response(at(60), id, &result);
        assert!(event(&mut follow).is_none());
        assert!(!follow.is_interrupted());
        let (_, target) = send(&mut follow, at(60));
        assert_eq!(target, "/v1/kv/service/db/leader?consistent");
    }
}

#[test]
fn what_got_too_old_while_nobody_asked_is_told_within_a_third_of_its_age_if_there_is_no_answer() {
    let timeout = || Err(TransportError::new(TransportErrorKind::Timeout));
    let mut follow = follow();
    let (id, _) = send(&mut follow, at(1));
    follow.handle_response(at(1), id, &Ok(led(7)));
    assert!(event(&mut follow).is_some());
    // The process stands still twice, until long after its request has ended.
    for until in [60, 120] {
        let (id, _) = send(&mut follow, at(until - 59));
        follow.handle_response(at(until), id, &timeout());
        assert!(!follow.is_interrupted(), "nobody asked");
    }
    let Transmit { id, request, .. } = follow.poll_transmit(at(120)).expect("a read");
    assert!(request.timeout() <= secs(5), "{:?}", request.timeout());
    follow.handle_response(at(120) + request.timeout(), id, &timeout());
    let told = event(&mut follow);
    assert!(
        matches!(told, Some(LeaderEvent::Interrupted(_))),
        "{told:?}"
    );
    // Now that this is told, an answer may take longer.
    let due = follow.poll_timeout().expect("another try");
    let Transmit { request, .. } = follow.poll_transmit(due).expect("a read");
    assert!(request.timeout() > secs(5), "{:?}", request.timeout());
}

#[test]
fn an_answer_that_is_a_second_later_than_its_time_counts_still() {
    for (answered, counts) in [(secs(11), true), (millis(11_001), false)] {
        let mut follow = follow();
        let (id, _) = send(&mut follow, at(1));
        follow.handle_response(at(1) + answered, id, &Ok(led(7)));
        assert_eq!(event(&mut follow).is_some(), counts, "after {answered:?}");
    }
}

#[test]
fn after_a_failure_a_plain_read_tells_at_once_that_consul_is_back() {
    let mut follow = follow();
    let (id, _) = send(&mut follow, at(1));
    follow.handle_response(at(1), id, &Ok(led(7)));
    assert!(event(&mut follow).is_some());
    let (id, _) = send(&mut follow, at(1));
    let error = TransportError::new(TransportErrorKind::Timeout);
    follow.handle_response(at(10), id, &Err(error));
    let told = event(&mut follow);
    assert!(
        matches!(told, Some(LeaderEvent::Interrupted(_))),
        "{told:?}"
    );
    let (id, target) = send(&mut follow, at(11));
    assert_eq!(target, "/v1/kv/service/db/leader?consistent");
    follow.handle_response(at(11), id, &Ok(led(7)));
    let told = event(&mut follow);
    assert!(matches!(told, Some(LeaderEvent::Resumed)), "{told:?}");
    assert!(event(&mut follow).is_none());
    let (_, target) = send(&mut follow, at(11));
    assert_eq!(target, "/v1/kv/service/db/leader?index=7&wait=5s");
}

#[test]
fn answers_without_end_are_read_at_the_ceiling_only() {
    let start = at(1);
    let mut follow = follow();
    let (mut now, mut reads) = (start, 0);
    while now < start + secs(100) {
        if let Some(Transmit { id, .. }) = follow.poll_transmit(now) {
            reads += 1;
            follow.handle_response(now, id, &Ok(led(reads)));
            follow.poll_event();
        } else {
            now = follow.poll_timeout().expect("a time");
        }
    }
    assert_eq!(reads, 1_010 - 1);
}

#[test]
fn whatever_is_answered_nothing_panics_and_each_answer_is_shown_or_tried_again() {
    let bodies = [
        String::new(),
        "null".to_owned(),
        "[]".to_owned(),
        "[null]".to_owned(),
        "[".repeat(100_000),
        "<html>".to_owned(),
        r#"[{"Key":"other"}]"#.to_owned(),
        format!(r#"[{{"Key":"{LEADER}","Session":7}}]"#),
        format!(r#"[{{"Key":"{LEADER}","Session":"☃"}}]"#),
        format!(r#"[{{"Key":"{LEADER}","Value":"☃"}}]"#),
        format!(r#"[{{"Key":"{LEADER}","Flags":-1}}]"#),
        format!(r#"[{{"Key":"{LEADER}","LockIndex":1e9}}]"#),
    ];
    let indexes = ["7", "", "-1", "0", "18446744073709551615", "x"];
    for body in &bodies {
        for index in indexes {
            for status in [200, 204, 404, 429, 500, 503] {
                let mut follow = follow();
                let (id, _) = send(&mut follow, at(1));
                let response = Response::new(status, body.as_str());
                let response = response.with_header("X-Consul-Index", index);
                follow.handle_response(at(1), id, &Ok(response));
                let what = format!("{status} {index} {body:.60}");
                let told = event(&mut follow);
                assert!(
                    matches!(
                        told,
                        Some(LeaderEvent::Interrupted(_) | LeaderEvent::Leaderless { .. })
                    ),
                    "{what}: {told:?}"
                );
                let is_leaderless = matches!(
                    follow.current(),
                    None | Some(LeaderStatus::Leaderless { .. })
                );
                assert!(is_leaderless, "{what}");
                let due = follow.poll_timeout().expect("another try");
                assert!(due <= at(2), "{what}: {due}");
                // After an index that was too high, the follower believes the leader.
                for _ in 0..2 {
                    let (id, _) = send(&mut follow, at(2));
                    follow.handle_response(at(2), id, &Ok(led(9)));
                    while event(&mut follow).is_some() {}
                }
                let leader = follow.current().and_then(LeaderStatus::leader);
                assert!(leader.is_some(), "{what}");
            }
        }
    }
}

#[test]
fn what_is_refused_for_good_is_told_once_and_tried_again() {
    for (status, body) in [
        (400, "bad request"),
        (403, "Permission denied"),
        (301, ""),
        (500, "invalid key name, must not begin with '/'"),
    ] {
        let mut follow = follow();
        let mut now = at(1);
        for no in 0..10 {
            let (id, _) = send(&mut follow, now);
            follow.handle_response(now, id, &Ok(Response::new(status, body)));
            let told = follow.poll_event();
            assert_eq!(matches!(told, Some(Err(_))), no == 0, "{status}: {told:?}");
            now = follow.poll_timeout().expect("another try");
        }
        assert!(now >= at(10), "{now}: too soon");
        let (id, _) = send(&mut follow, now);
        follow.handle_response(now, id, &Ok(led(9)));
        assert!(matches!(event(&mut follow), Some(LeaderEvent::Resumed)));
        assert!(matches!(event(&mut follow), Some(LeaderEvent::Elected(_))));
    }
}

#[test]
fn what_it_knows_is_never_older_than_it_may_be_unless_it_says_so() {
    for max_age in [secs(3), secs(15), secs(60)] {
        let key = LockKey::new(LEADER).expect("a key");
        let follow = Follow::new(key, Scope::new(), 1).with_max_age(max_age);
        let mut follow = follow.expect("an age");
        let (first, _) = send(&mut follow, at(1));
        follow.handle_response(at(1), first, &Ok(led(7)));
        assert!(event(&mut follow).is_some());
        // A poll that ends without a change, as late as the server may answer it.
        let Transmit { id, request, .. } = follow.poll_transmit(at(1)).expect("a poll");
        assert!(request.is_long_poll());
        let answered = at(1) + max_age / 3 * 17 / 16;
        follow.handle_response(answered, id, &Ok(led(7)));
        assert_eq!(follow.known_at(), Some(at(1)));
        // A poll that is never answered.
        let Transmit { id, request, .. } = follow.poll_transmit(answered).expect("a poll");
        let given_up = answered + request.timeout();
        assert!(given_up.saturating_since(at(1)) <= max_age, "{given_up}");
        let timeout = TransportError::new(TransportErrorKind::Timeout);
        follow.handle_response(given_up, id, &Err(timeout));
        assert!(follow.is_interrupted());
    }
}

#[test]
fn an_age_that_no_poll_can_keep_is_refused() {
    for max_age in [secs(0), millis(2_999), secs(601)] {
        let key = LockKey::new(LEADER).expect("a key");
        let refused = Follow::new(key, Scope::new(), 1).with_max_age(max_age);
        assert_eq!(refused.err(), Some(InvalidInput::MaxAge(max_age)));
    }
}

#[test]
fn a_fence_is_above_the_tokens_of_those_before_and_not_above_the_leaders_own() {
    let term = |index, lock_index, value: &str| {
        let fields = format!(
            r#","Session":"{A}","LockIndex":{lock_index},"CreateIndex":3,"ModifyIndex":{index},"Value":"{value}""#
        );
        answer(index, &fields)
    };
    let mut follow = follow();
    let mut fence = |response: Response| {
        let (id, _) = send(&mut follow, at(1));
        follow.handle_response(at(1), id, &Ok(response));
        while event(&mut follow).is_some() {}
        let leader = follow.current().and_then(LeaderStatus::leader);
        leader.map(|leader| leader.fence.0)
    };
    assert_eq!(
        fence(term(7, 2, "YQ==")),
        Some(3),
        "it knows no term before"
    );
    assert_eq!(fence(term(9, 2, "Yg==")), Some(3), "the same term");
    assert_eq!(fence(term(12, 3, "Yw==")), Some(10), "between 9 and 12");
    assert_eq!(fence(term(15, 3, "ZA==")), Some(10));
    assert_eq!(fence(answer(20, r#","LockIndex":3"#)), None);
    assert_eq!(fence(term(25, 4, "ZA==")), Some(21));
}

/// The simulator found this: the answer to a plain read may take ten seconds, and its content is
/// just as old.
#[test]
fn what_a_slow_answer_has_told_is_not_shown_for_longer_either() {
    let mut follow = follow();
    let (asked_at, answered) = (at(100), at(109));
    let (first, _) = send(&mut follow, asked_at);
    follow.handle_response(answered, first, &Ok(led(7)));
    assert!(matches!(event(&mut follow), Some(LeaderEvent::Elected(_))));
    assert_eq!(follow.known_at(), Some(asked_at));
    let Transmit { id, request, .. } = follow.poll_transmit(answered).expect("a request");
    let given_up = answered + request.timeout();
    assert!(
        given_up.saturating_since(asked_at) <= secs(15),
        "{given_up}"
    );
    let timeout = TransportError::new(TransportErrorKind::Timeout);
    follow.handle_response(given_up, id, &Err(timeout));
    assert!(follow.is_interrupted());
}
