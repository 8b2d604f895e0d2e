//! A session that ends early, while its holder is cut off and still believes that it holds.

use std::time::Instant;

use real_agent::{Agent, Proxy};
use semaphore_core::Lost;

use crate::Backend;
use crate::contest::both;
use crate::scene::SHORT_TTL;

/// Both moments come from the clock of one process, so they can be compared.
pub fn nobody_is_admitted_while_a_holder_believes_whose_session_was_destroyed(
    backend: &impl Backend,
) {
    let agent = Agent::start().unwrap();
    let proxy = Proxy::start(agent.addr()).unwrap();
    let contended = both(backend, &agent).map(|contest| {
        let cut_off = contest.member_with_its_lock_delay(&proxy.url(), SHORT_TTL);
        let connected = contest.member_with_its_lock_delay(&agent.url(), SHORT_TTL);
        let held = contest.take(&cut_off);
        let waiting = contest.scene().start(async move {
            let held = connected.take().await;
            (held, Instant::now())
        });
        contest.wait_for_both();
        (contest, cut_off, held, waiting)
    });

    proxy.silence();
    let ended_at = Instant::now();
    let ended = contended.map(|(contest, cut_off, held, waiting)| {
        agent.client().destroy_session(&held.session()).unwrap();
        assert!(held.is_held(), "nobody could tell it");
        let losing = contest.scene().start(async move {
            let lost = held.lost().await;
            (held, lost, Instant::now())
        });
        (contest, cut_off, losing, waiting)
    });
    let admitted = ended.map(|(contest, cut_off, losing, waiting)| {
        let (first, lost, lost_at) = contest.scene().finish(losing);
        assert!(matches!(lost, Lost::LeaseExpired { .. }), "{lost:?}");
        let (second, admitted_at) = contest.scene().finish(waiting);
        let second = second.unwrap();
        assert!(lost_at < admitted_at, "two held it");
        let waited = admitted_at - ended_at;
        assert!(waited >= SHORT_TTL, "{waited:?}");
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
