//! A world that uses tokio's time, and the errors for callers that mix two clocks.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use semaphore_core::adapter::{Method, Request, Runtime as _, Transport as _};
use semaphore_core::{Error, Lost, Permit, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use transport_mock::{Fault, Faults, MockConsul, MockProcess, RequestKind, Rule};

fn semaphore(world: &MockConsul, host: &str, limit: u32) -> Semaphore {
    let builder = Semaphore::builder("service/db", limit).value(host);
    builder.connect(world.client(host)).unwrap()
}

async fn hold_for(permit: &Permit, time: Duration) -> Result<(), Lost> {
    tokio::select! {
        biased;
        lost = permit.lost() => Err(lost),
        () = sleep(time) => Ok(()),
    }
}

#[tokio::test(start_paused = true)]
async fn a_slot_is_held_and_given_back_on_tokios_time() {
    let world = MockConsul::on_tokio(7);
    let permit = semaphore(&world, "a", 1).acquire().await.unwrap();
    let began = Instant::now();
    hold_for(&permit, Duration::from_secs(3600)).await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(3600));
    assert!(permit.is_held());
    permit.release().await.unwrap();

    let other = semaphore(&world, "b", 1);
    let permit = other.acquire_timeout(Duration::from_secs(2)).await;
    assert!(permit.is_ok(), "{permit:?}");
}

#[tokio::test(start_paused = true)]
async fn a_partition_ends_a_hold_at_its_lease_and_the_session_at_two_ttls() {
    let world = MockConsul::on_tokio(7);
    let permit = semaphore(&world, "a", 1).acquire().await.unwrap();
    sleep(Duration::from_secs(60)).await;
    world.partition("a");
    let began = Instant::now();
    assert!(matches!(permit.lost().await, Lost::LeaseExpired { .. }));
    let believed = began.elapsed();
    // PROMISES: a hold survives 11.25 s of silence for certain, and up to 13.5 s. In this world its
    // answers are quick.
    assert!(
        (12.0..13.6).contains(&believed.as_secs_f64()),
        "{believed:?}"
    );

    sleep(Duration::from_secs(30)).await;
    assert_eq!(world.consul(|consul, _| consul.sessions().count()), 0);
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_that_is_given_up_takes_its_time_and_no_more() {
    let world = MockConsul::on_tokio(7);
    let _held = semaphore(&world, "a", 1).acquire().await.unwrap();
    let other = semaphore(&world, "b", 1);
    let began = Instant::now();
    assert!(
        timeout(Duration::from_secs(5), other.acquire())
            .await
            .is_err()
    );
    assert_eq!(began.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn latency_and_faults_are_of_the_same_clock() {
    let world = MockConsul::on_tokio(7);
    world.set_latency(Duration::from_millis(250)..=Duration::from_millis(250));
    let node = world.client("a");
    let write = || Request::new(Method::Put, "/v1/kv/k").with_body("v");
    let began = Instant::now();
    assert_eq!(node.send(write()).await.unwrap().status(), 200);
    assert_eq!(began.elapsed(), Duration::from_millis(500));

    world.inject(Rule::new(Fault::LoseAnswer).kind(RequestKind::KvPut));
    let began = Instant::now();
    let given = write().with_timeout(Duration::from_secs(3));
    assert!(node.send(given).await.is_err());
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    assert_eq!(world.now(), node.now());
}

#[test]
fn two_runs_of_a_seed_are_the_same_and_of_two_seeds_are_not() {
    let run = |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let world = MockConsul::on_tokio(seed);
            world.set_latency(Duration::from_micros(300)..=Duration::from_millis(40));
            world.set_faults(Faults::chaos(0.1));
            let tasks = ["a", "b", "c"].map(|host| {
                let semaphore = semaphore(&world, host, 2);
                tokio::spawn(async move {
                    for _ in 0..3 {
                        let Ok(permit) = semaphore.acquire().await else {
                            continue;
                        };
                        let _ = hold_for(&permit, Duration::from_secs(40)).await;
                    }
                })
            });
            for task in tasks {
                task.await.unwrap();
            }
            world.trace()
        })
    };
    let trace = run(7);
    assert!(trace.lines().count() > 100, "{trace}");
    assert_eq!(trace, run(7));
    assert_ne!(trace, run(8));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_killed_leaves_its_slot_to_its_session() {
    let world = MockConsul::on_tokio(7);
    // After this, no handle of the process gives anything back.
    let process = MockProcess::new(&world.client("a"));
    let builder = Semaphore::builder("service/db", 1);
    let doomed = builder.connect(process.clone()).unwrap();
    let _doomed = doomed.acquire().await.unwrap();
    process.kill();
    let began = Instant::now();
    let _permit = semaphore(&world, "b", 1).acquire().await.unwrap();
    assert!(began.elapsed() > Duration::from_secs(15));
    // PROMISES: 40 to 46 s after a crash.
    assert!(
        began.elapsed() < Duration::from_secs(50),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_world_goes_on_for_as_long_as_one_of_its_clients() {
    let semaphore = semaphore(&MockConsul::on_tokio(7), "a", 1);
    let permit = semaphore.acquire().await.unwrap();
    permit.release().await.unwrap();
}

#[tokio::test]
async fn without_paused_time_it_goes_by_the_real_clock() {
    let world = MockConsul::on_tokio(7);
    let permit = semaphore(&world, "a", 1).acquire().await.unwrap();
    permit.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_threads_may_use_it() {
    let world = MockConsul::on_tokio(7);
    let tasks = ["a", "b", "c"].map(|host| {
        let semaphore = semaphore(&world, host, 2);
        tokio::spawn(async move { semaphore.acquire().await?.release().await })
    });
    for task in tasks {
        task.await.unwrap().unwrap();
    }
}

/// The handle says that its driver is gone. The panic says why.
#[tokio::test(start_paused = true)]
async fn who_waits_for_ever_fails() {
    let world = MockConsul::on_tokio(7);
    world.set_patience(Duration::from_secs(3600));
    let _held = semaphore(&world, "a", 1).acquire().await.unwrap();
    let error = semaphore(&world, "b", 1).acquire().await.unwrap_err();
    assert!(matches!(error, Error::Closed { .. }), "{error:?}");
}

#[tokio::test]
#[should_panic(expected = "`MockConsul::on_tokio(seed)`")]
async fn a_client_of_a_world_that_tokio_does_not_move_says_so_at_once() {
    let semaphore = semaphore(&MockConsul::new(7), "a", 1);
    let _ = semaphore.acquire_timeout(Duration::from_secs(2)).await;
}

#[tokio::test]
#[should_panic(expected = "`MockConsul::on_tokio(seed)`")]
async fn a_world_of_its_own_time_does_not_run_in_a_test_on_tokio() {
    MockConsul::new(7).run(sleep(Duration::from_secs(1)));
}

#[test]
#[should_panic(expected = "`MockConsul::on_tokio(seed)`")]
fn nor_where_a_runtime_is_entered() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    MockConsul::new(7).run(sleep(Duration::from_secs(1)));
}

#[test]
#[should_panic(expected = "there is no reactor running")]
fn code_that_needs_tokio_fails_with_advice_where_there_is_none() {
    MockConsul::new(7).run(async { sleep(Duration::from_secs(1)).await });
}

#[test]
#[should_panic(expected = "outside of a tokio runtime")]
fn there_is_no_world_on_tokio_without_tokio() {
    MockConsul::on_tokio(7);
}

#[tokio::test]
#[should_panic(expected = "`MockConsul::advance` is for a world whose time is its own")]
async fn a_world_on_tokio_is_moved_by_tokio_alone() {
    MockConsul::on_tokio(7).advance(Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "did not strike")]
async fn a_fault_that_does_not_strike_is_told_here_too() {
    let world = MockConsul::on_tokio(7);
    world.inject(Rule::new(Fault::LoseAnswer));
}

#[tokio::test(start_paused = true)]
async fn whoever_moves_a_world_beside_tokio_may() {
    let world = MockConsul::new(7);
    world.set_automatic_time(false);
    let pump = tokio::spawn({
        let world = world.clone();
        async move {
            loop {
                world.advance(Duration::from_millis(10));
                sleep(Duration::from_millis(10)).await;
            }
        }
    });
    let permit = semaphore(&world, "a", 1).acquire().await.unwrap();
    permit.release().await.unwrap();
    pump.abort();
}
