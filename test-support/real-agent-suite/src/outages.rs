//! Agents and leaders that stop, die and come back.

use std::thread;
use std::time::Duration;

use real_agent::{Agent, Cluster, SERVERS};
use semaphore_core::Lost;

use crate::Backend;
use crate::contest::{Contended, both};
use crate::scene::SHORT_TTL;

/// Longer than an agent takes to start.
const LONG_TTL: Duration = Duration::from_secs(30);

/// For each kind, one member that holds by the first agent and one that waits by the second.
fn contend<'b, B: Backend>(
    backend: &'b B,
    [one, other]: [&Agent; 2],
    ttl: Duration,
) -> [Contended<'b, B>; 2] {
    let urls = [one.url(), other.url()];
    both(backend, one).map(|contest| contest.contend([&urls[0], &urls[1]], ttl))
}

fn hand_over<B: Backend>(contended: [Contended<'_, B>; 2]) {
    contended.into_iter().for_each(Contended::hand_over);
}

pub fn an_agent_that_stops_for_less_than_the_lease_costs_nothing(backend: &impl Backend) {
    let mut agent = Agent::start().unwrap();
    let contended = contend(backend, [&agent, &agent], SHORT_TTL);
    agent.stop().unwrap();
    thread::sleep(SHORT_TTL / 2);
    assert!(contended.iter().all(|it| it.held.is_held()));
    agent.cont().unwrap();
    for Contended { contest, held, .. } in &contended {
        contest.wait_for_renewals(held);
    }
    hand_over(contended);
}

pub fn an_agent_that_stops_for_longer_than_the_lease_is_a_loss(backend: &impl Backend) {
    let mut agent = Agent::start().unwrap();
    let holds = both(backend, &agent).map(|contest| {
        let member = contest.member(&agent.url(), SHORT_TTL);
        let held = contest.take(&member);
        (contest, member, held)
    });
    agent.stop().unwrap();
    for (contest, _, held) in &holds {
        let lost = contest.scene().run(held.lost());
        assert!(matches!(lost, Lost::LeaseExpired { .. }), "{lost:?}");
        assert!(!held.is_held());
    }
    agent.cont().unwrap();
    for (contest, member, held) in holds {
        contest.give_back_late(held);
        contest.assert_nothing_left();
        let held = contest.take(&member);
        contest.give_back(held);
        contest.assert_nothing_left();
    }
    assert!(agent.client().sessions().unwrap().is_empty());
}

pub fn an_agent_that_restarts_with_its_state_costs_nothing(backend: &impl Backend) {
    let mut agent = Agent::builder().durable().start().unwrap();
    let holds = both(backend, &agent).map(|contest| {
        let held = contest.take(&contest.member(&agent.url(), LONG_TTL));
        (contest, held)
    });
    agent.restart().unwrap();
    for (contest, held) in &holds {
        contest.wait_for_renewals(held);
    }
    for (contest, held) in holds {
        contest.give_back(held);
        contest.assert_nothing_left();
    }
    assert!(agent.client().sessions().unwrap().is_empty());
}

pub fn an_agent_that_restarts_without_its_state_is_a_loss(backend: &impl Backend) {
    let mut agent = Agent::start().unwrap();
    let holds = both(backend, &agent).map(|contest| {
        let member = contest.member(&agent.url(), LONG_TTL);
        let held = contest.take(&member);
        (contest, member, held)
    });
    agent.restart().unwrap();
    for (contest, member, held) in holds {
        let lost = contest.scene().run(held.lost());
        assert!(
            matches!(
                lost,
                Lost::SessionGone { .. }
                    | Lost::RemovedFromHolders { .. }
                    | Lost::KeyDeleted { .. }
            ),
            "{lost:?}"
        );
        contest.give_back_late(held);
        let held = contest.take(&member);
        contest.give_back(held);
        contest.assert_nothing_left();
    }
    assert!(agent.client().sessions().unwrap().is_empty());
}

pub fn a_waiter_outlives_its_agents_restart(backend: &impl Backend) {
    let mut agent = Agent::builder().durable().start().unwrap();
    let contended = contend(backend, [&agent, &agent], LONG_TTL);
    agent.restart().unwrap();
    assert!(contended.iter().all(|it| it.held.is_held()));
    hand_over(contended);
    assert!(agent.client().sessions().unwrap().is_empty());
}

pub fn a_holder_keeps_what_it_has_when_consuls_leader_is_killed(backend: &impl Backend) {
    let mut cluster = Cluster::start().unwrap();
    let leader = cluster.leader().unwrap();
    let survivors = [1, 2].map(|more| cluster.server((leader + more) % SERVERS));
    let contended = contend(backend, survivors, SHORT_TTL * 3 / 2);
    cluster.kill(leader).unwrap();
    cluster.wait_for_leader().unwrap();
    for Contended { contest, held, .. } in &contended {
        contest.wait_for_renewals(held);
    }
    hand_over(contended);
}
