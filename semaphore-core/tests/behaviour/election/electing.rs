//! Electing a leader: one at a time, the next at once after a resignation, later after a crash.

use semaphore_core::sans_io::api::LOCK_FLAGS;
use semaphore_core::{Error, InvalidInput, Refusal};
use transport_mock::{Fault, MockConsul, MockProcess, RequestKind, Rule};

use crate::election::unknown::ACQUISITION;
use crate::support::election::*;
use crate::support::*;

#[test]
fn who_campaigns_alone_leads_and_the_key_shows_it() {
    let world = MockConsul::new(1);
    let (election, leadership) = leader(&world);
    assert!(leadership.is_leader());
    assert_eq!(election.key().as_str(), KEY);
    let key = found(&world).expect("a key");
    assert_eq!((key.value.as_str(), key.flags), ("a", LOCK_FLAGS));
    let sequencer = leadership.sequencer();
    assert_eq!(key.session, sequencer.session.as_str());
    assert_eq!((sequencer.key.as_str(), sequencer.lock_index), (KEY, 1));
    assert_eq!(leadership.term(), 1);
    assert!(!leadership.remaining().is_zero());
    assert!(leadership.remaining() <= millis(13_500));
}

#[test]
fn whoever_campaigns_alone_makes_a_session_reads_once_and_attempts_once() {
    let world = MockConsul::new(1);
    let (_election, _leadership) = leader(&world);
    let stats = world.stats();
    assert_eq!(stats.requests_of(RequestKind::SessionCreate), 1);
    assert_eq!(stats.requests_of(ACQUISITION), 1);
    assert_eq!(stats.requests_of(RequestKind::KvRead), 1);
}

#[test]
fn whoever_campaigns_alone_reads_once_also_if_the_session_comes_after_the_first_poll() {
    for seed in 1..=20 {
        let world = MockConsul::new(seed);
        let late = Rule::new(Fault::DelayAnswer(millis(5))).kind(RequestKind::SessionCreate);
        world.inject(late);
        let (_election, leadership) = leader(&world);
        world.advance(secs(1));
        assert!(leadership.is_leader());
        let reads = world.stats().requests_of(RequestKind::KvRead);
        assert_eq!(reads, 1, "seed {seed}: {}", world.trace());
    }
}

#[test]
fn leading_goes_on_for_as_long_as_nobody_resigns() {
    let world = MockConsul::new(1);
    let (_election, leadership) = leader(&world);
    for _ in 0..60 {
        world.advance(secs(10));
        assert!(leadership.is_leader());
    }
    assert_eq!(found(&world).expect("a key").lock_index, 1);
}

#[test]
fn a_resignation_leaves_the_key_with_its_value_and_nothing_else() {
    let world = MockConsul::new(1);
    let (_election, leadership) = leader(&world);
    world.run(leadership.resign()).expect("resigned");
    assert_only_key_left(&world);
    assert_eq!(found(&world).expect("a key").value, "a");
}

#[test]
fn the_next_leads_at_once_after_a_resignation_with_a_higher_token() {
    let world = MockConsul::new(1);
    let (_a, first) = leader(&world);
    let b = election(&world, "b");
    let mut second = world.start(async move { b.campaign().await.map(|it| (b, it)) });
    world.advance(secs(40));
    assert!(first.is_leader());
    assert!(second.try_take().is_none());
    let token = first.fencing_token();
    world.run(first.resign()).expect("resigned");
    let before = world.now();
    let (_b, second) = world.run(second).expect("elected");
    assert!(world.now().saturating_since(before) <= millis(10));
    assert!(second.fencing_token() > token);
    assert_eq!(second.term(), 2);
    assert_eq!(found(&world).expect("a key").value, "b");
}

#[test]
fn of_many_one_leads_at_a_time_and_all_get_their_turn() {
    let world = MockConsul::new(3);
    let mut tasks = Vec::new();
    for no in 0..6 {
        let election = election(&world, &format!("node-{no}"));
        let now = world.client("clock");
        tasks.push(world.start(async move {
            use semaphore_core::adapter::Runtime as _;
            let leadership = election.campaign().await.expect("elected");
            let from = now.now();
            now.sleep(secs(3)).await;
            assert!(leadership.is_leader());
            let until = now.now();
            let token = leadership.fencing_token();
            leadership.resign().await.expect("resigned");
            (from, until, token)
        }));
    }
    let mut terms: Vec<_> = tasks.into_iter().map(|task| world.run(task)).collect();
    terms.sort();
    for pair in terms.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "{terms:?}");
        assert!(pair[0].2 < pair[1].2, "{terms:?}");
    }
    assert_only_key_left(&world);
}

#[test]
fn after_a_crash_the_next_leads_within_twice_the_ttl_the_lock_delay_and_two_seconds() {
    for seed in 0..10 {
        let world = MockConsul::new(seed);
        let process = MockProcess::new(&world.client("a"));
        let crashed = builder_for(KEY)
            .connect(process.clone())
            .expect("valid settings");
        let first = world.run(crashed.campaign()).expect("elected");
        let b = election(&world, "b");
        let second = world.start(async move { b.campaign().await.map(|it| (b, it)) });
        world.advance(secs(33));
        process.kill();
        let crash = world.now();
        assert!(first.remaining() <= millis(13_500));
        let (_b, second) = world.run(second).expect("elected");
        let took = world.now().saturating_since(crash);
        assert!(took <= secs(15 * 2 + 15 + 2), "{took:?}");
        assert!(took >= secs(15), "the lock delay is kept: {took:?}");
        assert!(second.fencing_token() > first.fencing_token());
    }
}

#[test]
fn a_lock_delay_is_kept_and_asked_about_twice_a_second_at_most() {
    let world = MockConsul::new(1);
    let (_a, first) = leader(&world);
    let b = elect_with(builder_for(KEY), &world.client("b"));
    let second = world.start(async move { b.campaign().await.map(|it| (b, it)) });
    world.advance(secs(5));
    let session = first.sequencer().session.clone();
    world.consul(|consul, now| consul.destroy_session(now, session.as_str()));
    let ended = world.now();
    let before = world.stats_of("b").total_requests();
    let (_b, second) = world.run(second).expect("elected");
    let took = world.now().saturating_since(ended);
    assert!(took >= secs(15) && took <= millis(16_100), "{took:?}");
    let requests = world.stats_of("b").total_requests() - before;
    assert!(requests <= 45, "{requests} requests");
    assert!(second.is_leader());
}

#[test]
fn a_lock_delay_of_zero_lets_the_next_lead_at_once() {
    let world = MockConsul::new(1);
    let builder = builder_for(KEY).lock_delay(secs(0));
    let a = elect_with(builder, &world.client("a"));
    let first = world.run(a.campaign()).expect("elected");
    let b = election(&world, "b");
    let second = world.start(async move { b.campaign().await.map(|it| (b, it)) });
    world.advance(secs(5));
    let session = first.sequencer().session.clone();
    world.consul(|consul, now| consul.destroy_session(now, session.as_str()));
    let ended = world.now();
    let (_b, _second) = world.run(second).expect("elected");
    assert!(world.now().saturating_since(ended) <= millis(1_010));
}

#[test]
fn an_instant_try_leads_or_says_that_somebody_does() {
    let world = MockConsul::new(1);
    let a = election(&world, "a");
    let b = election(&world, "b");
    let first = world.run(a.try_campaign()).expect("tried").expect("free");
    let refusal = world.run(b.try_campaign()).expect("tried");
    let by = first.sequencer().session.clone();
    assert_eq!(refusal.expect_err("a leads"), Refusal::Led { by });
    let refusal = world.run(a.try_campaign()).expect("tried");
    assert_eq!(refusal.expect_err("it leads"), Refusal::OthersHere);
    world.run(first.resign()).expect("resigned");
    let second = world.run(b.try_campaign()).expect("tried").expect("free");
    drop(second);
    world.advance(secs(1));
    assert_only_key_left(&world);
}

#[test]
fn an_instant_try_does_not_wait_for_a_lock_delay() {
    let world = MockConsul::new(1);
    let (_a, first) = leader(&world);
    let session = first.sequencer().session.clone();
    world.consul(|consul, now| consul.destroy_session(now, session.as_str()));
    let b = election(&world, "b");
    let before = world.now();
    let refusal = world.run(b.try_campaign()).expect("tried");
    let refusal = refusal.expect_err("a lock delay is on");
    assert_eq!(refusal, Refusal::KeyUnavailable);
    assert!(world.now().saturating_since(before) <= millis(20));
}

#[test]
fn a_timeout_ends_a_campaign_and_leaves_nothing() {
    let world = MockConsul::new(1);
    let (_a, first) = leader(&world);
    let b = election(&world, "b");
    let outcome = world.run(b.campaign_timeout(secs(20)));
    assert!(matches!(outcome, Err(Error::Timeout { .. })), "{outcome:?}");
    world.advance(KEPT);
    assert_eq!(session_count(&world), 1, "only the leader's");
    assert!(first.is_leader());
}

#[test]
fn clones_share_one_candidate_and_lead_in_turn() {
    let world = MockConsul::new(1);
    let (a, first) = leader(&world);
    let clone = a.clone();
    let mut second = world.start(async move { clone.campaign().await });
    world.advance(secs(30));
    assert!(first.is_leader() && second.try_take().is_none());
    let token = first.fencing_token();
    world.run(first.resign()).expect("resigned");
    let second = world.run(second).expect("elected");
    assert!(second.is_leader() && second.fencing_token() > token);
    world.run(second.resign()).expect("resigned");
    assert_only_key_left(&world);
}

#[test]
fn a_key_that_consul_would_read_as_another_is_refused() {
    let world = MockConsul::new(1);
    let refused = builder_for("a//b").connect(world.client("a"));
    let Err(Error::InvalidInput {
        input: InvalidInput::Key { key, .. },
        ..
    }) = refused
    else {
        panic!("{refused:?}");
    };
    assert_eq!(key, "a//b");
}

#[test]
fn the_blocking_handles_do_the_same() {
    let world = MockConsul::new(1);
    let builder = builder_for(KEY).value("a");
    let election = builder.connect_blocking(world.client("a")).expect("valid");
    let leadership = election.campaign().expect("elected");
    assert!(leadership.is_leader());
    assert!(election.try_campaign().expect("tried").is_err());
    leadership.set_value("b").expect("set");
    assert_eq!(found(&world).expect("a key").value, "b");
    assert!(leadership.lost_timeout(secs(60)).is_none());
    assert_eq!(leadership.term(), 1);
    leadership.resign().expect("resigned");
    let again = election.campaign_timeout(secs(1)).expect("elected");
    assert_eq!(again.sequencer().lock_index, 2);
    drop(again);
    election.shutdown();
    assert!(matches!(election.campaign(), Err(Error::Closed { .. })));
    assert_only_key_left(&world);
}
