//! Views that are older than what is known. They decide nothing, and nothing is lost because of
//! them.

use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::{CommandId, Event, Grant, RequestId, Response};

use crate::support::bench::{Bench, is_read};
use crate::support::steps::claims;
use crate::support::*;

/// A holder whose polls the test controls, and the prefix at three moments: before another
/// contender came and went, after that, and when the holder was admitted.
struct Scene {
    bench: Bench,
    holder: CommandId,
    poll: RequestId,
    views: [Response; 3],
}

fn scene() -> Scene {
    let mut bench = Bench::new(1, 2);
    // Somebody holds all the time, so the prefix is watched.
    bench.acquire();
    let first = bench.acquire();
    bench.run_for(secs(1));
    let long_ago = bench.read();
    bench.participant.release(bench.now, first);
    bench.run_for(secs(2));

    bench.keep(claims);
    let holder = bench.acquire();
    bench.run_for(secs(1));
    let just_before = bench.read();
    let poll = bench.lose_poll();
    bench.pass_on_kept();
    assert!(bench.is_granted(holder));
    bench.keep(is_read);
    let now = bench.read();
    Scene {
        bench,
        holder,
        poll,
        views: [long_ago, just_before, now],
    }
}

impl Scene {
    #[track_caller]
    fn assert_held(&self) {
        let bench = &self.bench;
        assert!(bench.participant.is_held(bench.now, self.holder));
        let is_loss = |event: &&Event<Grant>| matches!(event, Event::Lost { .. });
        assert_eq!(
            bench
                .events
                .iter()
                .find(is_loss)
                .map(|it| format!("{it:?}")),
            None
        );
    }
}

#[test]
fn a_poll_that_shows_again_what_was_before_the_grant_is_no_loss() {
    let Scene { views, .. } = scene();
    for view in &views[1..] {
        let mut scene = scene();
        // The poll under way, and the next one, which is sent after the grant.
        scene.bench.answer(scene.poll, Ok(views[1].clone()));
        scene.bench.run_for(secs(1));
        let next = scene.bench.take_kept();
        scene.bench.answer(next, Ok(view.clone()));
        scene.assert_held();
        scene.bench.pass_on_kept();
        scene.bench.run_for(secs(60));
        scene.assert_held();
    }
}

#[test]
fn an_older_view_after_a_newer_one_is_no_loss_before_the_leader_confirms_it() {
    for age in 0..2 {
        let mut scene = scene();
        scene.bench.answer(scene.poll, Ok(scene.views[2].clone()));
        scene.bench.pass_on_kept();
        scene.bench.run_for(secs(1));
        let poll = scene.bench.lose_poll();
        scene.bench.keep(is_read);
        scene.bench.answer(poll, Ok(scene.views[age].clone()));
        scene.assert_held();
        scene.bench.pass_on_kept();
        scene.bench.run_for(secs(60));
        scene.assert_held();
    }
}

impl Scene {}

#[test]
fn an_older_view_is_no_newer_for_an_index_that_was_too_low_meanwhile() {
    for age in 0..2 {
        let mut scene = scene();
        let now = Response::new(200, scene.views[2].body()).with_header("X-Consul-Index", "1");
        let older = scene.views[age].clone();
        scene.bench.answer(scene.poll, Ok(now.clone()));
        // If the leader is asked, it gives the same answer.
        let kept = std::mem::take(&mut scene.bench.kept);
        let (leaders, polls): (Vec<_>, Vec<_>) = kept
            .into_iter()
            .partition(|(_, request)| request.target().contains("consistent"));
        for (id, _) in leaders {
            scene.bench.answer(id, Ok(now.clone()));
        }
        for (id, _) in polls {
            scene.bench.answer(id, Ok(older.clone()));
        }
        scene.assert_held();
        scene.bench.pass_on_kept();
        scene.bench.run_for(secs(60));
        scene.assert_held();
    }
}

#[test]
fn a_try_is_not_judged_by_a_view_from_before_a_release_of_ours() {
    let mut bench = Bench::new(1, 2);
    let [first, second] = [bench.acquire(), bench.acquire()];
    bench.run_for(secs(2));
    let poll = bench.lose_poll();
    bench.keep(is_read);
    bench.participant.release(bench.now, first);
    bench.run_for(secs(1));
    let tried = bench.participant.try_acquire(bench.now, 1);
    let tried = tried.expect("accepted");
    bench.turn();
    let refused = |event: &Event<Grant>| matches!(event, Event::NotAvailable { .. });
    assert!(!bench.events.iter().any(refused));

    bench.pass_on_kept();
    let view = bench.read();
    bench.answer(poll, Ok(view));
    bench.run_for(secs(1));
    assert!(bench.participant.is_held(bench.now, tried));
    assert!(bench.participant.is_held(bench.now, second));
}
