//! An answer of the watch shows a loss, although one of our writes is newer than the answer.

use semaphore_core::sans_io::Machine as _;

use crate::support::bench::Bench;
use crate::support::*;

#[test]
fn what_was_shown_before_the_key_was_there_is_no_loss() {
    let mut bench = Bench::new(1, 3);
    let before = bench.read();
    let holder = bench.acquire();
    bench.run_for(secs(2));
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
