//! The answers to session creations are lost. Unknown sessions don't pile up.

use semaphore_core::{Error, Permit};
use transport_mock::{Fault, MockConsul, RequestKind, Rule, Task};

use crate::support::election::election;
use crate::support::*;

/// The most sessions that exist at the same time within two minutes. `fault` meets each creation.
fn most_standing(world: &MockConsul, fault: Fault) -> usize {
    world.inject(Rule::new(fault).kind(RequestKind::SessionCreate).always());
    let standing = (0..1_200).map(|_| {
        world.advance(millis(100));
        session_count(world)
    });
    standing.max().unwrap_or_default()
}

/// That many callers of one semaphore, which has a slot for each.
fn callers(world: &MockConsul, count: u32) -> Vec<Task<Result<Permit, Error>>> {
    let semaphore = semaphore(world, "a", count);
    let caller = |_| {
        let semaphore = semaphore.clone();
        world.start(async move { semaphore.acquire().await })
    };
    (0..count).map(caller).collect()
}

/// Gives each caller its slot, one after the other.
fn serve(world: &MockConsul, callers: Vec<Task<Result<Permit, Error>>>) {
    for caller in callers {
        drop(world.run(caller).expect("a slot"));
    }
}

fn faults() -> [Fault; 3] {
    [
        Fault::LoseAnswer,
        Fault::ResetAfter,
        Fault::AnswerAfter(semaphore_core::sans_io::Response::new(502, "")),
    ]
}

#[test]
fn of_a_semaphore_with_two_callers_eight_stand_at_most() {
    for fault in faults() {
        let world = MockConsul::new(1);
        let callers = callers(&world, 2);
        let most = most_standing(&world, fault.clone());
        assert!((2..=8).contains(&most), "{fault:?}: {most}");
        world.clear_faults();
        serve(&world, callers);
        world.advance(secs(60));
        assert_nothing_left(&world);
    }
}

#[test]
fn of_one_with_thirty_callers_fourteen_do() {
    for fault in faults() {
        let world = MockConsul::new(1);
        let callers = callers(&world, 30);
        let most = most_standing(&world, fault.clone());
        assert!((8..=14).contains(&most), "{fault:?}: {most}");
        world.clear_faults();
        let before = world.now();
        serve(&world, callers);
        assert!(world.now().saturating_since(before) < secs(10));
    }
}

#[test]
fn of_a_candidate_eight_do() {
    for fault in faults() {
        let world = MockConsul::new(1);
        let election = election(&world, "a");
        let campaign = world.start(async move { election.campaign().await });
        let most = most_standing(&world, fault.clone());
        assert!((2..=8).contains(&most), "{fault:?}: {most}");
        world.clear_faults();
        drop(world.run(campaign).expect("elected"));
    }
}
