//! What observers are told, and when.

use std::sync::{Arc, Mutex};

use semaphore_core::observe::{Notice, Subject};
use semaphore_core::{Client, Election, Error, Lost, Scope, Semaphore, Token};
use transport_mock::{Fault, MockConsul, Rule};

use crate::support::onlooker::Onlooker;
use crate::support::*;

fn observed(world: &MockConsul, host: &str, limit: u32) -> (Semaphore, Onlooker) {
    let onlooker = Onlooker::default();
    let builder = builder(limit).observer(onlooker.clone());
    let semaphore = builder.connect(world.client(host)).expect("connected");
    (semaphore, onlooker)
}

#[test]
fn a_turn_is_told_from_the_queue_to_the_release() {
    let world = MockConsul::new(1);
    let (semaphore, onlooker) = observed(&world, "a", 1);
    let first = world.run(semaphore.acquire()).expect("a free slot");
    let second = {
        let semaphore = semaphore.clone();
        world.start(async move { semaphore.acquire().await })
    };
    world.advance(secs(5));
    assert!(world.run(semaphore.try_acquire()).expect("asked").is_err());
    world.run(first.release()).expect("released");
    let second = world.run(second).expect("its turn");
    world.advance(secs(2));
    drop(second);
    world.advance(secs(1));
    let told = [
        "queued at 1",
        "granted after 0 s",
        "queued at 1",
        "not available",
        "released after 5 s",
        "granted after 5 s",
        "released after 2 s",
    ];
    assert_eq!(onlooker.words(), told);
}

#[test]
fn a_place_that_is_given_up_is_told_and_so_is_a_time_that_ran_out() {
    let world = MockConsul::new(1);
    let (semaphore, onlooker) = observed(&world, "a", 1);
    let _permit = world.run(semaphore.acquire()).expect("a free slot");
    let waiting = {
        let semaphore = semaphore.clone();
        world.start(async move { semaphore.acquire().await })
    };
    world.advance(secs(1));
    waiting.abort();
    world.advance(millis(100));
    let timeout = world.run(semaphore.acquire_timeout(secs(3)));
    assert!(matches!(timeout, Err(Error::Timeout { .. })));
    let told = [
        "queued at 1",
        "granted after 0 s",
        "queued at 1",
        "given up",
        "queued at 1",
        "failed",
    ];
    assert_eq!(onlooker.words(), told);
}

#[test]
fn an_outage_that_costs_a_slot_is_told_step_by_step() {
    let world = MockConsul::new(1);
    let (semaphore, onlooker) = observed(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.advance(secs(30));
    onlooker.take();
    world.partition("a");
    world.advance(secs(60));
    world.heal("a");
    world.advance(secs(30));
    let told = onlooker.take();
    let renewed = told
        .iter()
        .position(|it| matches!(it.1, Notice::Renewed { .. }));
    assert_eq!(renewed, None, "nothing is renewed while Consul is away");
    let of_interest = told.iter().filter_map(|(name, notice)| match notice {
        _ if name != PREFIX => Some("something else".to_owned()),
        Notice::Retrying { .. } => Some("retrying".to_owned()),
        Notice::LosingSoon { left, .. } => Some(format!("{} s left", left.as_secs())),
        Notice::Lost { reason, .. } => {
            assert!(matches!(reason, Lost::LeaseExpired { .. }), "{reason:?}");
            Some("lost".to_owned())
        }
        Notice::Recovered { after } => {
            assert!(*after >= secs(50), "{after:?}");
            Some("recovered".to_owned())
        }
        _ => None,
    });
    let of_interest: Vec<_> = of_interest.collect();
    let expected = ["retrying", "4 s left", "lost", "recovered"];
    assert_eq!(of_interest, expected);
    drop(permit);
}

#[test]
fn renewals_are_told_for_as_long_as_it_is_held() {
    let world = MockConsul::new(1);
    let (semaphore, onlooker) = observed(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.advance(secs(60));
    let told = onlooker.take();
    let renewals = told.iter().filter_map(|(_, notice)| match notice {
        Notice::Renewed { left, .. } => Some(*left),
        _ => None,
    });
    let renewals: Vec<_> = renewals.collect();
    assert!(renewals.len() >= 40, "{}", renewals.len());
    assert!(renewals.iter().all(|left| *left > secs(12)), "{renewals:?}");
    drop(permit);
}

#[test]
fn a_brief_trouble_is_no_outage() {
    let world = MockConsul::new(1);
    let (semaphore, onlooker) = observed(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.advance(secs(30));
    onlooker.take();
    world.inject(Rule::new(Fault::no_leader()).host("a").times(1));
    world.advance(secs(30));
    let told = onlooker.take();
    let failed = told.iter();
    let failed = failed.filter(|it| matches!(it.1, Notice::RequestFailed { .. }));
    assert_eq!(failed.count(), 1);
    let outage =
        |notice: &Notice| matches!(notice, Notice::Retrying { .. } | Notice::Recovered { .. });
    assert!(!told.iter().any(|(_, notice)| outage(notice)), "{told:?}");
    drop(permit);
}

#[test]
fn who_takes_the_place_of_the_dead_says_so() {
    let world = MockConsul::new(1);
    let dead = semaphore(&world, "dead", 1);
    let permit = world.run(dead.acquire()).expect("a free slot");
    let (semaphore, onlooker) = observed(&world, "a", 1);
    world.partition("dead");
    let next = world.run(semaphore.acquire()).expect("its turn");
    world.advance(secs(1));
    let words = onlooker.words();
    assert!(words.contains(&"pruned 1".to_owned()), "{words:?}");
    drop((permit, next));
}

#[test]
fn a_conflict_is_told_once_however_many_wait() {
    let world = MockConsul::new(1);
    let other = semaphore(&world, "other", 2);
    let held = world.run(other.acquire_many(2)).expect("free slots");
    let (semaphore, onlooker) = observed(&world, "a", 1);
    let tasks: Vec<_> = (0..5)
        .map(|_| {
            let semaphore = semaphore.clone();
            world.start(async move { semaphore.acquire().await })
        })
        .collect();
    for task in tasks {
        let conflict = world.run(task);
        assert!(matches!(conflict, Err(Error::LimitConflict { .. })));
    }
    let words = onlooker.words();
    let count = |word: &str| words.iter().filter(|it| *it == word).count();
    assert_eq!((count("conflict"), count("failed")), (1, 5), "{words:?}");
    drop(held);
}

#[test]
fn what_consul_refuses_is_told_once() {
    let world = MockConsul::new(1);
    let (semaphore, onlooker) = observed(&world, "a", 1);
    let denied = semaphore_core::sans_io::Response::new(403, "Permission denied");
    world.inject(Rule::new(Fault::Answer(denied)).host("a").always());
    let refused = world.run(semaphore.acquire());
    assert!(matches!(refused, Err(Error::Request(_))), "{refused:?}");
    let words = onlooker.words();
    let refused = words.iter().filter(|it| *it == "refused");
    assert_eq!(refused.count(), 1, "{words:?}");
}

#[test]
fn an_election_tells_who_leads() {
    let world = MockConsul::new(1);
    let election = |host: &str, onlooker: &Onlooker| {
        Election::builder("service/leader")
            .observer(onlooker.clone())
            .connect(world.client(host))
            .expect("connected")
    };
    let (first, second) = (Onlooker::default(), Onlooker::default());
    let a = election("a", &first);
    let leadership = world.run(a.campaign()).expect("elected");
    let b = election("b", &second);
    let next = world.start(async move { b.campaign().await });
    world.advance(secs(5));
    assert!(second.words().contains(&"a leader".to_owned()));
    world.run(leadership.resign()).expect("resigned");
    let leadership = world.run(next).expect("elected");
    world.advance(secs(1));
    let words = first.words();
    assert!(
        words.iter().any(|it| it == "released after 5 s"),
        "{words:?}"
    );
    let words = second.words();
    assert!(
        words.iter().any(|it| it == "granted after 5 s"),
        "{words:?}"
    );
    drop(leadership);
}

#[test]
fn whoever_looks_on_at_a_client_sees_all_that_is_connected_to_it() {
    let world = MockConsul::new(1);
    let onlooker = Onlooker::default();
    let client = Client::builder()
        .observer(onlooker.clone())
        .connect(world.client("a"))
        .expect("connected");
    let one = client.semaphore("service/one", 1).expect("connected");
    let two = client.semaphore("service/two", 1).expect("connected");
    let permits = world.run(async { (one.acquire().await, two.acquire().await) });
    world.advance(secs(5));
    world.partition("a");
    world.advance(secs(40));
    let told = onlooker.take();
    for name in ["service/one", "service/two"] {
        let kinds = ["granted", "losing soon", "lost"];
        let has = |kind: &str| {
            told.iter().any(|(of, notice)| {
                let is = match notice {
                    Notice::Granted { .. } => "granted",
                    Notice::LosingSoon { .. } => "losing soon",
                    Notice::Lost { .. } => "lost",
                    _ => "",
                };
                of == name && is == kind
            })
        };
        let missing: Vec<_> = kinds.into_iter().filter(|kind| !has(kind)).collect();
        assert!(missing.is_empty(), "{name} lacks {missing:?}");
    }
    let outage = |notice: &Notice| matches!(notice, Notice::Retrying { .. });
    let outages = told.iter().filter(|(_, notice)| outage(notice));
    let of: Vec<_> = outages.map(|(of, _)| of.as_str()).collect();
    assert_eq!(of, [""], "the outage is the client's");
    drop(permits);
}

#[test]
fn an_observer_may_use_the_handle() {
    let world = MockConsul::new(1);
    let handle: Arc<Mutex<Option<Semaphore>>> = Arc::default();
    let seen: Arc<Mutex<Vec<u32>>> = Arc::default();
    let (of, held) = (Arc::clone(&handle), Arc::clone(&seen));
    let look = move |_: &Subject, notice: &Notice| {
        let semaphore = of.lock().expect("nobody panicked").clone();
        if let (Some(semaphore), Notice::Granted { .. }) = (semaphore, notice) {
            let now = semaphore.status().held;
            held.lock().expect("nobody panicked").push(now);
        }
    };
    let builder = builder(2).observer(look);
    let semaphore = builder.connect(world.client("a")).expect("connected");
    *handle.lock().expect("nobody panicked") = Some(semaphore.clone());
    let permits = world.run(semaphore.acquire_many(2)).expect("free slots");
    assert_eq!(*seen.lock().expect("nobody panicked"), [2]);
    drop(permits);
    drop(handle.lock().expect("nobody panicked").take());
}

/// So an observer can keep the newest notices as text.
#[test]
fn each_notice_is_a_line_that_has_all_causes_and_no_secret() {
    let world = MockConsul::new(1);
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let observer = move |of: &Subject, notice: &Notice| {
        let line = format!("{of}: {notice}");
        kept.lock().expect("no panic").push(line);
    };
    let scope = Scope::new().with_token(Token::new("hunter2").expect("a token"));
    let semaphore = builder(1).observer(observer).scope(scope);
    let semaphore = semaphore.connect(world.client("a")).expect("connected");
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.partition("a");
    world.run(permit.lost());
    let lines = lines.lock().expect("no panic");
    let told = |what: &str| {
        let what = format!("semaphore \"service/db\" at mock://a: {what}");
        lines.iter().filter(|line| line.starts_with(&what)).count()
    };
    assert_eq!(told("Granted { "), 1, "{lines:#?}");
    assert_eq!(told("Retrying since "), 1, "{lines:#?}");
    assert_eq!(told("Lost after "), 1, "{lines:#?}");
    for line in lines.iter() {
        let is_one = !line.contains('\n') && !line.contains("hunter2");
        assert!(is_one, "{line}");
        let is_failure = line.contains("Retrying") || line.contains("Lost");
        assert_eq!(
            line.contains("got no answer"),
            is_failure || line.contains("RequestFailed"),
            "{line}"
        );
    }
}
