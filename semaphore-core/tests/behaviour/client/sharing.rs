//! How many sessions there are, who stands on which, and what they cost.

use std::collections::BTreeSet;

use semaphore_core::{Client, Election};
use transport_mock::MockConsul;

use super::{client, hold_each, isolated, numbered, session_of};
use crate::support::spy::Spy;
use crate::support::steps::{creates_session, renews_session};
use crate::support::*;

#[test]
fn a_hundred_semaphores_with_a_slot_each_stand_on_one_session() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let spy = Spy::on(&world);
    let permits = hold_each(&world, &client, 100);
    assert_eq!(session_count(&world), 1);
    assert_eq!(spy.count(creates_session), 1);
    for permit in permits {
        assert!(permit.is_held());
        world.run(permit.release()).expect("released");
    }
    world.run(client.shutdown());
    assert_eq!(session_count(&world), 0, "{}", world.trace());
}

#[test]
fn there_are_as_many_sessions_as_slots_in_the_semaphore_with_the_most() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let few = hold_each(&world, &client, 20);
    let many = numbered(&client, 0);
    let further = world.run(many.acquire_many(2)).expect("free slots");
    assert_eq!(session_count(&world), 3);
    let sessions: Vec<_> = few.iter().map(session_of).collect();
    assert!(sessions.iter().all(|it| *it == sessions[0]), "{sessions:?}");
    for sequencer in further.sequencers() {
        assert_ne!(sequencer.session.as_str(), sessions[0]);
    }
    world.run(further.release()).expect("released");
    world.advance(KEPT);
    assert_eq!(session_count(&world), 1, "those of no more use are ended");
    assert!(few.iter().all(semaphore_core::Permit::is_held));
}

#[test]
fn one_renewal_keeps_all_that_stand_on_the_session() {
    let renewals = |semaphores| {
        let world = MockConsul::new(1);
        let client = client(&world, "a");
        let permits = hold_each(&world, &client, semaphores);
        let spy = Spy::on(&world);
        world.advance(secs(60));
        assert!(permits.iter().all(semaphore_core::Permit::is_held));
        spy.count(renews_session)
    };
    let of_one = renewals(1);
    let of_fifty = renewals(50);
    assert!(
        of_fifty <= of_one + 2,
        "{of_fifty} of fifty, {of_one} of one"
    );
}

#[test]
fn a_session_serves_the_next_turn_wherever_that_is() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let mut sessions = Vec::new();
    for number in 0..10 {
        let permit = world.run(numbered(&client, number).acquire());
        let permit = permit.expect("a free slot");
        sessions.push(session_of(&permit));
        world.run(permit.release()).expect("released");
        world.advance(millis(500));
    }
    assert!(sessions.iter().all(|it| *it == sessions[0]), "{sessions:?}");
    world.advance(KEPT);
    assert_eq!(session_count(&world), 0, "{}", world.trace());
}

#[test]
fn semaphores_that_are_made_differently_share_no_session() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let usual = world.run(numbered(&client, 0).acquire()).expect("a slot");
    let others = [
        builder_of("service/long", 3).ttl(secs(60)),
        isolated("service/alone"),
        isolated("service/alone-too"),
    ];
    let others = others.map(|builder| {
        let semaphore = builder.connect(client.clone()).expect("valid settings");
        world.run(semaphore.acquire()).expect("a slot")
    });
    let sessions = others.iter().chain([&usual]).map(session_of);
    assert_eq!(sessions.collect::<BTreeSet<_>>().len(), 4);
    assert_eq!(session_count(&world), 4);
}

#[test]
fn elections_and_semaphores_of_a_client_stand_on_different_sessions() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let permit = world.run(numbered(&client, 0).acquire()).expect("a slot");
    let election: Election = client.election("service/leader").expect("valid settings");
    let leads = world.run(election.campaign()).expect("it leads");
    assert_eq!(session_count(&world), 2);
    let discovery = client.discovery("service/leader").expect("a key");
    let leader = world.run(discovery.leader()).expect("an answer");
    assert_eq!(leader.expect("a leader").text(), Some("test"));
    world.run(leads.resign()).expect("resigned");
    assert!(permit.is_held());
    world.run(permit.release()).expect("released");
    world.run(client.shutdown());
    assert_eq!(session_count(&world), 0, "{}", world.trace());
}

#[test]
fn a_client_that_does_nothing_sends_nothing() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let semaphores: Vec<_> = (0..1_000).map(|it| numbered(&client, it)).collect();
    world.advance(secs(600));
    assert_eq!(world.stats_of("a").total_requests(), 0);
    drop(semaphores);
    world.run(client.shutdown());
}

#[test]
fn clients_of_two_processes_take_turns_as_single_semaphores_do() {
    let world = MockConsul::new(1);
    let [a, b]: [Client; 2] = ["a", "b"].map(|host| client(&world, host));
    let [a, b] = [a, b].map(|it| it.semaphore("service/db", 1).expect("valid settings"));
    let mut tokens = Vec::new();
    for turn in 0..10 {
        let semaphore = if turn % 2 == 0 { &a } else { &b };
        let permit = world.run(semaphore.acquire()).expect("a slot");
        tokens.push(permit.fencing_token());
        world.run(permit.release()).expect("released");
    }
    assert!(tokens.is_sorted() && tokens[0] < tokens[9], "{tokens:?}");
}
