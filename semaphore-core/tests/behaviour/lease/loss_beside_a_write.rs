//! An answer of the watch shows a loss, although one of our writes is newer than the answer.

use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::{CommandId, Event, Grant, Method, Request, RequestId};
use semaphore_core::{Prefix, SessionId};

use crate::support::bench::Bench;
use crate::support::*;

/// A holder whose poll the test controls, and its contender key.
struct Scene {
    bench: Bench,
    holder: CommandId,
    session: SessionId,
    key: String,
    poll: RequestId,
}

fn scene() -> Scene {
    let mut bench = Bench::new(1, 3);
    let holder = bench.acquire();
    bench.run_for(secs(1));
    let session = bench.consul.sessions().next().expect("a session").id();
    let session = SessionId::new(session).expect("an id");
    let key = Prefix::new(PREFIX)
        .expect("a prefix")
        .contender_key(&session);
    let poll = bench.lose_poll();
    Scene {
        bench,
        holder,
        session,
        key,
        poll,
    }
}

impl Scene {
    fn operate(&mut self, method: Method, query: &str) {
        let target = format!("/v1/kv/{}{query}", self.key);
        self.bench
            .consul
            .submit(self.bench.now, &Request::new(method, target));
    }

    fn losses(&self) -> usize {
        let is_loss = |event: &&Event<Grant>| matches!(event, Event::Lost { command: acquire, .. } if *acquire == self.holder);
        self.bench.events.iter().filter(is_loss).count()
    }
}

// Goes with the machine that needs it: later a holder's poll shows its own key alone.
#[cfg(not(semaphore_next))]
#[test]
fn a_key_that_is_gone_before_a_claim_of_another_of_ours_is_noticed_by_the_answer_that_shows_it() {
    let release = scene().session;
    for (method, query) in [
        (Method::Delete, String::new()),
        (Method::Put, format!("?release={release}")),
    ] {
        let mut scene = scene();
        scene.operate(method, &query);
        let shown = scene.bench.read();
        let second = scene.bench.acquire();
        scene.bench.run_for(millis(1));
        assert!(scene.bench.is_granted(second));
        assert_eq!(scene.losses(), 0);
        scene.bench.answer(scene.poll, Ok(shown));
        assert_eq!(scene.losses(), 1, "{method:?} {query}");
        assert!(scene.bench.participant.is_held(scene.bench.now, second));
    }
}

#[test]
fn what_was_shown_before_the_key_was_there_is_no_loss() {
    let mut bench = Bench::new(1, 3);
    let before = bench.read();
    let holder = bench.acquire();
    bench.run_for(secs(1));
    let poll = bench.lose_poll();
    let second = bench.acquire();
    bench.run_for(millis(1));
    assert!(bench.is_granted(second));
    bench.answer(poll, Ok(before));
    for acquire in [holder, second] {
        assert!(bench.participant.is_held(bench.now, acquire));
    }
    bench.run_for(secs(60));
    assert!(bench.participant.is_held(bench.now, holder));
}
