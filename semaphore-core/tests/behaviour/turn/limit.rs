//! Never more than the limit hold at once (invariant S1), and everybody gets in (L1).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use semaphore_core::Semaphore;
use transport_mock::{MockClient, MockConsul};

use crate::support::*;

/// Counts how many hold at the same time.
#[derive(Clone, Default)]
struct Gauge(Arc<(AtomicUsize, AtomicUsize)>);

impl Gauge {
    fn enter(&self) {
        let now = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.1.fetch_max(now, Ordering::SeqCst);
    }

    fn leave(&self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }

    fn most(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

async fn take_turns(semaphore: Semaphore, client: MockClient, gauge: Gauge, turns: usize) {
    use semaphore_core::adapter::Runtime as _;
    for _ in 0..turns {
        let permit = semaphore.acquire().await.expect("a slot");
        gauge.enter();
        client.sleep(millis(10)).await;
        assert!(permit.is_held());
        gauge.leave();
        permit.release().await.expect("released");
    }
}

#[test]
fn fifteen_hosts_share_three_slots() {
    let world = MockConsul::new(7);
    let gauge = Gauge::default();
    let tasks: Vec<_> = (0..15)
        .map(|host| {
            let client = world.client(format!("node-{host}"));
            let semaphore = connect(builder(3), &client);
            world.start(take_turns(semaphore, client, gauge.clone(), 3))
        })
        .collect();
    world.run(async {
        for task in tasks {
            task.await;
        }
    });
    world.advance(secs(60));
    assert_eq!(gauge.most(), 3);
    assert_nothing_left(&world);
    eprintln!("{:?} now {}", world.stats(), world.now());
}

#[test]
fn a_hundred_tasks_of_one_host_share_three_slots() {
    let world = MockConsul::new(7);
    let gauge = Gauge::default();
    let client = world.client("node");
    let semaphore = connect(builder(3), &client);
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let (semaphore, client) = (semaphore.clone(), client.clone());
            world.start(take_turns(semaphore, client, gauge.clone(), 1))
        })
        .collect();
    drop(semaphore);
    world.run(async {
        for task in tasks {
            task.await;
        }
    });
    eprintln!("{:?} now {}", world.stats(), world.now());
    world.advance(secs(60));
    assert_eq!(gauge.most(), 3);
    assert!(world.stats().peak_open <= 10, "{:?}", world.stats());
    assert_nothing_left(&world);
}
