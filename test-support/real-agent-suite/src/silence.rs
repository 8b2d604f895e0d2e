//! A network that drops everything.

use std::time::Instant;

use real_agent::{Agent, Proxy};
use semaphore_core::Lost;

use crate::Backend;
use crate::contest::both;
use crate::scene::SHORT_TTL;

/// Both moments come from the clock of one process, so they can be compared.
pub fn a_silent_partition_is_noticed_before_another_is_admitted(backend: &impl Backend) {
    let agent = Agent::start().unwrap();
    let proxy = Proxy::start(agent.addr()).unwrap();
    let contended = both(backend, &agent).map(|contest| {
        let cut_off = contest.member(&proxy.url(), SHORT_TTL);
        let connected = contest.member(&agent.url(), SHORT_TTL);
        let held = contest.take(&cut_off);
        let waiting = contest.scene().start(async move {
            let held = connected.take().await;
            (held, Instant::now())
        });
        contest.wait_for_both();
        (contest, cut_off, held, waiting)
    });

    proxy.silence();
    let noticed = contended.map(|(contest, cut_off, held, waiting)| {
        let losing = contest.scene().start(async move {
            let lost = held.lost().await;
            (held, lost, Instant::now())
        });
        (contest, cut_off, losing, waiting)
    });
    let admitted = noticed.map(|(contest, cut_off, losing, waiting)| {
        let (first, lost, lost_at) = contest.scene().finish(losing);
        assert!(matches!(lost, Lost::LeaseExpired { .. }), "{lost:?}");
        assert!(!first.is_held());
        let (second, admitted_at) = contest.scene().finish(waiting);
        let second = second.unwrap();
        assert!(lost_at < admitted_at, "two held it");
        assert!(second.token() > first.token());
        (contest, cut_off, first, second)
    });

    proxy.resume();
    for (contest, cut_off, first, second) in admitted {
        contest.give_back_late(first);
        contest.assert_held_by(&second);
        contest.give_back(second);
        contest.scene().run(cut_off.shutdown());
        contest.assert_nothing_left();
    }
    assert!(agent.client().sessions().unwrap().is_empty());
}

/// The network heals before the lease ends.
pub fn a_short_silence_costs_nothing(backend: &impl Backend) {
    let agent = Agent::start().unwrap();
    let proxy = Proxy::start(agent.addr()).unwrap();
    let holds = both(backend, &agent).map(|contest| {
        let held = contest.take(&contest.member(&proxy.url(), SHORT_TTL));
        let deadline = held.deadline();
        (contest, held, deadline)
    });
    proxy.silence();
    std::thread::sleep(SHORT_TTL / 2);
    assert!(holds.iter().all(|(_, held, _)| held.is_held()));
    proxy.resume();
    for (contest, held, deadline) in holds {
        held.wait_for_renewal(deadline);
        contest.assert_held_by(&held);
        contest.give_back(held);
        contest.assert_nothing_left();
    }
    assert!(agent.client().sessions().unwrap().is_empty());
}
