//! A process that holds many slots of one semaphore has as many sessions. They are renewed one by one, and the leader is
//! asked about them together.

use std::collections::BTreeMap;

use semaphore_core::sans_io::Request;
use semaphore_core::{Client, Permit, Semaphore};
use transport_mock::{MockConsul, RequestKind};

use crate::support::spy::Spy;
use crate::support::steps::is_transaction;
use crate::support::*;

const MANY: u32 = 60;

/// Holds all slots of a semaphore that has its own sessions, and of one that is a client's. Each
/// world ends before the next begins: nobody moves it any more.
fn with_all_held(permits: u32, test: impl Fn(&MockConsul, Vec<Permit>)) {
    {
        let world = MockConsul::new(1);
        let own = semaphore(&world, "a", permits);
        test(&world, hold_all(&world, &own, permits));
    }
    let world = MockConsul::new(1);
    let client = Client::builder().value("test");
    let client = client.connect(world.client("b")).expect("valid options");
    let shared = client.semaphore("service/b", permits);
    let shared = shared.expect("valid options");
    test(&world, hold_all(&world, &shared, permits));
}

fn hold_all(world: &MockConsul, semaphore: &Semaphore, permits: u32) -> Vec<Permit> {
    let waiting = (0..permits).map(|_| {
        let semaphore = semaphore.clone();
        world.start(async move { semaphore.acquire().await })
    });
    let waiting: Vec<_> = waiting.collect();
    let held = waiting.into_iter().map(|it| world.run(it));
    held.map(|permit| permit.expect("a free slot")).collect()
}

fn give_back(world: &MockConsul, permits: Vec<Permit>) {
    for permit in permits {
        world.run(permit.release()).expect("released");
    }
}

fn asks_alone(request: &Request) -> bool {
    request.target().starts_with("/v1/session/info/")
}

/// A proof of many sessions.
fn proves(request: &Request) -> bool {
    is_transaction(request) && request.target().contains("consistent")
}

#[test]
fn all_are_proven_by_a_few_reads() {
    with_all_held(MANY, |world, permits| {
        world.advance(secs(5));
        let spy = Spy::on(world);
        world.advance(secs(30));
        assert!(permits.iter().all(Permit::is_held));
        let (alone, together) = (spy.count(asks_alone), spy.count(proves));
        assert!((25..=5 * 30 + 1).contains(&together), "{together}");
        assert_eq!(alone, 0);
        give_back(world, permits);
    });
}

#[test]
fn if_one_session_ends_its_slot_alone_is_lost() {
    with_all_held(MANY, |world, permits| {
        world.advance(secs(5));
        let ended = permits[30].sequencers()[0].session.clone();
        world.consul(|consul, now| consul.destroy_session(now, ended.as_str()));
        world.advance(secs(3));
        let lost: Vec<_> = permits.iter().filter(|it| !it.is_held()).collect();
        assert_eq!(lost.len(), 1);
        assert_eq!(lost[0].sequencers()[0].session, ended);
        world.advance(secs(30));
        let held = permits.iter().filter(|it| it.is_held()).count();
        assert_eq!(held, MANY as usize - 1);
    });
}

/// Otherwise thousands of renewals a second would be more than an agent answers.
#[test]
fn beyond_the_first_hundreds_they_are_renewed_less_often() {
    with_all_held(600, |world, permits| {
        world.advance(secs(5));
        let spy = Spy::on(world);
        world.advance(secs(15));
        assert!(permits.iter().all(Permit::is_held));
        let mut of_each = BTreeMap::<_, usize>::new();
        for request in spy.of(RequestKind::SessionRenew) {
            *of_each.entry(request.target().to_owned()).or_default() += 1;
        }
        assert_eq!(of_each.len(), 600);
        // 300 a second in all.
        assert!(of_each.values().all(|renewals| (6..=8).contains(renewals)));
    });
}
