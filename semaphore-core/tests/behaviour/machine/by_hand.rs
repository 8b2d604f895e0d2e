//! The machine without its driver. Calls may come in any order, and none is needed twice.

use std::collections::BTreeMap;

use semaphore_core::Error;
use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::{
    CommandId, Event, Instant, Participant, RequestId, Response, TransportError, TransportErrorKind,
};

use crate::support::bench::Bench;
use crate::support::*;

#[test]
fn a_loop_of_a_few_lines_acquires_holds_and_releases() {
    let mut bench = Bench::new(1, 1);
    let acquire = bench.acquire();
    bench.run_for(secs(1));
    assert!(bench.is_granted(acquire));
    assert!(bench.participant.is_held(bench.now, acquire));
    bench.run_for(secs(600));
    assert!(bench.participant.is_held(bench.now, acquire));
    bench.participant.release(bench.now, acquire);
    assert!(
        !bench.participant.is_held(bench.now, acquire),
        "belief ends at once"
    );
    bench.run_for(KEPT);
    assert_eq!(bench.released(acquire), 1);
    bench.assert_nothing_left();
}

#[test]
fn it_starts_with_nothing_to_do() {
    let mut bench = Bench::new(1, 1);
    assert!(bench.participant.is_idle());
    assert_eq!(bench.participant.poll_timeout(), None);
    assert!(bench.participant.poll_transmit(bench.now).is_none());
    assert!(bench.participant.poll_event().is_none());
    assert!(bench.participant.poll_abort().is_none());
    assert_eq!(bench.run_for(secs(600)), 0);
}

#[test]
fn the_same_inputs_give_the_same_outputs() {
    let transcript = || {
        let mut bench = Bench::new(7, 2);
        let acquires = [(); 4].map(|()| bench.acquire());
        bench.run_for(secs(20));
        for acquire in acquires {
            bench.participant.release(bench.now, acquire);
            bench.run_for(secs(3));
        }
        (bench.sent, format!("{:?}", bench.events))
    };
    assert_eq!(transcript(), transcript());
}

#[test]
fn whoever_is_given_another_seed_draws_as_if_it_had_had_it_from_the_start() {
    let [mut reseeded, other, same] = [1, 2, 7].map(|seed| Bench::new(seed, 1).participant);
    reseeded.reseed(7);
    assert_eq!(format!("{reseeded:?}"), format!("{same:?}"));
    assert_ne!(format!("{other:?}"), format!("{same:?}"));
}

#[test]
fn a_turn_that_is_repeated_changes_nothing() {
    let mut bench = Bench::new(1, 1);
    let holder = bench.acquire();
    let waiter = bench.acquire();
    for round in 0..200 {
        bench.run_for(millis(37));
        let before = format!("{:?}", bench.participant);
        for _ in 0..3 {
            bench.participant.handle_timeout(bench.now);
            assert!(bench.participant.poll_transmit(bench.now).is_none());
            assert!(bench.participant.poll_event().is_none());
            assert!(bench.participant.poll_abort().is_none());
            let _ = bench.participant.poll_timeout();
        }
        assert_eq!(format!("{:?}", bench.participant), before, "round {round}");
        if round == 100 {
            bench.participant.release(bench.now, holder);
        }
    }
    assert!(bench.is_granted(waiter));
    bench.participant.cancel(bench.now, waiter);
    bench.run_for(KEPT);
    bench.assert_nothing_left();
}

#[test]
fn calls_that_come_early_change_nothing() {
    let mut bench = Bench::new(1, 1);
    let acquire = bench.acquire();
    bench.run_for(secs(1));
    let due = bench.participant.poll_timeout().expect("a renewal");
    // Called when the clock has not moved, or too early.
    for at in [bench.now, due - millis(1)] {
        bench.participant.handle_timeout(at);
        assert!(bench.participant.poll_transmit(at).is_none());
        assert_eq!(bench.participant.poll_timeout(), Some(due));
    }
    bench.participant.handle_timeout(due);
    assert!(bench.participant.poll_transmit(due).is_some());
    assert!(bench.participant.is_held(due, acquire));
}

#[test]
fn any_order_of_calls_leads_to_the_same_end() {
    for seed in 0..300 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut bench = Bench::new(seed, 2);
        let mut waiting: Vec<_> = (0..4).map(|_| bench.acquire()).collect();
        let all = waiting.clone();
        for _ in 0..200_000 {
            if waiting.is_empty() && all.iter().all(|acquire| bench.released(*acquire) == 1) {
                break;
            }
            shuffle_one(&mut bench, &mut rng);
            assert!(holders_now(&bench, &all) <= 2);
            waiting.retain(|acquire| {
                let granted = bench.is_granted(*acquire);
                if granted {
                    bench.participant.release(bench.now, *acquire);
                }
                !granted
            });
        }
        for acquire in all {
            assert_eq!(bench.released(acquire), 1, "seed {seed}\n{:#?}", bench.sent);
        }
        bench.run_for(KEPT);
        bench.assert_nothing_left();
    }
}

/// Makes any call, delivers any answer, or lets some time pass.
fn shuffle_one(bench: &mut Bench, rng: &mut fastrand::Rng) {
    match rng.u8(..10) {
        0 => bench.participant.handle_timeout(bench.now),
        1 => {
            if let Some(transmit) = bench.participant.poll_transmit(bench.now) {
                bench.submit(transmit.id, &transmit.request);
            }
        }
        2 => {
            if let Some(id) = bench.participant.poll_abort()
                && rng.bool()
            {
                bench.abort(id);
            }
        }
        3 => bench.events.extend(bench.participant.poll_event()),
        4 => {
            let _ = bench.participant.poll_timeout();
        }
        5 | 6 => bench.collect(),
        7 | 8 => {
            if !bench.answers.is_empty() {
                let at = rng.usize(..bench.answers.len());
                let (id, response) = if rng.u8(..4) == 0 {
                    bench.answers[at].clone()
                } else {
                    bench.answers.swap_remove(at)
                };
                bench
                    .participant
                    .handle_response(bench.now, id, Ok(response));
            }
        }
        _ => {
            bench.now = bench.now + millis(rng.u64(..20));
            bench.consul.handle_timeout(bench.now);
        }
    }
}

fn holders_now(bench: &Bench, all: &[CommandId]) -> usize {
    all.iter()
        .filter(|acquire| bench.participant.is_held(bench.now, **acquire))
        .count()
}

#[test]
fn answers_that_are_unknown_or_come_twice_are_ignored() {
    let mut other = Bench::new(2, 1);
    for _ in 0..10 {
        other.acquire();
    }
    let mut bench = Bench::new(1, 1);
    let acquire = bench.acquire();
    let mut seen = Vec::new();
    for _ in 0..20 {
        bench.participant.handle_timeout(bench.now);
        bench.transmit();
        bench.collect();
        for (id, response) in std::mem::take(&mut bench.answers) {
            seen.push(id);
            bench
                .participant
                .handle_response(bench.now, id, Ok(response.clone()));
            let before = format!("{:?}", bench.participant);
            for id in &seen {
                for again in [
                    Ok(response.clone()),
                    Ok(Response::new(500, "invalid session \"x\"")),
                    Ok(Response::new(403, "Permission denied")),
                    Err(TransportError::new(TransportErrorKind::Misconfigured)),
                ] {
                    bench.participant.handle_response(bench.now, *id, again);
                }
            }
            assert_eq!(format!("{:?}", bench.participant), before);
        }
        bench.now = bench.now + millis(1);
    }
    bench.run_for(secs(1));
    assert!(bench.is_granted(acquire));
}

#[test]
fn an_answer_that_comes_after_the_cancellation_is_cleaned_up_after() {
    // The later requests of the acquisition are only answered after it was cancelled.
    for upto in 0..12 {
        let mut bench = Bench::new(1, 1);
        let acquire = bench.acquire();
        let mut answered = 0;
        while answered < upto {
            bench.participant.handle_timeout(bench.now);
            bench.transmit();
            bench.collect();
            if bench.answers.is_empty() {
                break;
            }
            let (id, response) = bench.answers.remove(0);
            bench
                .participant
                .handle_response(bench.now, id, Ok(response));
            answered += 1;
        }
        bench.participant.handle_timeout(bench.now);
        bench.transmit();
        bench.participant.cancel(bench.now, acquire);
        bench.run_for(secs(40));
        assert!(bench.released(acquire) == 0);
        bench.assert_nothing_left();
    }
}

#[test]
fn no_event_follows_a_cancellation_not_even_one_that_waits_to_be_polled() {
    let mut bench = Bench::new(1, 1);
    let acquire = bench.acquire();
    bench.participant.close(bench.now);
    bench.participant.cancel(bench.now, acquire);
    assert!(bench.participant.poll_event().is_none());
}

#[test]
fn it_is_never_due_at_a_time_that_is_handled() {
    // Requests that are never answered, that fail at once, and that fail late.
    for kind in [
        None,
        Some(TransportErrorKind::NotSent),
        Some(TransportErrorKind::Unknown),
        Some(TransportErrorKind::Timeout),
        Some(TransportErrorKind::BadAnswer),
    ] {
        for late in [millis(0), secs(3)] {
            let settings = settings(PREFIX, 3);
            let mut participant = Participant::new(settings, 1);
            let mut now = Instant::from_origin(secs(1));
            let end = now + secs(300);
            for _ in 0..5 {
                participant.acquire(now, 1, None).expect("accepted");
            }
            let mut pending: BTreeMap<(Instant, RequestId), TransportErrorKind> = BTreeMap::new();
            let (mut turns, mut requests) = (0, 0);
            while now < end {
                turns += 1;
                participant.handle_timeout(now);
                while let Some(transmit) = participant.poll_transmit(now) {
                    requests += 1;
                    if let Some(kind) = kind {
                        pending.insert((now + late, transmit.id), kind);
                    }
                }
                let failed = pending.keys().next().copied();
                let due = participant.poll_timeout();
                assert!(due.is_none_or(|due| due > now), "{due:?} at {now}");
                let next = due.into_iter().chain(failed.map(|(at, _)| at)).min();
                let Some(next) = next else { break };
                now = now.max(next);
                if let Some(key) = failed.filter(|(at, _)| *at <= now)
                    && let Some(kind) = pending.remove(&key)
                {
                    participant.handle_response(now, key.1, Err(TransportError::new(kind)));
                }
            }
            // Five minutes of failures, with at most a dozen requests under way at the same time.
            assert!(requests < 3_000, "{kind:?} {late:?}: {requests} requests");
            assert!(turns < 6_000, "{kind:?} {late:?}: {turns} turns");
        }
    }
}

#[test]
fn holding_and_waiting_for_an_hour_takes_few_turns() {
    let mut bench = Bench::new(1, 1);
    let holder = bench.acquire();
    let waiter = bench.acquire();
    let turns = bench.run_for(secs(3_600));
    assert!(bench.participant.is_held(bench.now, holder));
    assert!(!bench.is_granted(waiter));
    // The holder renews every 0.94 to 1.25 s, and the waiter every 3.75 to 5 s. With separate
    // requests the leader confirms each renewal. There is a poll every 15 s.
    assert!(turns < 11_000, "{turns}");
    assert!(bench.sent.len() < 10_000, "{}", bench.sent.len());
}

#[test]
fn releasing_and_cancelling_what_is_gone_is_harmless() {
    let mut bench = Bench::new(1, 1);
    let acquire = bench.acquire();
    bench.run_for(secs(1));
    bench.participant.release(bench.now, acquire);
    bench.participant.release(bench.now, acquire);
    bench.run_for(secs(1));
    assert_eq!(bench.released(acquire), 1);
    bench.participant.release(bench.now, acquire);
    bench.participant.cancel(bench.now, acquire);
    bench.run_for(secs(1));
    assert_eq!(bench.released(acquire), 2, "each is answered");
    let next = bench.acquire();
    bench.run_for(secs(1));
    bench.participant.release(bench.now, acquire);
    bench.participant.cancel(bench.now, acquire);
    bench.run_for(secs(60));
    assert!(
        bench.participant.is_held(bench.now, next),
        "a newer hold is not touched"
    );
    bench.participant.release(bench.now, next);
    bench.run_for(KEPT);
    bench.assert_nothing_left();
}

#[test]
fn a_deadline_that_has_passed_already_is_a_timeout() {
    let mut bench = Bench::new(1, 1);
    let past = bench.now - millis(500);
    let acquire = bench.participant.acquire(bench.now, 1, Some(past));
    let acquire = acquire.expect("accepted");
    bench.turn();
    match &bench.events[..] {
        [
            Event::Failed {
                command: failed,
                error: Error::Timeout { .. },
            },
        ] => {
            assert_eq!(*failed, acquire);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(bench.sent, [""; 0]);
    bench.assert_nothing_left();
}
