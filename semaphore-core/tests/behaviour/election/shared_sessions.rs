//! The elections of a client share sessions: how many there are, what ends with a session, and what
//! outlives a term.

use std::collections::BTreeSet;

use semaphore_core::sans_io::{Method, Response};
use semaphore_core::{Client, Election, Error, Leadership, Lost, Sequencer};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::client::{client, numbered, session_of as session_of_permit};
use crate::support::election::{Found, builder_for};
use crate::support::spy::Spy;
use crate::support::steps::{creates_session, destroys_session, renews_session};
use crate::support::stranger::operate;
use crate::support::*;

pub(crate) fn key(number: usize) -> String {
    format!("shards/{number}")
}

pub(crate) fn election_of(client: &Client, number: usize) -> Election {
    client.election(key(number)).expect("valid settings")
}

pub(super) fn lead(world: &MockConsul, client: &Client, number: usize) -> Leadership {
    let election = election_of(client, number);
    world.run(election.campaign()).expect("elected")
}

pub(crate) fn lead_each(world: &MockConsul, client: &Client, elections: usize) -> Vec<Leadership> {
    let all = (0..elections).map(|number| lead(world, client, number));
    all.collect()
}

pub(super) fn session_of(leadership: &Leadership) -> String {
    leadership.sequencer().session.to_string()
}

/// The key with that number.
pub(super) fn found(world: &MockConsul, number: usize) -> Option<Found> {
    world.consul(|consul, _| {
        let entry = consul.entry(&key(number))?;
        Some(Found {
            session: entry.session().unwrap_or_default().to_owned(),
            value: String::from_utf8_lossy(entry.value()).into_owned(),
            flags: entry.flags(),
            lock_index: entry.lock_index(),
        })
    })
}

/// The session that holds the key, if somebody leads.
pub(super) fn holder(world: &MockConsul, number: usize) -> Option<String> {
    let session = found(world, number)?.session;
    (!session.is_empty()).then_some(session)
}

pub(super) fn is_alive(world: &MockConsul, session: &str) -> bool {
    world.consul(|consul, _| consul.sessions().any(|it| it.id() == session))
}

#[test]
fn a_hundred_elections_of_a_client_stand_on_one_session() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let spy = Spy::on(&world);
    let terms = lead_each(&world, &client, 100);
    assert_eq!(session_count(&world), 1);
    assert_eq!(spy.count(creates_session), 1);
    world.advance(secs(60));
    assert!(terms.iter().all(Leadership::is_leader));
    for term in terms {
        world.run(term.resign()).expect("resigned");
    }
    world.run(client.shutdown());
    assert_eq!(session_count(&world), 0, "{}", world.trace());
    assert!((0..100).all(|number| holder(&world, number).is_none()));
}

#[test]
fn one_renewal_keeps_all_terms_on_the_session() {
    let renewals = |elections| {
        let world = MockConsul::new(1);
        let client = client(&world, "a");
        let terms = lead_each(&world, &client, elections);
        let spy = Spy::on(&world);
        world.advance(secs(60));
        assert!(terms.iter().all(Leadership::is_leader));
        spy.count(renews_session)
    };
    let (of_one, of_fifty) = (renewals(1), renewals(50));
    assert!(
        of_fifty <= of_one + 2,
        "{of_fifty} of fifty, {of_one} of one"
    );
}

#[test]
fn a_resignation_gives_the_key_back_by_one_write_and_keeps_the_session() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let others = lead_each(&world, &client, 3);
    let term = lead(&world, &client, 3);
    let session = session_of(&term);
    assert_eq!(session, session_of(&others[0]));
    let spy = Spy::on(&world);
    world.run(term.resign()).expect("resigned");
    assert_eq!(spy.of(RequestKind::Txn).len(), 1, "{}", world.trace());
    assert_eq!(spy.of(RequestKind::KvRelease).len(), 0);
    assert_eq!(holder(&world, 3), None);
    world.advance(secs(60));
    assert_eq!(spy.count(destroys_session), 0);
    assert!(is_alive(&world, &session));
    assert!(others.iter().all(Leadership::is_leader));
    // There is no lock delay either.
    let began = world.now();
    let b = crate::client::client(&world, "b");
    let next = lead(&world, &b, 3);
    assert!(world.now().saturating_since(began) < secs(1));
    assert!(next.is_leader());
}

#[test]
fn terms_of_one_key_by_one_session_are_told_apart_and_their_tokens_rise() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let _others = lead_each(&world, &client, 1);
    let mut before: Vec<(Sequencer, u64)> = Vec::new();
    for _ in 0..5 {
        let term = lead(&world, &client, 1);
        let name = (term.sequencer().clone(), term.fencing_token().0);
        assert!(before.iter().all(|it| it.0 != name.0 && it.1 < name.1));
        before.push(name);
        world.run(term.resign()).expect("resigned");
        // This is longer than an election keeps its session for the next campaign.
        world.advance(secs(2));
    }
    let sessions: Vec<_> = before.iter().map(|it| it.0.session.clone()).collect();
    assert!(sessions.iter().all(|it| *it == sessions[0]), "{sessions:?}");
}

/// `consul lock` does this after its turn.
#[test]
fn a_name_of_a_term_is_not_given_twice_where_the_key_was_made_again() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let others = lead_each(&world, &client, 1);
    let mut names: Vec<Sequencer> = Vec::new();
    for _ in 0..4 {
        let term = lead(&world, &client, 1);
        let name = term.sequencer().clone();
        assert!(!names.contains(&name), "{name} again");
        names.push(name);
        world.run(term.resign()).expect("resigned");
        world.advance(secs(70));
        operate(&world, Method::Delete, &format!("/v1/kv/{}", key(1)), "");
        world.advance(secs(2));
        assert!(session_count(&world) <= 2, "{}", world.trace());
    }
    // The session can still be used for other keys.
    let term = lead(&world, &client, 2);
    assert_eq!(session_of(&term), session_of(&others[0]));
    assert!(others[0].is_leader());
}

/// An attempt that was applied after its caller had gone. Followers have seen its term.
#[test]
fn a_name_of_a_term_that_nobody_was_granted_is_not_given_twice_either() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let others = lead_each(&world, &client, 1);
    let campaign = |number| {
        let election = election_of(&client, number);
        world.start(async move { election.campaign().await })
    };
    // Its third term is granted to nobody.
    for _ in 0..2 {
        let term = lead(&world, &client, 1);
        world.run(term.resign()).expect("resigned");
    }
    let waiting = campaign(1);
    while holder(&world, 1).is_none() {
        world.advance(millis(1));
    }
    waiting.abort();
    world.advance(secs(5));
    let seen = found(&world, 1).expect("the key");
    assert_eq!((seen.session.as_str(), seen.lock_index), ("", 3));
    operate(&world, Method::Delete, &format!("/v1/kv/{}", key(1)), "");
    for _ in 0..3 {
        let term = lead(&world, &client, 1);
        assert_ne!(
            session_of(&term),
            session_of(&others[0]),
            "{}",
            world.trace()
        );
        world.run(term.resign()).expect("resigned");
    }
    assert!(others[0].is_leader());
}

#[test]
fn a_session_that_is_taken_away_ends_all_terms_on_it_and_nothing_else() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let terms = lead_each(&world, &client, 5);
    let permit = world.run(numbered(&client, 0).acquire()).expect("a slot");
    let alone = builder_for("alone").isolated().connect(client.clone());
    let alone = world.run(alone.expect("valid settings").campaign());
    let alone = alone.expect("elected");
    let session = session_of(&terms[0]);
    world.consul(|consul, now| consul.destroy_session(now, &session));
    for term in &terms {
        let lost = world.run(term.lost());
        assert!(
            matches!(&lost, Lost::SessionGone { .. } | Lost::KeyReleased { .. }),
            "{lost:?}"
        );
    }
    assert!(alone.is_leader() && permit.is_held());
    assert_ne!(session_of_permit(&permit), session);
    drop(terms);
    world.advance(secs(30));
    let again = lead_each(&world, &client, 5);
    assert!(
        again
            .iter()
            .all(|it| it.is_leader() && session_of(it) != session)
    );
    assert_eq!(session_count(&world), 3);
}

#[test]
fn an_outage_beyond_the_lease_ends_all_terms_and_all_begins_again() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let terms = lead_each(&world, &client, 5);
    world.partition("a");
    world.advance(secs(14));
    assert!(terms.iter().all(|it| !it.is_leader()));
    for term in &terms {
        let lost = world.run(term.lost());
        assert!(matches!(lost, Lost::LeaseExpired { .. }), "{lost:?}");
    }
    world.advance(secs(60));
    world.heal("a");
    drop(terms);
    let again = lead_each(&world, &client, 5);
    assert!(again.iter().all(Leadership::is_leader));
    drop(again);
    world.run(client.shutdown());
    world.advance(secs(40));
    assert_eq!(session_count(&world), 0, "{}", world.trace());
}

#[test]
fn two_elections_of_one_key_with_other_options_stand_on_two_sessions() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let first = lead(&world, &client, 0);
    let builder = builder_for(&key(0)).value("another");
    let second = builder.connect(client.clone()).expect("valid settings");
    let mut waiting = world.start(async move { second.campaign().await });
    world.advance(secs(5));
    assert!(waiting.try_take().is_none());
    assert_eq!(session_count(&world), 2);
    let before = session_of(&first);
    world.run(first.resign()).expect("resigned");
    let next = world.run(waiting).expect("elected");
    assert_ne!(session_of(&next), before);
    // The first of the two sessions is free again for this key.
    world.run(next.resign()).expect("resigned");
    let again = lead(&world, &client, 0);
    assert_eq!(session_count(&world), 2);
    assert!(again.is_leader());
}

#[test]
fn an_election_that_is_isolated_or_made_otherwise_shares_no_session() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let usual = lead(&world, &client, 0);
    let others = [
        builder_for("long").ttl(secs(60)),
        builder_for("alone").isolated(),
        builder_for("alone-too").isolated(),
    ];
    let others = others.map(|builder| {
        let election = builder.connect(client.clone()).expect("valid settings");
        world.run(election.campaign()).expect("elected")
    });
    let sessions = others.iter().chain([&usual]).map(session_of);
    assert_eq!(sessions.collect::<BTreeSet<_>>().len(), 4);
    assert_eq!(session_count(&world), 4);
}

#[test]
fn a_shutdown_steps_down_everywhere_and_ends_the_session() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let terms = lead_each(&world, &client, 10);
    let began = world.now();
    world.run(client.shutdown());
    assert!(world.now().saturating_since(began) < secs(1));
    assert_eq!(session_count(&world), 0, "{}", world.trace());
    assert!((0..10).all(|number| holder(&world, number).is_none()));
    assert!(terms.iter().all(|it| !it.is_leader()));
}

#[test]
fn a_term_that_is_overwritten_ends_alone_and_its_key_is_given_back() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let terms = lead_each(&world, &client, 3);
    operate(
        &world,
        Method::Put,
        &format!("/v1/kv/{}?flags=7", key(1)),
        "something else",
    );
    let lost = world.run(terms[1].lost());
    assert!(matches!(lost, Lost::KeyOverwritten { .. }), "{lost:?}");
    world.advance(secs(5));
    // The foreign value stays unchanged.
    let left = found(&world, 1).expect("a key");
    assert_eq!(
        (left.session.as_str(), left.flags),
        ("", 7),
        "{}",
        world.trace()
    );
    assert_eq!(left.value, "something else");
    assert!(terms[0].is_leader() && terms[2].is_leader());
    assert!(is_alive(&world, &session_of(&terms[0])));
}

/// It shows the right session, but a later change than the second term has seen.
#[test]
fn a_poll_from_the_first_term_that_shows_the_key_overwritten_ends_the_second_without_another_read()
{
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let election = election_of(&client, 0);
    // The next poll waits for an index that is far ahead, so it outlasts the first term.
    world.inject(Rule::new(Fault::Index(1_000_000)).kind(RequestKind::KvWatch));
    let first = world.run(election.campaign()).expect("elected");
    world.advance(millis(100));
    let session = session_of(&first);
    world.run(first.resign()).expect("resigned");
    let second = world.run(election.campaign()).expect("elected");
    assert_eq!(session_of(&second), session);
    assert_eq!(world.pending_rules(), 0);
    let target = format!("/v1/kv/{}?flags=7", key(0));
    operate(&world, Method::Put, &target, "something else");
    let reads = || world.stats().requests_of(RequestKind::KvRead);
    let before = reads();
    let lost = world.run(second.lost());
    assert!(matches!(lost, Lost::KeyOverwritten { .. }), "{lost:?}");
    assert_eq!(reads(), before, "{}", world.trace());
}

#[test]
fn a_leader_whose_agent_begins_to_refuse_transactions_steps_down_when_they_are_served_again() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let terms = lead_each(&world, &client, 2);
    let session = session_of(&terms[0]);
    let rule = Rule::new(Fault::Answer(semaphore_core::sans_io::Response::new(
        405, "",
    )));
    world.inject(rule.kind(RequestKind::Txn).always());
    let refused = world.run(terms[1].resign()).expect_err("refused");
    assert!(refused.to_string().contains("/v1/txn"), "{refused}");
    assert!(!terms[1].is_leader());
    world.clear_faults();
    world.advance(secs(10));
    assert_eq!(holder(&world, 1), None, "{}", world.trace());
    assert!(terms[0].is_leader());
    world.run(terms[0].resign()).expect("resigned");
    world.advance(KEPT);
    assert!(!is_alive(&world, &session), "{}", world.trace());
}

#[test]
fn a_loop_of_short_attempts_beside_a_leader_makes_no_sessions() {
    let world = MockConsul::new(1);
    let _leads = lead(&world, &client(&world, "a"), 0);
    let b = client(&world, "b");
    let election = election_of(&b, 0);
    for _ in 0..100 {
        let outcome = world.run(election.campaign_timeout(millis(20)));
        assert!(matches!(outcome, Err(Error::Timeout { .. })), "{outcome:?}");
    }
    let made = world.stats_of("b").requests_of(RequestKind::SessionCreate);
    assert!(made <= 2, "{made} sessions");
    world.advance(KEPT);
    assert_eq!(session_count(&world), 1, "{}", world.trace());
}

/// A leader that has not applied its log says so of sessions that are there.
#[test]
fn the_session_of_one_who_waits_is_replaced_once_two_renewals_say_that_it_is_gone() {
    let world = MockConsul::new(1);
    let _term = lead(&world, &client(&world, "leader"), 0);
    let candidate = election_of(&client(&world, "waiter"), 0);
    let _campaign = world.start(async move { candidate.campaign().await });
    world.advance(secs(1));
    let unknown = || {
        let answer = Response::new(404, "Session id 'x' not found");
        let rule = Rule::new(Fault::Answer(answer)).host("waiter");
        rule.matching(renews_session)
    };
    let created = || {
        world
            .stats_of("waiter")
            .requests_of(RequestKind::SessionCreate)
    };
    world.inject(unknown());
    world.advance(secs(30));
    assert_eq!(created(), 1, "{}", world.trace());
    world.inject(unknown().times(2));
    world.advance(secs(30));
    assert_eq!(created(), 2, "{}", world.trace());
}
