//! Answers that come later and show an earlier state. A blocking query shows the moment of its
//! answer. A request that was sent after it may show an earlier moment.

use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::api::{CreateSession, LOCK_FLAGS};
use semaphore_core::sans_io::{
    CommandId, Method, Request, RequestId, Response, TransportError, TransportErrorKind,
};
use semaphore_core::{Lost, SessionId};
use transport_mock::RequestKind;

use crate::support::election::*;
use crate::support::election_bench::Bench;

/// Exploration found this. The attempt's connection breaks, a read is sent, and then the attempt
/// arrives. The poll shows the election before the read is answered, and the read does not show it.
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

/// The poll was sent before the attempt. Its index tells that it shows the election.
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

/// The poll was sent after the attempt, but a request that arrives after the poll's answer can't be
/// in it.
#[test]
fn a_poll_from_before_an_attempt_broke_off_does_not_tell_what_became_of_it() {
    let mut bench = Bench::new(1);
    let session = rival(&mut bench);
    bench.candidate.campaign(bench.now, None).expect("accepted");
    bench.run_for(1_000);
    bench.keeps = |kind| {
        let is_read = matches!(kind, RequestKind::KvRead | RequestKind::KvWatch);
        is_read || kind == crate::election::unknown::ACQUISITION
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

/// The poll's index is higher than that of the term, so no other request is needed.
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

/// No key, at a lower index than that of the term: the key did not exist yet. The next poll continues
/// from its index and would not show the deletion.
#[test]
fn a_poll_from_before_the_election_that_shows_no_key_is_followed_by_a_read() {
    let (mut bench, campaign) = elected();
    delete(&mut bench);
    let (poll, _) = take_answer(&mut bench, is_read);
    let nothing = Response::new(404, "").with_header("X-Consul-Index", "1");
    bench
        .candidate
        .handle_response(bench.now, poll, Ok(nothing));
    assert!(bench.candidate.is_held(bench.now, campaign));
    bench.turn();
    assert_deleted(&bench, campaign);
}

/// No key, at a higher index than that of the term: it was deleted.
#[test]
fn a_poll_from_before_the_election_that_shows_a_deletion_ends_the_term() {
    let (mut bench, campaign) = elected();
    delete(&mut bench);
    let read = Request::new(Method::Get, format!("/v1/kv/{KEY}"));
    let nothing = ask(&mut bench, &read);
    let (poll, _) = take_answer(&mut bench, is_read);
    bench
        .candidate
        .handle_response(bench.now, poll, Ok(nothing));
    bench.turn();
    assert_deleted(&bench, campaign);
}

/// Seed 21010908 of the simulator found it: the next term had the token of the one before. The read was
/// sent before the poll's answer came, and shows the key as it was before somebody deleted it.
#[test]
fn a_read_from_before_a_deletion_elects_nobody_in_the_next_campaign() {
    let (mut bench, first) = elected_by_the_poll();
    bench.turn();
    bench.candidate.release(bench.now, first);
    let second = bench.candidate.campaign(bench.now, None).expect("accepted");
    bench.turn();
    delete(&mut bench);
    bench.turn();
    let (poll, deleted) = take_answer(&mut bench, |answer| answer.status() == 404);
    bench
        .candidate
        .handle_response(bench.now, poll, Ok(deleted));
    let (read, tied) = take_answer(&mut bench, |answer| {
        String::from_utf8_lossy(answer.body()).contains(r#""Session":""#)
    });
    bench.candidate.handle_response(bench.now, read, Ok(tied));
    assert!(!bench.candidate.is_held(bench.now, second));
    deliver_all(&mut bench);
    assert!(bench.candidate.is_held(bench.now, second));
}

/// Seed 23007149 of the simulator found it. A snapshot was restored after the answer from which the poll
/// continues: Consul's indexes are below the one that it names, so it would last its whole wait.
#[test]
fn a_poll_from_an_index_that_a_restored_snapshot_took_back_is_left() {
    let (mut bench, _) = attempting();
    let (attempt, _) = take_answer(&mut bench, |answer| !is_read(answer));
    let (poll, shown) = take_answer(&mut bench, is_read);
    let before =
        String::from_utf8_lossy(shown.body()).replace("\"ModifyIndex\":", "\"ModifyIndex\":9");
    let before = Response::new(200, before).with_header("X-Consul-Index", "9000");
    bench.candidate.handle_response(bench.now, poll, Ok(before));
    bench.turn();
    assert!(bench.sent.iter().any(|it| it.contains("index=9000")));
    let sent = bench.sent.len();
    break_off(&mut bench, attempt);
    let sent = &bench.sent[sent..];
    let reads = sent
        .iter()
        .filter(|it| it.contains("GET") && !it.contains("index="));
    assert_eq!(
        reads.count(),
        2,
        "one for the attempt, one in place of the poll: {sent:#?}"
    );
}

/// The attempt's answer is late. By then the poll has shown who leads now.
#[test]
fn an_attempt_that_was_overtaken_elects_nobody() {
    let (mut bench, campaign) = attempting();
    // This is long enough for a renewal, so the poll is not the last request.
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

/// Twenty candidates with short terms on a real agent found this. The session is kept from one term
/// to the next. So an answer that shows the earlier term names the right session.
#[test]
fn an_answer_from_a_former_term_elects_nobody_in_the_next_campaign() {
    let (mut bench, first) = Bench::leading();
    bench.candidate.release(bench.now, first);
    bench.run_for(10);
    bench.keeps = |kind| kind == RequestKind::KvWatch;
    let second = bench.candidate.campaign(bench.now, None).expect("accepted");
    bench.run_for(10);
    if !bench.candidate.is_held(bench.now, second) {
        // A plain read has shown that the key is free, or is held.
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
    let (poll, former) = take_answer(&mut bench, of_second);
    bench.candidate.handle_response(bench.now, poll, Ok(former));
    assert!(!bench.candidate.is_held(bench.now, third));
    deliver_all(&mut bench);
    assert!(bench.candidate.is_held(bench.now, third));
    assert!(bench.losses().is_empty(), "{:?}", bench.losses());
}

/// Somebody deletes the key.
fn delete(bench: &mut Bench) {
    let request = Request::new(Method::Delete, format!("/v1/kv/{KEY}"));
    ask(bench, &request);
}

#[track_caller]
fn assert_deleted(bench: &Bench, campaign: CommandId) {
    assert!(!bench.candidate.is_held(bench.now, campaign));
    let losses = bench.losses();
    assert!(
        matches!(losses[..], [Lost::KeyDeleted { .. }]),
        "{losses:?}"
    );
}

/// Delivers the first answer that was kept back.
fn deliver_one(bench: &mut Bench) {
    let (id, answer) = bench.kept.remove(0);
    bench.candidate.handle_response(bench.now, id, Ok(answer));
    bench.turn();
}

/// A leader whose attempt broke off. A read for it is under way, but the poll has shown the
/// election already.
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

/// A candidate whose attempt was applied. The answers to it and to the poll are kept back.
fn attempting() -> (Bench, CommandId) {
    let mut bench = Bench::new(1);
    bench.keeps =
        |kind| kind == crate::election::unknown::ACQUISITION || kind == RequestKind::KvWatch;
    let campaign = bench.candidate.campaign(bench.now, None).expect("accepted");
    bench.run_for(100);
    (bench, campaign)
}

/// A leader. The answer to its poll from before the election is kept back.
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

/// The first matching answer of those that are kept back.
#[track_caller]
fn take_answer(bench: &mut Bench, is_it: fn(&Response) -> bool) -> (RequestId, Response) {
    let at = bench.kept.iter().position(|(_, answer)| is_it(answer));
    bench.kept.remove(at.expect("an answer that is kept back"))
}

/// The connection breaks, so a read must tell what became of the attempt.
fn break_off(bench: &mut Bench, attempt: RequestId) {
    let broken = TransportError::new(TransportErrorKind::Unknown);
    bench
        .candidate
        .handle_response(bench.now, attempt, Err(broken));
    bench.turn();
}

/// Delivers what was kept back, and keeps nothing back any more.
fn deliver_all(bench: &mut Bench) {
    bench.keeps = |_| false;
    while !bench.kept.is_empty() {
        deliver_one(bench);
    }
    bench.run_for(1_000);
}

/// What a read shows after somebody else has acquired the key.
fn led_by_another(bench: &mut Bench) -> Response {
    rival(bench);
    ask(bench, &Request::new(Method::Get, format!("/v1/kv/{KEY}")))
}

/// Another candidate acquires the key.
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
