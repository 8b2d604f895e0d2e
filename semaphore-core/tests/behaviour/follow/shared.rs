//! Many followers of one election share one read. Each has its own position in the events.

use futures_util::future::join_all;
use semaphore_core::adapter::{Method, Request, Response};
use semaphore_core::{Client, Discovery, Follower, LeaderEvent, LeaderStatus, blocking};
use transport_mock::{Fault, MockConsul, Rule, Task};

use crate::support::candidate::{Candidate, LEADER};
use crate::support::election::election;
use crate::support::spy::Spy;
use crate::support::*;

fn discovery(world: &MockConsul) -> Discovery {
    let client = world.client("follower");
    Discovery::builder(LEADER).connect(client).expect("a key")
}

async fn elected(mut follower: Follower) -> (Follower, String) {
    loop {
        match follower.next().await {
            Some(Ok(LeaderEvent::Elected(leader))) => {
                let text = leader.text().expect("text").to_owned();
                return (follower, text);
            }
            Some(Ok(LeaderEvent::Leaderless { .. })) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_thousand_followers_cost_what_one_costs_and_all_learn_the_same() {
    let world = MockConsul::new(1);
    let candidate = Candidate::new(&world);
    let discovery = discovery(&world);
    let followers: Vec<_> = (0..1_000).map(|_| discovery.clone().follow()).collect();
    let spy = Spy::on_host(&world, "follower");
    let tasks: Vec<Task<_>> = followers
        .into_iter()
        .map(|it| world.start(elected(it)))
        .collect();
    world.advance(secs(60));
    let requests = spy.requests().len();
    assert!((11..=14).contains(&requests), "{requests} in a minute");
    candidate.leads(&world, "node-1");
    for (_, leader) in world.run(join_all(tasks)) {
        assert_eq!(leader, "node-1");
    }
    assert!(spy.requests().len() <= requests + 3, "{}", world.trace());
}

#[test]
fn who_comes_later_is_told_the_present_at_once_and_then_what_changes() {
    let world = MockConsul::new(1);
    let first = Candidate::leading(&world, "node-1");
    let discovery = discovery(&world);
    let (early, _) = world.run(elected(discovery.follow()));
    let waiting = world.start(elected(early));
    world.advance(secs(1));
    let spy = Spy::on_host(&world, "follower");
    let (late, leader) = world.run(elected(discovery.follow()));
    assert_eq!(leader, "node-1");
    assert!(spy.requests().is_empty(), "{:?}", spy.requests());
    let clone = late.clone();
    first.resigns(&world, "");
    Candidate::leading(&world, "node-2");
    for follower in [late, clone] {
        assert_eq!(world.run(elected(follower)).1, "node-2");
    }
    assert_eq!(world.run(waiting).1, "node-2");
}

#[test]
fn who_comes_when_nobody_has_asked_for_long_is_told_the_present_and_not_what_was() {
    let world = MockConsul::new(1);
    let first = Candidate::leading(&world, "node-1");
    let discovery = discovery(&world);
    let (idle, _) = world.run(elected(discovery.follow()));
    first.resigns(&world, "");
    Candidate::leading(&world, "node-2");
    world.advance(secs(3_600));
    assert_eq!(world.run(elected(discovery.follow())).1, "node-2");
    let told = idle.current().and_then(LeaderStatus::leader);
    assert_eq!(
        told.and_then(|it| it.text().map(str::to_owned)).as_deref(),
        Some("node-1")
    );
    assert!(
        idle.age().expect("an age") >= secs(3_600),
        "{:?}",
        idle.age()
    );
    assert_eq!(world.run(elected(idle)).1, "node-2");
}

#[test]
fn who_stops_waiting_or_goes_leaves_the_read_to_the_others() {
    let world = MockConsul::new(1);
    let candidate = Candidate::new(&world);
    let discovery = discovery(&world);
    let driving = world.start(elected(discovery.follow()));
    world.advance(secs(1));
    let other = world.start(elected(discovery.follow()));
    world.advance(secs(1));
    driving.abort();
    candidate.leads(&world, "node-1");
    assert_eq!(world.run(other).1, "node-1");
}

#[test]
fn a_follower_that_is_cut_off_says_so_within_the_age_that_is_allowed() {
    let world = MockConsul::new(1);
    Candidate::leading(&world, "node-1");
    for max_age in [secs(5), secs(15), secs(40)] {
        let client = world.client("follower");
        let builder = Discovery::builder(LEADER).max_age(max_age);
        let discovery = builder.connect(client).expect("a key");
        let (mut follower, _) = world.run(elected(discovery.follow()));
        world.partition("follower");
        let event = world.run(follower.next());
        assert!(
            matches!(event, Some(Ok(LeaderEvent::Interrupted(_)))),
            "{event:?}"
        );
        let age = follower.age().expect("an age");
        assert!(age <= max_age, "{age:?} of {max_age:?}");
        assert!(follower.is_interrupted());
        world.heal("follower");
        let event = world.run(follower.next());
        assert!(matches!(event, Some(Ok(LeaderEvent::Resumed))), "{event:?}");
        assert!(follower.age().expect("an age") <= secs(1));
    }
}

#[test]
fn elections_and_discoveries_of_one_client_on_one_key_are_one() {
    let world = MockConsul::new(1);
    let client = Client::builder()
        .connect(world.client("a"))
        .expect("a client");
    let spy = Spy::on_host(&world, "a");
    let followers = join_all((0..50).map(|_| {
        let discovery = client.discovery(LEADER).expect("a key");
        async move { discovery.follow().next().await }
    }));
    world.run(followers);
    assert_eq!(spy.requests().len(), 1, "{:?}", spy.requests());

    let elections: Vec<_> = (0..50)
        .map(|_| client.election(LEADER).expect("a key"))
        .collect();
    let first = world.run(elections[0].campaign()).expect("a leadership");
    assert_eq!(
        elections[49].leader().map(|it| it.session),
        Some(first.sequencer().session.clone())
    );
    let waiting: Vec<_> = elections
        .iter()
        .cloned()
        .map(|it| {
            world.start(async move { it.campaign().await.expect("a leadership").resign().await })
        })
        .collect();
    world.advance(secs(1));
    assert_eq!(session_count(&world), 1, "one candidate");
    world.run(first.resign()).expect("resigned");
    for done in world.run(join_all(waiting)) {
        done.expect("resigned");
    }
    drop(elections);
    world.run(client.shutdown());
}

#[test]
fn an_election_knows_who_leads_without_asking_while_it_campaigns() {
    let world = MockConsul::new(1);
    let first = election(&world, "a");
    let second = election(&world, "b");
    assert_eq!(first.leader(), None);
    let leadership = world.run(first.campaign()).expect("a leadership");
    let known = first.leader().expect("itself");
    assert_eq!(known.session, leadership.sequencer().session);
    assert!(!known.is_after(leadership.fencing_token()));
    assert_eq!(second.leader(), None, "it has not looked");
    let waiting = world.start({
        let second = second.clone();
        async move { second.campaign().await }
    });
    world.advance(secs(1));
    assert_eq!(second.leader(), Some(known));
    world.run(leadership.resign()).expect("resigned");
    let leadership = world.run(waiting).expect("a leadership");
    let known = second.leader().expect("itself");
    assert_eq!(known.session, leadership.sequencer().session);
}

#[test]
fn a_fence_refuses_the_leader_before_and_never_the_present_one() {
    let world = MockConsul::new(1);
    let first = election(&world, "a");
    let mut follower = discovery(&world).follow();
    world.run(follower.next());
    let mut before = None;
    for term in 0..5 {
        let leadership = world.run(first.campaign()).expect("a leadership");
        if term % 2 == 1 {
            world
                .run(leadership.set_value(format!("{term}")))
                .expect("a change");
        }
        let (next, _) = world.run(elected(follower));
        let leader = next
            .current()
            .and_then(LeaderStatus::leader)
            .expect("a leader")
            .clone();
        follower = next;
        assert!(!leader.is_after(leadership.fencing_token()), "{leader:?}");
        if let Some(before) = before {
            assert!(leader.is_after(before), "{leader:?} {before}");
        }
        before = Some(leadership.fencing_token());
        world.run(leadership.resign()).expect("resigned");
    }
}

#[test]
fn threads_share_a_read_too() {
    let world = MockConsul::new(1);
    let candidate = Candidate::new(&world);
    let client = world.client("follower");
    let discovery = blocking::Discovery::builder(LEADER)
        .connect(client)
        .expect("a key");
    let mut first = discovery.follow();
    let mut second = first.clone();
    let spy = Spy::on_host(&world, "follower");
    assert!(matches!(
        first.next(),
        Some(Ok(LeaderEvent::Leaderless { .. }))
    ));
    assert!(matches!(
        second.next(),
        Some(Ok(LeaderEvent::Leaderless { .. }))
    ));
    assert_eq!(spy.requests().len(), 1);
    candidate.leads(&world, "node-1");
    assert!(matches!(first.next(), Some(Ok(LeaderEvent::Elected(_)))));
    assert!(matches!(second.next(), Some(Ok(LeaderEvent::Elected(_)))));
    assert_eq!(spy.requests().len(), 2, "{:?}", spy.requests());
}

/// `consul lock` deletes the key after its turn. Then `LockIndex` starts again, but fences and
/// tokens continue.
#[test]
fn a_fence_refuses_the_leader_before_also_where_the_key_was_deleted_in_between() {
    let world = MockConsul::new(1);
    let first = election(&world, "a");
    let discovery = discovery(&world);
    let mut follower = discovery.follow();
    world.run(follower.next());
    let mut before = None;
    for _ in 0..5 {
        let leadership = world.run(first.campaign()).expect("a leadership");
        let (next, _) = world.run(elected(follower));
        let told = next.current().and_then(LeaderStatus::leader).cloned();
        follower = next;
        // A caller that does not follow only knows when the key was created. That was after the
        // earlier leader.
        let asked = world.run(discovery.leader()).expect("an answer");
        for leader in [told, asked].map(|it| it.expect("a leader")) {
            assert_eq!(leader.lock_index, 1);
            assert!(!leader.is_after(leadership.fencing_token()), "{leader:?}");
            if let Some(before) = before {
                assert!(leader.is_after(before), "{leader:?} {before}");
            }
        }
        before = Some(leadership.fencing_token());
        world.run(leadership.resign()).expect("resigned");
        world.consul(|consul, now| {
            consul.submit(
                now,
                &Request::new(Method::Delete, format!("/v1/kv/{LEADER}")),
            );
        });
    }
}

#[test]
fn who_comes_when_nobody_has_asked_for_long_is_told_at_once_even_if_nothing_has_changed() {
    let world = MockConsul::new(1);
    Candidate::leading(&world, "node-1");
    let discovery = discovery(&world);
    let (_idle, _) = world.run(elected(discovery.follow()));
    world.advance(secs(3_600));
    let began = world.now();
    assert_eq!(world.run(elected(discovery.follow())).1, "node-1");
    let took = world.now().saturating_since(began);
    assert!(took < millis(100), "{took:?}");
}

#[test]
fn who_comes_when_nobody_has_asked_for_long_is_not_told_of_what_was_refused_then() {
    let world = MockConsul::new(1);
    Candidate::leading(&world, "node-1");
    let of_client = Client::builder().connect(world.client("follower"));
    let of_client = of_client.expect("a client").discovery(LEADER);
    for discovery in [discovery(&world), of_client.expect("a key")] {
        let denied = Fault::Answer(Response::new(403, "Permission denied"));
        world.inject(Rule::new(denied).host("follower").always());
        let mut idle = discovery.follow();
        let refused = world.run(idle.next()).expect("an event");
        assert!(refused.is_err(), "{refused:?}");
        let too = world.run(discovery.follow().next()).expect("an event");
        assert!(too.is_err(), "{too:?}");
        world.clear_faults();
        world.advance(secs(3_600));
        let present = world.run(discovery.follow().next());
        assert!(
            matches!(present, Some(Ok(LeaderEvent::Elected(_)))),
            "{present:?}"
        );
        let event = world.run(idle.next());
        assert!(matches!(event, Some(Ok(LeaderEvent::Resumed))), "{event:?}");
    }
}
