//! A session ends before its time, through its node's end or through an operator. Its holder is cut
//! off and still believes. Nobody takes the slot before that belief has ended (invariant S1).

use std::time::Duration;

use semaphore_core::sans_io::{Instant, Method, Response};
use semaphore_core::{Election, Leadership, Permit, Refusal, Semaphore, SessionId};
use transport_mock::{Fault, MockConsul, RequestKind, Rule, Task};

use crate::support::election::{KEY, builder_for, elect_with};
use crate::support::stranger::{Stranger, operate};
use crate::support::*;

/// A holder on the host `a` that is cut off from now on, and its session.
fn cut_off_holder(world: &MockConsul, ttl: u64) -> (Semaphore, Permit, SessionId) {
    let semaphore = connect(builder(1).ttl(secs(ttl)), &world.client("a"));
    let permit = world.run(semaphore.acquire()).expect("a slot");
    let session = permit.sequencers()[0].session.clone();
    (semaphore, permit, session)
}

fn end(world: &MockConsul, session: &SessionId) -> Instant {
    world.consul(|consul, now| consul.destroy_session(now, session.as_str()));
    world.now()
}

/// The moment when a waiter on this host gets a slot.
fn waiter(world: &MockConsul, host: &str, ttl: u64) -> Task<Instant> {
    let semaphore = connect(builder(1).ttl(secs(ttl)), &world.client(host));
    let world = world.clone();
    world.clone().start(async move {
        let permit = semaphore.acquire().await.expect("a slot");
        let at = world.now();
        permit.release().await.expect("released");
        at
    })
}

/// The moment when belief ends, as the holder itself reports it.
fn loss(world: &MockConsul, permit: Permit) -> Task<Instant> {
    let world = world.clone();
    world.clone().start(async move {
        permit.lost().await;
        let at = world.now();
        // The host would only release it when it is back.
        core::mem::forget(permit);
        at
    })
}

#[test]
fn the_next_is_admitted_when_belief_must_have_ended_whatever_the_ttl() {
    for ttl in [10, 15, 30, 60, 600] {
        for after in [0, 1, 4, 11] {
            let world = MockConsul::new(ttl + after);
            let (_a, permit, session) = cut_off_holder(&world, ttl);
            let next = waiter(&world, "b", 15);
            world.advance(secs(35));
            world.partition("a");
            let lost = loss(&world, permit);
            world.advance(secs(after));
            let ended = end(&world, &session);
            let (lost, admitted) = (world.run(lost), world.run(next));
            assert!(admitted >= lost, "{ttl} {after}: {lost} {admitted}");
            let took = admitted.saturating_since(ended);
            let lock_delay = secs(ttl.min(60));
            assert!(took >= lock_delay, "{ttl}: {took:?}");
            let most = lock_delay + DEAD_SEEN_AFTER;
            assert!(took <= most, "{ttl}: {took:?}");
        }
    }
}

/// The waiter's own TTL is shorter, so it can't infer the lock delay from that.
#[test]
fn whoever_comes_when_the_session_has_ended_waits_for_what_is_left_of_the_lock_delay() {
    for (arrives, left) in [(1, 59), (20, 40), (70, 0)] {
        let world = MockConsul::new(arrives);
        let (_a, permit, session) = cut_off_holder(&world, 60);
        world.advance(secs(30));
        world.partition("a");
        let lost = loss(&world, permit);
        let ended = end(&world, &session);
        world.advance(secs(arrives));
        let came = world.now();
        let admitted = world.run(waiter(&world, "b", 10));
        let took = admitted.saturating_since(came);
        assert!(took <= secs(left + 2), "{took:?}");
        assert!(admitted >= world.run(lost));
        assert!(admitted.saturating_since(ended) >= secs(60));
    }
}

#[test]
fn whoever_has_seen_the_key_knows_the_lock_delay_from_its_flags() {
    let world = MockConsul::new(1);
    let (_a, permit, session) = cut_off_holder(&world, 60);
    let next = waiter(&world, "b", 10);
    world.advance(secs(30));
    world.partition("a");
    let lost = loss(&world, permit);
    let ended = end(&world, &session);
    let (lost, admitted) = (world.run(lost), world.run(next));
    assert!(admitted >= lost, "{lost} {admitted}");
    let took = admitted.saturating_since(ended);
    assert!(took >= secs(60) && took <= secs(62), "{took:?}");
}

/// Operators do this with `consul kv delete`. The session lives on, so Consul keeps no lock delay.
#[test]
fn a_contender_key_that_is_deleted_by_hand_makes_no_room_at_once_either() {
    let world = MockConsul::new(1);
    let (_a, permit, session) = cut_off_holder(&world, 30);
    let next = waiter(&world, "b", 15);
    world.advance(secs(35));
    world.partition("a");
    let lost = loss(&world, permit);
    let key = format!("/v1/kv/{PREFIX}/{session}");
    operate(&world, Method::Delete, &key, "");
    let deleted = world.now();
    let (lost, admitted) = (world.run(lost), world.run(next));
    assert!(admitted >= lost, "{lost} {admitted}");
    assert!(admitted.saturating_since(deleted) <= secs(31));
}

#[test]
fn a_node_that_is_taken_away_ends_the_sessions_on_it_and_nobody_holds_twice() {
    let world = MockConsul::new(1);
    world.consul(|consul, now| consul.register_node(now, "server-1"));
    let on_node = builder(1).ttl(secs(30)).node("server-1");
    let a = connect(on_node, &world.client("a"));
    let permit = world.run(a.acquire()).expect("a slot");
    let next = waiter(&world, "b", 15);
    world.advance(secs(25));
    world.partition("a");
    let lost = loss(&world, permit);
    world.advance(secs(10));
    world.consul(|consul, now| consul.deregister_node(now, "server-1"));
    let ended = world.now();
    let (lost, admitted) = (world.run(lost), world.run(next));
    assert!(admitted >= lost, "{lost} {admitted}");
    assert!(admitted.saturating_since(ended) <= secs(32));
}

#[test]
fn an_instant_try_is_told_that_nothing_is_free_yet_and_leaves_nothing() {
    let world = MockConsul::new(1);
    let (_a, permit, session) = cut_off_holder(&world, 30);
    world.partition("a");
    drop(permit);
    let ended = end(&world, &session);
    // Each try is a separate process, as when a timer starts it. So none of them can count the time
    // since it came.
    for attempt in 0..40 {
        let host = format!("try-{attempt}");
        let semaphore = semaphore(&world, &host, 1);
        let before = world.now();
        let permit = world.run(semaphore.try_acquire()).expect("an answer");
        let took = world.now().saturating_since(before);
        assert!(took < millis(100), "{took:?}");
        let is_over = world.now().saturating_since(ended) >= secs(30);
        match permit {
            Ok(permit) => {
                assert!(is_over);
                world.run(permit.release()).expect("released");
                world.advance(secs(60));
                return assert_nothing_left(&world);
            }
            Err(refusal) => {
                assert!(!is_over);
                assert_eq!(refusal, Refusal::LockDelay { withheld: 1 });
            }
        }
        drop(semaphore);
        world.advance(secs(1));
        assert_eq!(contender_keys(&world), [""; 0]);
        assert_eq!(session_count(&world), 0);
    }
    panic!("nobody got the slot");
}

#[test]
fn whoever_tries_again_and_again_gets_the_slot_when_its_wait_is_over() {
    let world = MockConsul::new(1);
    let (_a, permit, session) = cut_off_holder(&world, 15);
    world.partition("a");
    drop(permit);
    let ended = end(&world, &session);
    let semaphore = semaphore(&world, "b", 1);
    let mut permit = None;
    while permit.is_none() {
        world.advance(millis(500));
        permit = world.run(semaphore.try_acquire()).expect("an answer").ok();
        let since = world.now().saturating_since(ended);
        let least = secs(15);
        assert!(since <= least + secs(2), "{since:?}");
        assert!(permit.is_none() || since >= least, "{since:?}");
    }
}

#[test]
fn a_lock_delay_of_zero_makes_room_at_once_as_with_gos_client() {
    let world = MockConsul::new(1);
    let careless = builder(1).ttl(secs(30)).lock_delay(Duration::ZERO);
    let a = connect(careless, &world.client("a"));
    let permit = world.run(a.acquire()).expect("a slot");
    let session = permit.sequencers()[0].session.clone();
    let next = waiter(&world, "b", 15);
    world.advance(secs(5));
    world.partition("a");
    let ended = end(&world, &session);
    let admitted = world.run(next);
    assert!(admitted.saturating_since(ended) <= millis(50));
    assert!(permit.is_held(), "that is what it risks");
}

/// They end with the host that they ran on.
#[test]
fn a_hundred_holders_that_died_together_are_asked_for_together() {
    const MANY: u32 = 100;
    let world = MockConsul::new(1);
    let builder = |limit| builder_of(PREFIX, limit);
    let dead = connect(builder(MANY), &world.client("dead"));
    let permits: Vec<_> = (0..MANY)
        .map(|_| world.run(dead.acquire()).expect("a slot"))
        .collect();
    let waiters = connect(builder(MANY), &world.client("b"));
    let next: Vec<_> = (0..MANY)
        .map(|_| {
            let waiter = waiters.clone();
            world.start(async move { waiter.acquire().await })
        })
        .collect();
    world.advance(secs(4));
    world.partition("dead");
    for permit in &permits {
        end(&world, &permit.sequencers()[0].session);
    }
    world.advance(secs(14));
    let before = world.stats_of("b").total_requests();
    let next: Vec<_> = next.into_iter().map(|it| world.run(it)).collect();
    let asked = world.stats_of("b").total_requests() - before;
    assert!(asked < 300, "{asked} requests");
    assert!(next.iter().all(Result::is_ok));
}

#[test]
fn a_question_about_the_dead_changes_nothing() {
    let world = MockConsul::new(1);
    let (_a, permit, session) = cut_off_holder(&world, 30);
    let waits = waiter(&world, "b", 15);
    world.partition("a");
    drop(permit);
    end(&world, &session);
    let latecomer = waiter(&world, "c", 15);
    world.advance(secs(2));
    let index = world.consul(|consul, _| consul.last_index());
    let asked = world.stats_of("c").total_requests();
    world.advance(secs(10));
    assert!(
        world.stats_of("c").total_requests() > asked + 5,
        "it goes on asking"
    );
    assert_eq!(world.consul(|consul, _| consul.last_index()), index);
    let trace = world.trace();
    assert!(trace.lines().any(|line| line.contains("< 409")), "{trace}");
    world.run(waits);
    world.run(latecomer);
}

#[test]
fn whose_key_somebody_else_has_acquired_is_not_waited_for_without_end() {
    let world = MockConsul::new(1);
    let (_a, permit, session) = cut_off_holder(&world, 15);
    let next = waiter(&world, "b", 15);
    world.advance(secs(2));
    world.partition("a");
    let lost = loss(&world, permit);
    let key = format!("{PREFIX}/{session}");
    operate(&world, Method::Delete, &format!("/v1/kv/{key}"), "");
    let meddler = Stranger::session(&world);
    meddler.acquires(&world, &key);
    let (lost, admitted) = (world.run(lost), world.run(next));
    assert!(admitted >= lost, "{lost} {admitted}");
    let most = secs(18) + DEAD_SEEN_AFTER;
    assert!(admitted.since_origin() <= most, "{admitted}");
}

/// Consul keeps no lock delay then, and nobody here knows how long the holder's was.
#[test]
fn whoever_comes_when_somebody_else_has_the_key_waits_for_the_longest_lock_delay() {
    let world = MockConsul::new(1);
    let (_a, permit, session) = cut_off_holder(&world, 60);
    world.partition("a");
    let lost = loss(&world, permit);
    let key = format!("{PREFIX}/{session}");
    operate(&world, Method::Delete, &format!("/v1/kv/{key}"), "");
    Stranger::session(&world).acquires(&world, &key);
    let came = world.now();
    let (admitted, lost) = (world.run(waiter(&world, "b", 15)), world.run(lost));
    assert!(admitted >= lost, "{lost} {admitted}");
    let took = admitted.saturating_since(came);
    assert!(took >= secs(60) && took <= secs(62), "{took:?}");
}

/// A leader that was frozen for long wakes up. For some milliseconds it renews sessions that it
/// remembers, since Consul does not write renewals to its log (seen on 1.8.7).
#[test]
fn a_renewal_that_a_leader_of_yesterday_answers_makes_nobody_believe() {
    for is_info_answered in [true, false] {
        let world = MockConsul::new(1);
        let (_a, permit, session) = cut_off_holder(&world, 15);
        world.advance(secs(11));
        let deadline = world.now() + permit.remaining();
        let renewed = format!(r#"[{{"ID":"{session}","TTL":"15s","LockDelay":15000000000}}]"#);
        let renewed = Rule::new(Fault::Answer(Response::new(200, renewed))).always();
        // A proof may tell before the next renewal.
        let renewed = renewed.optional();
        world.inject(renewed.host("a").kind(RequestKind::SessionRenew));
        // The next renewal shows it before the watch does.
        if !is_info_answered {
            let lose = |kind| {
                let lost = Rule::new(Fault::LoseRequest).host("a").kind(kind);
                world.inject(lost.always().optional());
            };
            // After a poll that failed comes a plain read.
            lose(RequestKind::KvRead);
            lose(RequestKind::SessionRead);
            lose(RequestKind::Txn);
        }
        world.break_connections();
        end(&world, &session);
        let ended = world.run(loss(&world, permit));
        if is_info_answered {
            assert!(ended < deadline, "the next renewal tells: {ended}");
        } else {
            assert_eq!(ended, deadline, "no renewal counts");
        }
    }
}

/// A leader on the host `a`.
fn leader(world: &MockConsul, ttl: u64) -> (Election, Leadership) {
    let election = elect_with(builder_for(KEY).ttl(secs(ttl)), &world.client("a"));
    let leadership = world.run(election.campaign()).expect("elected");
    (election, leadership)
}

#[test]
fn the_next_leads_when_the_belief_of_the_one_before_must_have_ended_whatever_the_ttl() {
    for (ttl, lock_delay) in [(10, 15), (15, 15), (30, 30), (60, 60), (600, 60)] {
        for after in [0, 3] {
            let world = MockConsul::new(ttl + after);
            let (_a, leadership) = leader(&world, ttl);
            let session = leadership.sequencer().session.clone();
            let b = elect_with(builder_for(KEY), &world.client("b"));
            let next = world.start(async move { b.campaign().await.map(|it| (b, it)) });
            world.advance(secs(50));
            world.partition("a");
            world.advance(secs(after));
            let ended = end(&world, &session);
            let deadline = leadership.remaining();
            let (_b, _next) = world.run(next).expect("elected");
            let took = world.now().saturating_since(ended);
            assert!(took >= deadline, "{ttl}: {took:?} {deadline:?}");
            assert!(
                took >= secs(lock_delay) && took <= secs(lock_delay + 2),
                "{took:?}"
            );
            assert!(leadership.remaining().is_zero());
        }
    }
}

/// The bits of the flags that tell the lock delay.
const LOCK_DELAY: u64 = 0xffff << 2;

#[test]
fn the_flags_of_a_contender_key_tell_its_lock_delay_and_plain_ones_consuls_default() {
    let world = MockConsul::new(1);
    let flags = |ttl: u64| {
        let a = connect(builder(1).ttl(secs(ttl)), &world.client("a"));
        let permit = world.run(a.acquire()).expect("a slot");
        let key = permit.sequencers()[0].key.clone();
        let flags = world.consul(|consul, _| consul.entry(&key).expect("a key").flags());
        world.run(permit.release()).expect("released");
        // The others describe its claims.
        flags & LOCK_DELAY
    };
    // HashiCorp's `consul lock` and Go's client write these flags, and use Consul's default lock
    // delay of 15 s.
    let plain = semaphore_core::sans_io::api::SEMAPHORE_FLAGS & LOCK_DELAY;
    assert_eq!(flags(15), plain);
    assert_ne!(flags(30), plain);
    assert_eq!(
        flags(60),
        flags(3_600),
        "no lock delay lasts longer than a minute"
    );
}
