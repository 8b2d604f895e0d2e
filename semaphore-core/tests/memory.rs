//! The memory of a waiting caller, including its future. The counting allocator belongs to the
//! whole process, so nothing else is tested here.

use std::alloc::System;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use semaphore_core::{Error, Permit, Semaphore};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use transport_mock::MockConsul;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const CALLERS: usize = 1000;
const MOST_BYTES: usize = 2048;

#[test]
fn a_caller_that_waits_takes_less_than_two_kibibytes() {
    let world = MockConsul::new(1);
    let semaphore = Semaphore::builder("service/db", 1)
        .connect(world.client("a"))
        .expect("valid settings");
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    // The first waiter adds a contender, which serves all later ones.
    let mut first = waiting(&semaphore);
    poll(&mut first);
    world.advance(Duration::from_secs(1));

    let kinds: [(&str, Start); 2] = [
        ("without a limit", waiting),
        ("for a limited time", waiting_for_an_hour),
    ];
    for (kind, start) in kinds {
        let mut callers = Vec::new();
        let region = Region::new(ALLOCATOR);
        callers.reserve_exact(CALLERS);
        for _ in 0..CALLERS {
            let mut caller = start(&semaphore);
            poll(&mut caller);
            callers.push(caller);
        }
        world.advance(Duration::from_millis(10));
        let change = region.change();
        let bytes = change.bytes_allocated - change.bytes_deallocated;
        let each = bytes / CALLERS;
        println!("a caller that waits {kind}: {each} bytes");
        assert!(each < MOST_BYTES, "{kind}: {each} bytes");
    }
    drop(first);
    world.run(permit.release()).expect("released");
}

type Acquire<'a> = Pin<Box<dyn Future<Output = Result<Permit, Error>> + Send + 'a>>;
type Start = fn(&Semaphore) -> Acquire<'_>;

fn waiting(semaphore: &Semaphore) -> Acquire<'_> {
    Box::pin(semaphore.acquire())
}

fn waiting_for_an_hour(semaphore: &Semaphore) -> Acquire<'_> {
    Box::pin(semaphore.acquire_timeout(Duration::from_secs(3600)))
}

fn poll(caller: &mut Acquire<'_>) {
    let mut cx = Context::from_waker(Waker::noop());
    assert!(caller.as_mut().poll(&mut cx).is_pending());
}
