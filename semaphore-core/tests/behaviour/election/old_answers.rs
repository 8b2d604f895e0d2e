//! Answers that were asked for later, and show something earlier: a blocking query tells of the moment at
//! which it is answered, and what was asked for after it may tell of one before that.

use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::api::{CreateSession, LOCK_FLAGS};
use semaphore_core::sans_io::{
    CommandId, Method, Request, RequestId, Response, TransportError, TransportErrorKind,
};
use semaphore_core::{Lost, SessionId};
use transport_mock::RequestKind;

use crate::support::election::*;
use crate::support::election_bench::Bench;

/// Found by exploration: the connection of an attempt breaks, a read goes out, and then the attempt arrives
/// all the same. The poll tells of it before the read, which does not know it yet, is answered.
#[test]
fn a_read_from_before_the_election_does_not_end_the_term() {
    let (mut bench, campaign) = elected_by_the_poll();
    let (read, _) = take_answer(&mut bench, is_read);
    let nothing = Response::new(404, "").with_header("X-Consul-Index", "1");
    bench
        .candidate
        .handle_response(bench.now, read, Ok(nothing));
    assert!(bench.candidate.is_held(bench.now, campaign));
    bench.keeps = |_| false;
    bench.run_for(60_000);
    assert!(bench.losses().is_empty(), "{:?}", bench.losses());
    assert!(bench.candidate.is_held(bench.now, campaign));
}

/// The poll was asked before the attempt, and tells by its index.
#[test]
fn a_read_that_shows_what_a_poll_has_told_already_is_the_last_one() {
    let (mut bench, campaign) = elected_by_the_poll();
    bench.turn();
    let (read, same) = take_answer(&mut bench, is_read);
    let sent = bench.sent.len();
    bench.candidate.handle_response(bench.now, read, Ok(same));
    bench.turn();
    assert_eq!(bench.sent.len(), sent, "{:#?}", bench.sent);
    assert!(bench.candidate.is_held(bench.now, campaign));
}

/// It was asked for after the attempt. What arrives later than its answer is not known to it.
#[test]
fn a_poll_from_before_an_attempt_broke_off_does_not_tell_what_became_of_it() {
    let mut bench = Bench::new(1);
    let session = rival(&mut bench);
    bench.candidate.campaign(bench.now, None).expect("accepted");
    bench.run_for(1_000);
    bench.keeps = |kind| {
        let is_read = matches!(kind, RequestKind::KvRead | RequestKind::KvWatch);
        is_read || kind == crate::election::unknown::acquisition()
    };
    let target = format!("/v1/kv/{KEY}?release={session}&flags={LOCK_FLAGS}");
    bench.write(&Request::new(Method::Put, target));
    bench.turn();
    let (poll, free) = take_answer(&mut bench, is_read);
    bench
        .candidate
        .handle_response(bench.now, poll, Ok(free.clone()));
    bench.turn();
    let (attempt, _) = take_answer(&mut bench, |answer| !is_read(answer));
    let (poll, _) = take_answer(&mut bench, is_read);
    break_off(&mut bench, attempt);
    bench.candidate.handle_response(bench.now, poll, Ok(free));
    bench.run_for(1_000);
    let is_attempt = |request: &&String| request.contains("acquire=") || request.contains("txn");
    let attempts = bench.sent.iter().filter(is_attempt).count();
    assert_eq!(attempts, 1, "{:#?}", bench.sent);
}

/// Its index is higher than that of the term: nothing need be asked again.
#[test]
fn a_poll_from_before_the_election_that_shows_what_came_after_it_ends_the_term() {
    let (mut bench, campaign) = elected();
    let delete = Request::new(Method::Delete, format!("/v1/kv/{KEY}"));
    ask(&mut bench, &delete);
    let other = led_by_another(&mut bench);
    let (poll, _) = take_answer(&mut bench, is_read);
    bench.candidate.handle_response(bench.now, poll, Ok(other));
    assert!(!bench.candidate.is_held(bench.now, campaign));
    bench.turn();
    let losses = bench.losses();
    assert!(matches!(losses[..], [Lost::KeyTaken { .. }]), "{losses:?}");
}

/// It shows no key, so that it may be from before the key was there. The next poll goes on from its index
/// and tells nothing of that.
#[test]
fn a_poll_from_before_the_election_that_shows_no_key_is_followed_by_a_read() {
    let (mut bench, campaign) = elected();
    let delete = Request::new(Method::Delete, format!("/v1/kv/{KEY}"));
    ask(&mut bench, &delete);
    let nothing = ask(
        &mut bench,
        &Request::new(Method::Get, format!("/v1/kv/{KEY}")),
    );
    let (poll, _) = take_answer(&mut bench, is_read);
    bench
        .candidate
        .handle_response(bench.now, poll, Ok(nothing));
    assert!(bench.candidate.is_held(bench.now, campaign));
    bench.turn();
    assert!(!bench.candidate.is_held(bench.now, campaign));
    let losses = bench.losses();
    assert!(
        matches!(losses[..], [Lost::KeyDeleted { .. }]),
        "{losses:?}"
    );
}

/// Its answer is late, and by then the poll has told who leads now.
#[test]
fn an_attempt_that_was_overtaken_elects_nobody() {
    let (mut bench, campaign) = attempting();
    // Long enough for a renewal: then the poll is not the last thing that was asked.
    bench.run_for(6_000);
    ask(
        &mut bench,
        &Request::new(Method::Delete, format!("/v1/kv/{KEY}")),
    );
    let (attempt, applied) = take_answer(&mut bench, |answer| !is_read(answer));
    let (poll, _) = take_answer(&mut bench, is_read);
    let other = led_by_another(&mut bench);
    bench.candidate.handle_response(bench.now, poll, Ok(other));
    assert!(!bench.candidate.is_held(bench.now, campaign));
    bench
        .candidate
        .handle_response(bench.now, attempt, Ok(applied));
    assert!(!bench.candidate.is_held(bench.now, campaign));
    bench.keeps = |_| false;
    bench.run_for(1_000);
    assert!(!bench.candidate.is_held(bench.now, campaign));
    assert!(bench.losses().is_empty(), "{:?}", bench.losses());
}

/// Found by twenty candidates with short terms on a real agent: the session is kept from one term to the next, so that an answer
/// that shows the former term names the right session.
#[test]
fn an_answer_from_a_former_term_elects_nobody_in_the_next_campaign() {
    let (mut bench, first) = Bench::leading();
    bench.candidate.release(bench.now, first);
    bench.run_for(10);
    bench.keeps = |kind| kind == RequestKind::KvWatch;
    let second = bench.candidate.campaign(bench.now, None).expect("accepted");
    bench.run_for(10);
    if !bench.candidate.is_held(bench.now, second) {
        // A plain read has shown that the key is free, or is to be waited for.
        deliver_one(&mut bench);
        bench.run_for(1_000);
    }
    assert!(bench.candidate.is_held(bench.now, second));
    bench.candidate.release(bench.now, second);
    bench.turn();
    bench.keeps = |kind| matches!(kind, RequestKind::KvRead | RequestKind::KvWatch);
    let third = bench.candidate.campaign(bench.now, None).expect("accepted");
    bench.turn();
    let of_second =
        |answer: &Response| String::from_utf8_lossy(answer.body()).contains(r#""Session":""#);
    if crate::ENCODING == semaphore_core::Encoding::Transactions {
        let (poll, former) = take_answer(&mut bench, of_second);
        bench.candidate.handle_response(bench.now, poll, Ok(former));
        assert!(!bench.candidate.is_held(bench.now, third));
    }
    bench.keeps = |_| false;
    while !bench.kept.is_empty() {
        deliver_one(&mut bench);
    }
    bench.run_for(1_000);
    assert!(bench.candidate.is_held(bench.now, third));
    assert!(bench.losses().is_empty(), "{:?}", bench.losses());
}

/// The first of what is kept back arrives.
fn deliver_one(bench: &mut Bench) {
    let (id, answer) = bench.kept.remove(0);
    bench.candidate.handle_response(bench.now, id, Ok(answer));
    bench.turn();
}

/// A leader whose attempt broke off. The read for it is under way, and the poll has told before.
fn elected_by_the_poll() -> (Bench, CommandId) {
    let (mut bench, campaign) = attempting();
    let (attempt, _) = take_answer(&mut bench, |answer| !is_read(answer));
    bench.keeps = |kind| matches!(kind, RequestKind::KvRead | RequestKind::KvWatch);
    break_off(&mut bench, attempt);
    let (poll, elected) = take_answer(&mut bench, is_read);
    bench
        .candidate
        .handle_response(bench.now, poll, Ok(elected));
    assert!(bench.candidate.is_held(bench.now, campaign));
    (bench, campaign)
}

/// A candidate whose attempt was applied; its answer and that of the poll are kept back.
fn attempting() -> (Bench, CommandId) {
    let mut bench = Bench::new(1);
    bench.keeps =
        |kind| kind == crate::election::unknown::acquisition() || kind == RequestKind::KvWatch;
    let campaign = bench.candidate.campaign(bench.now, None).expect("accepted");
    bench.run_for(100);
    (bench, campaign)
}

/// A leader. The answer of the poll that it had asked before its election is kept back.
fn elected() -> (Bench, CommandId) {
    let (mut bench, campaign) = attempting();
    let (attempt, applied) = take_answer(&mut bench, |answer| !is_read(answer));
    bench.keeps = |kind| kind == RequestKind::KvWatch;
    bench
        .candidate
        .handle_response(bench.now, attempt, Ok(applied));
    bench.turn();
    assert!(bench.candidate.is_held(bench.now, campaign));
    (bench, campaign)
}

fn is_read(answer: &Response) -> bool {
    answer.header("X-Consul-Index").is_some()
}

/// The first of those that are kept back.
#[track_caller]
fn take_answer(bench: &mut Bench, is_it: fn(&Response) -> bool) -> (RequestId, Response) {
    let at = bench.kept.iter().position(|(_, answer)| is_it(answer));
    bench.kept.remove(at.expect("an answer that is kept back"))
}

/// The connection breaks, and a read is to tell what became of the attempt.
fn break_off(bench: &mut Bench, attempt: RequestId) {
    let broken = TransportError::new(TransportErrorKind::Unknown);
    bench
        .candidate
        .handle_response(bench.now, attempt, Err(broken));
    bench.turn();
}

/// What a read shows once somebody else has acquired the key.
fn led_by_another(bench: &mut Bench) -> Response {
    rival(bench);
    ask(bench, &Request::new(Method::Get, format!("/v1/kv/{KEY}")))
}

/// Somebody else acquires the key.
fn rival(bench: &mut Bench) -> SessionId {
    let create = Request::new(Method::Put, "/v1/session/create");
    let created = ask(bench, &create.with_body(r#"{"NodeChecks":[]}"#));
    let session = CreateSession::parse(&created).expect("a session");
    let target = format!("/v1/kv/{KEY}?acquire={session}&flags={LOCK_FLAGS}");
    let acquired = ask(bench, &Request::new(Method::Put, target));
    assert_eq!(acquired.body(), b"true");
    session
}

fn ask(bench: &mut Bench, request: &Request) -> Response {
    let asked = bench.consul.submit(bench.now, request);
    let mut answers = std::iter::from_fn(|| bench.consul.poll_answer());
    let answer = answers.find(|(exchange, _)| *exchange == asked);
    answer.expect("an answer").1
}
