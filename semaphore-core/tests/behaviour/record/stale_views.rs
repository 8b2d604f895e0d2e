//! Views that are older than what is known. They decide nothing, and nothing is lost because of
//! them.

use std::collections::BTreeMap;

use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::{CommandId, Event, Grant, Request, RequestId, Response};
use serde_json::Value;

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
    bench.run_for(secs(1));

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

/// The same keys with another index. None of the keys has a higher one.
fn indexed(view: &Response, index: u64) -> Response {
    let mut keys: Vec<BTreeMap<String, Value>> =
        serde_json::from_slice(view.body()).expect("a list of keys");
    for (name, value) in keys.iter_mut().flatten() {
        if name.ends_with("Index") {
            *value = value.as_u64().expect("an index").min(index).into();
        }
    }
    let body = serde_json::to_vec(&keys).expect("JSON");
    Response::new(view.status(), body).with_header("X-Consul-Index", index.to_string())
}

impl Scene {
    /// The kept read with this target.
    #[track_caller]
    fn take(&mut self, target: &str) -> RequestId {
        let kept = &mut self.bench.kept;
        let is_it = |(_, read): &(RequestId, Request)| read.target().ends_with(target);
        let at = kept.iter().position(is_it).expect("a read");
        kept.remove(at).0
    }

    /// An answer of the watch shows a lower index, so the participant asks the leader. Returns that
    /// request.
    fn doubt(&mut self) -> RequestId {
        self.bench.answer(self.poll, Ok(self.views[2].clone()));
        self.bench.run_for(secs(1));
        let poll = self.bench.take_kept();
        self.bench.answer(poll, Ok(indexed(&self.views[2], 5)));
        self.bench.run_for(secs(1));
        self.take("?recurse&consistent")
    }
}

// Goes with the machine that needs it: later a holder's poll shows its own key alone.
#[cfg(not(semaphore_next))]
#[test]
fn an_answer_from_before_the_indexes_went_backwards_is_no_loss_however_high_its_index_is() {
    for age in 0..2 {
        for index in [6, 1_000_000] {
            let mut scene = scene();
            let asked = scene.doubt();
            let now = indexed(&scene.views[2], 5);
            scene.bench.answer(asked, Ok(now));
            scene.bench.run_for(secs(1));
            let poll = scene.take("?recurse");
            let old = indexed(&scene.views[age], index);
            scene.bench.answer(poll, Ok(old));
            scene.assert_held();
            // The participant no longer asks the agent that lags behind.
            scene.bench.run_for(secs(1));
            let kept = &scene.bench.kept;
            let asks_leader = |(_, it): &(RequestId, Request)| it.target().contains("consistent");
            assert!(kept.iter().all(asks_leader), "{kept:?}");
            scene.bench.pass_on_kept();
            scene.bench.run_for(secs(60));
            scene.assert_held();
        }
    }
}

// Goes with the machine that needs it: later a holder's poll shows its own key alone.
#[cfg(not(semaphore_next))]
#[test]
fn what_is_doubted_while_the_leader_is_asked_is_asked_about_again() {
    for is_asked_last in [false, true] {
        let mut scene = scene();
        let mut asked = scene.doubt();
        if is_asked_last {
            let failed = Response::new(500, "No cluster leader");
            scene.bench.answer(asked, Ok(failed));
            scene.bench.run_for(secs(1));
            asked = scene.take("?recurse&consistent");
        }
        let gone = indexed(&scene.views[1], 6);
        let poll = scene.take("?recurse");
        scene.bench.answer(poll, Ok(gone.clone()));
        scene.assert_held();
        // The leader was asked before the second doubt, so its answer may be older.
        scene.bench.answer(asked, Ok(indexed(&scene.views[2], 5)));
        scene.assert_held();
        scene.bench.run_for(millis(100));
        let again = scene.take("?recurse&consistent");
        scene.bench.answer(again, Ok(gone));
        let bench = &scene.bench;
        assert!(!bench.participant.is_held(bench.now, scene.holder));
    }
}

// Goes with the machine that needs it: later a holder's poll shows its own key alone.
#[cfg(not(semaphore_next))]
#[test]
fn what_the_leader_has_settled_is_doubted_no_more() {
    let mut scene = scene();
    let asked = scene.doubt();
    let now = scene.views[2].clone();
    scene.bench.answer(asked, Ok(now));
    scene.bench.pass_on_kept();
    let before = scene.bench.sent.len();
    scene.bench.run_for(secs(60));
    scene.assert_held();
    // One poll per 15 s.
    let sent = &scene.bench.sent[before..];
    let reads = sent.iter().filter(|line| !line.contains("/v1/session/"));
    assert!(reads.count() < 10, "{sent:#?}");
}

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
    bench.run_for(secs(1));
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
