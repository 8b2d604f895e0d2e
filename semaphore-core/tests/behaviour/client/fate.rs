//! Everything that uses a session ends with it, and nothing else does.

use semaphore_core::sans_io::Method;
use semaphore_core::{Error, Lost};
use transport_mock::consul::Entry;
use transport_mock::{Fault, MockConsul, MockProcess, Rule};

use super::{client, client_of, hold_each, isolated, numbered, session_of};
use crate::support::steps::ties_key;
use crate::support::stranger::operate;
use crate::support::*;

#[test]
fn a_session_that_is_taken_away_ends_all_holds_by_it_and_no_other() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let alone = isolated("service/alone").connect(client.clone());
    let alone = world.run(alone.expect("valid settings").acquire());
    let alone = alone.expect("a slot");
    let permits = hold_each(&world, &client, 5);
    let second = world.run(numbered(&client, 0).acquire()).expect("a slot");
    let session = session_of(&permits[0]);
    world.consul(|consul, now| consul.destroy_session(now, &session));
    for permit in &permits {
        let lost = world.run(permit.lost());
        assert!(
            matches!(
                &lost,
                Lost::SessionGone { session: gone, .. } if gone.as_str() == session
            ),
            "{lost:?}"
        );
    }
    assert!(second.is_held() && alone.is_held());
    drop(permits);
    let again = hold_each(&world, &client, 5);
    assert!(again.iter().all(|it| session_of(it) != session));
    assert!(again.iter().all(semaphore_core::Permit::is_held));
}

#[test]
fn an_outage_beyond_the_lease_ends_all_and_all_begins_again() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let permits = hold_each(&world, &client, 5);
    world.partition("a");
    world.advance(secs(14));
    assert!(permits.iter().all(|it| !it.is_held()));
    for permit in &permits {
        let lost = world.run(permit.lost());
        assert!(matches!(lost, Lost::LeaseExpired { .. }), "{lost:?}");
    }
    world.advance(secs(60));
    world.heal("a");
    drop(permits);
    let again = hold_each(&world, &client, 5);
    assert!(again.iter().all(semaphore_core::Permit::is_held));
    drop(again);
    world.run(client.shutdown());
    world.advance(secs(40));
    assert_eq!(session_count(&world), 0, "{}", world.trace());
}

/// The simulator found this: the claim had created the record, but it was still taken for a record
/// that had to be created.
#[test]
fn who_made_the_record_learns_that_it_was_deleted() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let permit = world.run(numbered(&client, 0).acquire()).expect("a slot");
    world.advance(secs(1));
    operate(&world, Method::Delete, "/v1/kv/service/0/.lock", "");
    world.advance(millis(1_100));
    assert!(!permit.is_held(), "{}", world.trace());
    let lost = world.run(permit.lost());
    assert!(matches!(lost, Lost::RemovedFromHolders { .. }), "{lost:?}");
}

#[test]
fn an_evicted_holder_takes_no_other_along() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let permits = hold_each(&world, &client, 3);
    let session = session_of(&permits[0]);
    let key = format!("/v1/kv/service/1/{session}");
    operate(&world, Method::Delete, &key, "");
    let lost = world.run(permits[1].lost());
    assert!(
        matches!(
            lost,
            Lost::SessionGone { .. } | Lost::RemovedFromHolders { .. }
        ),
        "{lost:?}"
    );
    world.advance(secs(60));
    assert!(permits[0].is_held() && permits[2].is_held());
    assert!(world.consul(|consul, _| consul.sessions().any(|it| it.id() == session)));
    let again = world.run(numbered(&client, 1).acquire()).expect("a slot");
    assert!(again.is_held());
}

/// The session lives on, so its late key would stay in the queue just as long.
#[test]
fn a_key_that_comes_late_is_deleted_while_others_stand_on_its_session() {
    let mut late = 0;
    for seed in 0..60 {
        let world = MockConsul::new(seed);
        world.hold_without_leader(millis(8_600)..=secs(18), millis(4_700));
        let client = client(&world, "a");
        let holds = world.run(numbered(&client, 0).acquire()).expect("a slot");
        let waiter = numbered(&client, 1);
        let waiting = world.start(async move { waiter.acquire().await });
        give_up_without_leader(&world, waiting, seed);
        world.advance(secs(60));
        let keys: Vec<_> = world.consul(|consul, _| {
            let keys = consul.entries("service/1/").map(Entry::key);
            let others = keys.filter(|key| !key.ends_with("/.lock"));
            others.collect()
        });
        assert_eq!(keys, [""; 0], "seed {seed}\n{}", world.trace());
        assert!(holds.is_held(), "seed {seed}\n{}", world.trace());
        late += world.held_without_leader().1;
    }
    assert!(late > 20, "{late} writes came late");
}

#[test]
fn an_entry_whose_answer_is_lost_keeps_the_session_from_the_next_turn_there_alone() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let holds = world.run(numbered(&client, 0).acquire()).expect("a slot");
    let lost = Rule::new(Fault::LoseAnswer).matching(ties_key).times(1);
    world.inject(lost);
    let first = numbered(&client, 1);
    let outcome = world.run(first.acquire_timeout(secs(20)));
    drop(outcome);
    let second = world.run(numbered(&client, 2).acquire()).expect("a slot");
    assert_eq!(session_of(&second), session_of(&holds));
    world.advance(secs(60));
    assert!(holds.is_held() && second.is_held());
}

#[test]
fn a_process_that_is_killed_leaves_what_its_ttl_ends() {
    let world = MockConsul::new(1);
    let process = MockProcess::new(&world.client("a"));
    let client = client_of(&process);
    let permits = hold_each(&world, &client, 5);
    process.kill();
    drop((permits, client));
    world.advance(secs(30));
    assert_eq!(session_count(&world), 0, "{}", world.trace());
}

#[test]
fn a_release_that_fails_ends_its_session_with_the_last_that_stands_on_it() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let mut permits = hold_each(&world, &client, 2);
    world.partition("a");
    let first = permits.remove(0);
    let session = session_of(&first);
    let released = world.start(async move { first.release().await });
    world.advance(secs(8));
    assert!(permits[0].is_held());
    world.heal("a");
    let result = world.run(released);
    assert!(
        matches!(result, Ok(()) | Err(Error::Request(_))),
        "{result:?}"
    );
    world.advance(secs(2));
    assert!(permits[0].is_held());
    world.run(permits.remove(0).release()).expect("released");
    // Writes that were given up may arrive late for this long.
    world.advance(secs(30));
    let is_there = world.consul(|consul, _| consul.sessions().any(|it| it.id() == session));
    assert!(!is_there, "{}", world.trace());
}
