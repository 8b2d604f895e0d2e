//! Many contenders for few slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use futures_util::future::join_all;
use real_agent::{Agent, Proxy};
use semaphore_core::Error;
use semaphore_core::adapter::Runtime as _;

use crate::Backend;
use crate::scene::{Scene, wait_until};

/// A participant's long poll, the most short requests that it has under way, and a few connections
/// that are on their way into a pool or out of it.
const HANDFUL: u64 = 20;

const MOMENT: Duration = Duration::from_millis(5);

/// How many hold a slot now, and the most that ever did at the same time.
#[derive(Default)]
pub struct Gauge {
    held: AtomicUsize,
    most: AtomicUsize,
}

impl Gauge {
    pub fn enter(&self) {
        let held = self.held.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(held, Ordering::SeqCst);
    }

    pub fn leave(&self) {
        self.held.fetch_sub(1, Ordering::SeqCst);
    }

    pub fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

/// The scene of seed 003: each contender is a separate host.
pub fn fifteen_contenders_share_three_slots(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let gauge = Arc::new(Gauge::default());
    let mut rng = fastrand::Rng::with_seed(3);
    let contenders: Vec<_> = (0..15)
        .map(|_| {
            let (semaphore, clock) = (scene.semaphore(3), scene.home().clone());
            let hold = Duration::from_millis(rng.u64(5..50));
            let gauge = Arc::clone(&gauge);
            scene.start(async move {
                let permit = semaphore.acquire().await?;
                gauge.enter();
                // The first ones stay until all slots are taken, so a slow machine makes no
                // difference.
                while gauge.most() < 3 {
                    clock.sleep(MOMENT).await;
                }
                clock.sleep(hold).await;
                assert!(permit.is_held());
                gauge.leave();
                permit.release().await
            })
        })
        .collect();
    for contender in contenders {
        scene.finish(contender).unwrap();
    }
    assert_eq!(gauge.most(), 3);
    scene.assert_nothing_left();
}

pub fn fifteen_threads_share_three_slots(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let gauge = Gauge::default();
    thread::scope(|threads| {
        for number in 0..15 {
            let semaphore = scene.builder(3).connect_blocking(scene.adapter()).unwrap();
            let gauge = &gauge;
            threads.spawn(move || {
                let permit = semaphore.acquire().unwrap();
                gauge.enter();
                wait_until("all slots are taken", || gauge.most() >= 3);
                thread::sleep(Duration::from_millis(5 + number));
                assert!(permit.is_held());
                gauge.leave();
                permit.release().unwrap();
            });
        }
    });
    assert_eq!(gauge.most(), 3);
    scene.assert_nothing_left();
}

pub fn a_hundred_tasks_share_a_handful_of_connections(backend: &impl Backend) {
    let agent = Agent::start().unwrap();
    let proxy = Proxy::start(agent.addr()).unwrap();
    let scene = Scene::on(backend, &agent);
    let semaphore = scene
        .builder(3)
        .connect(scene.adapter_to(&proxy.url()))
        .unwrap();
    let gauge = Gauge::default();
    scene.run(join_all((0..100).map(|_| async {
        let permit = semaphore.acquire().await.unwrap();
        gauge.enter();
        while gauge.most() < 3 {
            scene.home().sleep(MOMENT).await;
        }
        scene.home().sleep(MOMENT).await;
        assert!(permit.is_held());
        gauge.leave();
        permit.release().await.unwrap();
    })));
    assert_eq!(gauge.most(), 3);
    let traffic = proxy.traffic();
    assert!(traffic.peak <= HANDFUL, "{traffic:?}");
    drop(semaphore);
    agent.assert_nothing_left(scene.prefix());
}

pub fn a_thousand_waiting_tasks_hold_a_handful_of_connections(backend: &impl Backend) {
    let agent = Agent::start().unwrap();
    let proxy = Proxy::start(agent.addr()).unwrap();
    let scene = Scene::on(backend, &agent);
    let semaphore = scene
        .builder(1)
        .connect(scene.adapter_to(&proxy.url()))
        .unwrap();
    let permit = scene.acquire(&semaphore);
    let (came, went) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let tasks: Vec<_> = (0..1_000)
        .map(|_| {
            let semaphore = semaphore.clone();
            let (came, went) = (Arc::clone(&came), Arc::clone(&went));
            scene.start(async move {
                let acquire = semaphore.acquire();
                came.fetch_add(1, Ordering::SeqCst);
                let permit = acquire.await?;
                went.fetch_add(1, Ordering::SeqCst);
                permit.release().await
            })
        })
        .collect();
    // The holder, and the few that wait for all.
    wait_until("all have come, and some queue", || {
        came.load(Ordering::SeqCst) == 1_000 && (2..=9).contains(&scene.contenders().len())
    });
    let traffic = proxy.traffic();
    assert!(
        traffic.open <= HANDFUL && traffic.peak <= HANDFUL,
        "{traffic:?}"
    );

    scene.release(permit);
    wait_until("some had their turn", || went.load(Ordering::SeqCst) >= 20);
    semaphore.close();
    for task in tasks {
        let end = scene.finish(task);
        assert!(matches!(end, Ok(()) | Err(Error::Closed { .. })), "{end:?}");
    }
    scene.run(semaphore.shutdown());
    let traffic = proxy.traffic();
    assert!(traffic.peak <= HANDFUL, "{traffic:?}");
    agent.assert_nothing_left(scene.prefix());
}
