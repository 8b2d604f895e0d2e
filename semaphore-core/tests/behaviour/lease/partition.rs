//! Silence between a host and Consul, and frozen processes.

use semaphore_core::Lost;
use semaphore_core::adapter::Transport as _;
use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::{Event, Instant, Method, Participant, Request, RequestId};
use transport_mock::{MockConsul, MockProcess, RequestKind};

use crate::support::aftermath::assert_recovered;
use crate::support::*;

#[test]
fn a_holder_in_silence_reports_its_loss_before_another_is_admitted() {
    let world = MockConsul::new(8);
    let (a, b) = (semaphore(&world, "a", 1), semaphore(&world, "b", 1));
    world.run(async {
        let permit = a.acquire().await.expect("a slot");
        let waiting = world.start(async move { b.acquire().await });
        world.set_write_log(true);
        world.sleep(secs(12)).await;
        let renewed = last_renewal(&world, "a");
        world.partition("a");
        let lost = permit.lost().await;
        assert!(matches!(lost, Lost::LeaseExpired { .. }), "{lost:?}");
        // S2: the TTL of 15 s less a tenth, counted from the sending of the last successful
        // renewal.
        // So counts the last read that showed its key, which is sent as often.
        let end = renewed + millis(13_500);
        let early = secs(1);
        let lost_at = world.now();
        assert!(lost_at <= end && lost_at + early >= end, "{lost_at} {end}");
        assert!(!permit.is_held());
        let next = waiting.await.expect("a slot");
        // L1: Consul expires the session two TTLs after the renewal. The lock delay takes one more
        // TTL. Some seconds may pass in addition.
        let admitted = world.now().saturating_since(renewed);
        let most = secs(45) + DEAD_SEEN_AFTER;
        assert!(admitted > secs(45) && admitted < most, "{admitted:?}");
        world.heal("a");
        world.sleep(secs(60)).await;
        assert!(next.is_held());
        next.release().await.expect("released");
    });
    assert_recovered(&world, 1);
}

/// The moment when this host sent the last renewal that reached Consul.
fn last_renewal(world: &MockConsul, host: &str) -> Instant {
    let writes = world.take_writes().into_iter();
    let mut renewals = writes
        .filter(|it| it.host == host && RequestKind::of(&it.request) == RequestKind::SessionRenew);
    renewals.next_back().expect("a renewal").sent_at
}

#[test]
fn a_waiter_in_silence_comes_back() {
    for length in [secs(5), secs(25), secs(100)] {
        let world = MockConsul::new(8);
        let (a, b) = (semaphore(&world, "a", 1), semaphore(&world, "b", 1));
        world.run(async {
            let permit = a.acquire().await.expect("a slot");
            let waiting = world.start(async move { b.acquire().await });
            world.sleep(secs(1)).await;
            world.partition("b");
            world.sleep(length).await;
            permit.release().await.expect("released");
            world.heal("b");
            let start = world.now();
            let next = waiting.await.expect("a slot");
            let delay = world.now().saturating_since(start);
            // Its poll was lost in the silence, and is given up only after its whole time.
            assert!(delay < secs(20), "{length:?}: {delay:?}");
            next.release().await.expect("released");
        });
        assert_recovered(&world, 1);
    }
}

#[test]
fn an_agent_that_stands_still_for_less_than_the_lease_costs_nothing() {
    let world = MockConsul::new(8);
    let (a, b) = (semaphore(&world, "a", 1), semaphore(&world, "b", 1));
    world.run(async {
        let permit = a.acquire().await.expect("a slot");
        let waiting = world.start(async move { b.acquire().await });
        for _ in 0..10 {
            world.stall("a");
            world.stall("b");
            world.sleep(secs(5)).await;
            world.heal("a");
            world.heal("b");
            world.sleep(secs(5)).await;
            assert!(permit.is_held());
        }
        permit.release().await.expect("released");
        waiting
            .await
            .expect("a slot")
            .release()
            .await
            .expect("released");
    });
    assert_recovered(&world, 1);
}

#[test]
fn what_a_stalled_holder_sent_is_fenced_when_it_arrives_at_last() {
    let world = MockConsul::new(8);
    let (a, b) = (semaphore(&world, "a", 1), semaphore(&world, "b", 1));
    world.run(async {
        let permit = a.acquire().await.expect("a slot");
        let waiting = world.start(async move { b.acquire().await });
        world.sleep(secs(1)).await;
        world.stall("a");
        let release = world.start(permit.release());
        let next = waiting.await.expect("a slot");
        let ours = next.sequencers()[0].session.to_string();
        world.heal("a");
        world.sleep(secs(20)).await;
        assert!(next.is_held());
        assert_eq!(holders(&world), [ours]);
        // The session had ended before it could be destroyed.
        let _ = release.await;
        next.release().await.expect("released");
    });
    assert_recovered(&world, 1);
}

#[test]
fn a_process_that_was_paused_beyond_its_lease_knows_without_any_io() {
    let world = MockConsul::new(8);
    let process = MockProcess::new(&world.client("a"));
    let a = builder(1).connect(process.clone()).expect("valid settings");
    let b = semaphore(&world, "b", 1);
    world.run(async {
        let permit = a.acquire().await.expect("a slot");
        let waiting = world.start(async move { b.acquire().await });
        world.sleep(secs(1)).await;
        process.pause();
        let next = waiting.await.expect("a slot");
        assert!(next.is_held());
        assert!(!permit.is_held());
        assert_eq!(permit.remaining(), secs(0));
        process.go_on();
        let lost = permit.lost().await;
        assert!(matches!(lost, Lost::LeaseExpired { .. }), "{lost:?}");
        world.sleep(secs(30)).await;
        assert!(next.is_held());
        next.release().await.expect("released");
    });
    assert_recovered(&world, 1);
}

/// Sends everything that is due, one request after the other, and takes the answers.
fn turn(world: &MockConsul, participant: &mut Participant) {
    let client = world.client("by hand");
    loop {
        participant.handle_timeout(world.now());
        let mut sent: Vec<(RequestId, Request)> = Vec::new();
        while let Some(transmit) = participant.poll_transmit(world.now()) {
            sent.push((transmit.id, transmit.request));
        }
        if sent.is_empty() {
            return;
        }
        for (id, request) in sent {
            // With one request at a time, a poll must not be held open.
            let request = match request.target().split_once("&index=") {
                Some((plain, _)) => Request::new(Method::Get, plain),
                None => request,
            };
            let answer = world.run(client.send(request));
            participant.handle_response(world.now(), id, answer);
        }
    }
}

#[test]
fn a_participant_that_nobody_calls_tells_the_truth_all_the_same() {
    let world = MockConsul::new(8);
    let settings = settings(PREFIX, 1);
    let mut participant = Participant::new(settings, 1);
    let acquire = participant.acquire(world.now(), 1, None).expect("queued");
    let mut is_granted = false;
    for _ in 0..10 {
        turn(&world, &mut participant);
        while let Some(event) = participant.poll_event() {
            is_granted |= matches!(event, Event::Granted { .. });
        }
        world.advance(millis(10));
    }
    assert!(is_granted);
    let deadline = participant.deadline(acquire).expect("a lease");
    world.advance((deadline - millis(1)).saturating_since(world.now()));
    assert!(participant.is_held(world.now(), acquire));
    world.advance(millis(1));
    assert!(!participant.is_held(world.now(), acquire));
}
