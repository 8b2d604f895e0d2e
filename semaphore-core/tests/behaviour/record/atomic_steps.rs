//! What transactions add to a step: in one request, everything happens or nothing.

use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::{Event, Grant, Method, Request};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::support::bench::Bench;
use crate::support::spy::Spy;
use crate::support::steps::{
    claims, deletes_key, enters, is_transaction, verbs, withdraws, writes_record,
};
use crate::support::stranger::{Stranger, operate};
use crate::support::*;

const LOCK: &str = "/v1/kv/service/db/.lock?flags=16210313421097356768";

/// Asserts that every holder in the record has a key with a session.
#[track_caller]
fn assert_all_holders_live(world: &MockConsul) {
    for holder in holders(world) {
        let key = format!("{PREFIX}/{holder}");
        let is_tied = world.consul(|consul, _| {
            let entry = consul.entry(&key);
            entry.is_some_and(|entry| entry.session() == Some(holder.as_str()))
        });
        assert!(is_tied, "{holder}\n{}", world.trace());
    }
}

#[test]
fn a_claim_whose_session_died_a_moment_before_admits_nobody() {
    let world = MockConsul::new(1);
    let spy = Spy::on(&world);
    world.inject(Rule::new(Fault::Delay(millis(100))).matching(claims));
    let semaphore = semaphore(&world, "a", 1);
    let mut waiting = world.start(async move { semaphore.acquire().await });
    while spy.count(claims) == 0 {
        world.advance(millis(1));
    }
    let [own] = contender_keys(&world).try_into().expect("one contender");
    let dead = own.rsplit('/').next().expect("a session").to_owned();
    world.consul(|consul, now| consul.destroy_session(now, &dead));
    let end = world.now() + secs(5);
    let mut granted = None;
    while granted.is_none() {
        assert!(world.step(end), "no slot\n{}", world.trace());
        assert!(!holders(&world).contains(&dead), "{}", world.trace());
        assert_all_holders_live(&world);
        granted = waiting.try_take();
    }
    let permit = granted.expect("an end").expect("a slot");
    assert_ne!(permit.sequencers()[0].session.as_str(), dead);
    world.run(permit.release()).expect("released");
    world.advance(secs(1));
    assert_nothing_left(&world);
}

/// The record names a stranger whose key says that it is dead: the key is missing, or no session
/// holds it. Just before the claim that prunes the stranger arrives, it acquires its key again.
fn revive_before_the_claim(has_key: bool) {
    let world = MockConsul::new(1);
    let stranger = Stranger::session(&world);
    let (id, key) = (stranger.session.to_string(), stranger.key());
    if has_key {
        stranger.acquires(&world, &key);
        let target = format!("/v1/kv/{key}?release={id}");
        stranger.call(&world, Method::Put, &target, "");
    }
    let record = format!(r#"{{"Limit":1,"Holders":{{"{id}":true}}}}"#);
    operate(&world, Method::Put, LOCK, &record);
    let spy = Spy::on_host(&world, "a");
    let late = Rule::new(Fault::Delay(millis(100))).host("a");
    world.inject(late.matching(claims));
    let semaphore = semaphore(&world, "a", 1);
    let mut waiting = world.start(async move { semaphore.acquire().await });
    while spy.count(claims) == 0 {
        world.advance(millis(1));
    }
    stranger.acquires(&world, &key);
    world.advance(secs(30));
    assert!(waiting.try_take().is_none());
    assert_eq!(holders(&world), [id], "{}", world.trace());
    // A refusal says that somebody has the key, and the next list shows who.
    assert_eq!(spy.count(claims), 1, "{}", world.trace());

    stranger.leaves(&world);
    let permit = world.run(waiting).expect("a slot");
    assert_all_holders_live(&world);
    world.run(permit.release()).expect("released");
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn a_holder_without_a_key_who_turns_out_to_live_is_not_pruned() {
    revive_before_the_claim(false);
}

#[test]
fn a_holder_with_a_free_key_who_turns_out_to_live_is_not_pruned() {
    revive_before_the_claim(true);
}

#[test]
fn a_dead_holder_is_pruned_by_the_claim_that_takes_its_slot() {
    let world = MockConsul::new(1);
    let dead = "aaaaaaaa-0000-0000-0000-000000000000";
    let record = format!(r#"{{"Limit":1,"Holders":{{"{dead}":true}}}}"#);
    operate(&world, Method::Put, LOCK, &record);
    let spy = Spy::on_host(&world, "a");
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    assert_eq!(spy.count(writes_record), 1);
    assert_all_holders_live(&world);
    world.run(permit.release()).expect("released");
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn a_release_takes_out_the_holder_and_its_key_in_one_request() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let spy = Spy::on(&world);
    let releasing = world.start(async move { permit.release().await });
    let end = world.now() + secs(5);
    while world.step(end) {
        assert_eq!(holders(&world).len(), contender_keys(&world).len());
    }
    world.run(releasing).expect("released");
    let is_release = |request: &_| withdraws(request) && deletes_key(request);
    assert_eq!(spy.count(is_release), 1);
    assert_eq!(spy.count(writes_record), 1);
    assert_eq!(spy.count(deletes_key), 1);
    assert_nothing_left(&world);
}

#[test]
fn a_slot_goes_to_the_next_of_the_same_client_in_one_request() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let next = semaphore.clone();
    let waiting = world.start(async move { next.acquire().await });
    world.advance(secs(1));
    let token = permit.fencing_token();
    let spy = Spy::on(&world);
    world.run(permit.release()).expect("released");
    let permit = world.run(waiting).expect("its turn");
    assert!(permit.fencing_token() > token);
    assert_eq!(spy.count(writes_record), 1, "{}", world.trace());
    assert_all_holders_live(&world);
    world.run(permit.release()).expect("released");
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn acquiring_and_releasing_needs_no_poll() {
    let mut bench = Bench::new(1, 2);
    bench.keep(Request::is_long_poll);
    let acquires = [bench.acquire(), bench.acquire()];
    bench.run_for(secs(1));
    for acquire in acquires {
        assert!(bench.participant.is_held(bench.now, acquire));
        bench.participant.release(bench.now, acquire);
        bench.run_for(secs(1));
        assert_eq!(bench.released(acquire), 1, "{:#?}", bench.sent);
    }
    bench.run_for(KEPT);
    let reads = bench
        .sent
        .iter()
        .filter(|line| line.contains("GET /v1/kv/"));
    let reads = reads.filter(|line| !line.contains("index=")).count();
    assert!(reads <= 1, "a look at the beginning: {:#?}", bench.sent);
    let is_bad =
        |event: &&Event<Grant>| !matches!(event, Event::Granted { .. } | Event::Done { .. });
    assert!(bench.events.iter().find(is_bad).is_none());
    assert_eq!(bench.consul.sessions().count(), 0);
    let keys = bench.consul.entries("").count();
    assert_eq!(keys, 1, "the record alone");
}

#[test]
fn every_step_is_a_transaction() {
    let world = MockConsul::new(1);
    let spy = Spy::on(&world);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.run(permit.release()).expect("released");
    for kind in [
        RequestKind::KvAcquire,
        RequestKind::KvCas,
        RequestKind::KvDelete,
        RequestKind::KvPut,
    ] {
        assert!(spy.of(kind).is_empty(), "{kind}");
    }
    let steps = spy.of(RequestKind::Txn);
    let steps: Vec<_> = steps.iter().map(|it| verbs(it).join(" ")).collect();
    let expected: &[&str] = &[
        "check-not-exists lock get-tree",
        "check-index lock cas",
        "check-index delete cas",
    ];
    assert_eq!(steps, expected);
    assert_nothing_left(&world);
}

#[test]
fn whoever_watches_a_key_ahead_of_its_own_learns_that_it_claimed() {
    let world = MockConsul::new(1);
    let spy = Spy::on(&world);
    let semaphore = semaphore(&world, "a", 1);
    let mut waiting = world.start(async move { semaphore.acquire().await });
    while spy.count(enters) == 0 || contender_keys(&world).is_empty() {
        world.advance(millis(1));
    }
    let index = |world: &MockConsul| {
        let key = contender_keys(world).remove(0);
        world.consul(|consul, _| {
            consul
                .entry(&key)
                .map(|it| (it.modify_index(), it.lock_index()))
        })
    };
    let (entered, locks) = index(&world).expect("a key");
    world.advance(secs(1));
    let permit = waiting.try_take().expect("an end").expect("a slot");
    let (claimed, locks_now) = index(&world).expect("a key");
    assert!(claimed > entered);
    assert_eq!(locks_now, locks, "its sequencer is as it was");
    assert!(
        spy.requests()
            .iter()
            .any(|it| is_transaction(it) && claims(it))
    );
    world.run(permit.release()).expect("released");
    world.advance(secs(1));
    assert_nothing_left(&world);
}
