//! How work with a slot ends: normally, by a loss, by a panic, at a deadline, in a forked process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt as _;
use semaphore_core::error::{Awaited, ClosedBy};
use semaphore_core::{Client, Error, Lost};
use transport_mock::{MockConsul, MockProcess};

use crate::support::election::{builder_for, elect_with};
use crate::support::forking::Forking;
use crate::support::*;

#[test]
fn what_the_work_returns_is_returned_and_the_slot_is_given_back() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let worked = world.run(semaphore.with_permit(|permit| {
        let world = &world;
        async move {
            assert!(permit.is_held());
            assert_eq!(holders(world).len(), 1);
            world.sleep(secs(100)).await;
            permit.permits()
        }
    }));
    assert_eq!(worked.expect("it was held"), 1);
    world.run(semaphore.shutdown());
    assert_nothing_left(&world);
}

#[test]
fn work_is_dropped_at_the_loss_which_is_told() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let ended_at = world.run(async {
        let permit = semaphore.acquire().await.expect("a slot");
        world.partition("a");
        let end = world.now() + permit.remaining();
        let guard = Arc::new(());
        let watched = Arc::downgrade(&guard);
        let worked = permit.run(|_permit| async move {
            std::future::pending::<()>().await;
            drop(guard);
        });
        let (worked, ()) = futures_util::future::join(worked, async {
            world.sleep(end.saturating_since(world.now())).await;
        })
        .await;
        assert!(watched.upgrade().is_none(), "the work is dropped");
        assert!(
            matches!(worked, Err(Error::Lost(Lost::LeaseExpired { .. }))),
            "{worked:?}"
        );
        end
    });
    assert_eq!(world.now(), ended_at, "it waits for no answer of Consul");
}

#[test]
fn finished_work_comes_back_at_once_though_consul_is_silent_and_a_shutdown_waits_for_the_release() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let worked = world.run(semaphore.with_permit(|_permit| {
        let world = &world;
        async move {
            world.sleep(millis(200)).await;
            world.partition("a");
            (7, world.now())
        }
    }));
    let (output, ended_at) = worked.expect("the work was done while it was held");
    assert_eq!((output, world.now()), (7, ended_at));
    let heal = world.start({
        let clock = world.clone();
        async move {
            clock.sleep(secs(5)).await;
            clock.heal("a");
        }
    });
    let shutdown = world.run(semaphore.shutdown_timeout(secs(20)));
    shutdown.expect("Consul answers again in time");
    assert!(world.now() >= ended_at + secs(5));
    assert_nothing_left(&world);
    drop(heal);
}

#[test]
fn finished_work_is_over_for_those_who_still_have_a_clone_of_the_permit() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let kept = world.run(semaphore.with_permit(|permit| async move { permit }));
    let permit = kept.expect("it was held");
    assert!(!permit.is_held());
    let next = world.run(semaphore.acquire_timeout(secs(1)));
    drop(next.expect("it was given back"));
    drop(permit);
    world.run(semaphore.shutdown());
    assert_nothing_left(&world);
}

#[test]
fn a_release_of_what_was_lost_waits_for_nothing() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let election = elect_with(builder_for("leader"), &world.client("a"));
    world.run(async {
        let permit = semaphore.acquire().await.expect("a slot");
        let leadership = election.campaign().await.expect("elected");
        world.partition("a");
        permit.lost().await;
        leadership.lost().await;
        let lost_at = world.now();
        let released = permit.release().await;
        let lost = |it: &Result<(), Error>| matches!(it, Err(Error::Lost(_)));
        assert!(lost(&released), "{released:?}");
        let resigned = leadership.resign().await;
        assert!(lost(&resigned), "{resigned:?}");
        assert_eq!(world.now(), lost_at, "no answer can come");
        world.heal("a");
        semaphore.shutdown().await;
        election.shutdown().await;
    });
    assert_eq!(session_count(&world), 0);
    assert_eq!(contender_keys(&world), [""; 0]);
}

#[test]
fn a_loop_of_terms_that_is_closed_ends_at_once_though_consul_is_silent() {
    let world = MockConsul::new(1);
    let election = elect_with(builder_for("leader"), &world.client("a"));
    world.run(async {
        let worked = election.run(|_leadership| {
            world.partition("a");
            election.close();
            async {}
        });
        let began_at = world.now();
        worked.await.expect("closed");
        assert!(world.now() <= began_at + secs(5), "as promised");
    });
    world.heal("a");
    world.run(election.shutdown());
}

#[test]
fn work_that_panics_gives_its_slot_back() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let worked = world.run(async {
        let working = semaphore.with_permit(|_permit| async { panic!("as a bug would") });
        AssertUnwindSafe(working).catch_unwind().await
    });
    assert!(worked.is_err(), "the panic goes on");
    world.advance(secs(1));
    assert_nothing_left(&world);
    let next = world.run(semaphore.try_acquire()).expect("tried");
    assert!(next.is_ok(), "{next:?}");
}

#[test]
fn a_permit_that_is_dropped_while_unwinding_is_given_back() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    let unwound = catch_unwind(AssertUnwindSafe(move || {
        let _permit = permit;
        panic!("as a bug would");
    }));
    assert!(unwound.is_err());
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn blocking_work_asks_whether_it_is_held() {
    let world = MockConsul::new(1);
    let semaphore = builder(1)
        .connect_blocking(world.client("a"))
        .expect("valid settings");
    let worked = semaphore.with_permit(|permit| {
        let signal = permit.lost_signal();
        assert!(permit.is_held() && !signal.is_lost());
        5
    });
    assert_eq!(worked.expect("it was held"), 5);
    let worked = semaphore.with_permit(|_permit| {
        world.partition("a");
        world.now()
    });
    let done_at = worked.expect("it was held");
    assert_eq!(world.now(), done_at, "it waits for no answer of Consul");
    world.heal("a");
    world.advance(secs(20));
    assert_nothing_left(&world);
    let asked = world.now();
    let worked = semaphore.with_permit(|permit| {
        world.partition("a");
        let mut steps = 0;
        while permit.is_held() {
            world.advance(secs(1));
            steps += 1;
        }
        assert!(permit.lost_signal().is_lost());
        steps
    });
    assert!(
        matches!(worked, Err(Error::Lost(Lost::LeaseExpired { .. }))),
        "{worked:?}"
    );
    assert!(
        world.now().saturating_since(asked) < secs(15),
        "it waits for no answer of Consul"
    );
    world.heal("a");
    let panics = || semaphore.with_permit(|_permit| panic!("as a bug would"));
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    world.advance(secs(60));
    assert_nothing_left(&world);
}

#[test]
fn a_signal_goes_to_spawned_work_and_keeps_nothing_held() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    world.run(async {
        let permit = semaphore.acquire().await.expect("a slot");
        let signal = permit.lost_signal();
        let spawned = world.start(signal.clone());
        assert!(!signal.is_lost());
        permit.release().await.expect("released");
        assert!(signal.is_lost());
        assert!(matches!(spawned.await, Lost::SteppedDown));
        assert!(matches!(signal.await, Lost::SteppedDown));

        let permit = semaphore.acquire().await.expect("a slot");
        let signal = permit.lost_signal();
        drop(permit);
        assert!(signal.is_lost());
        assert!(matches!(signal.await, Lost::SteppedDown));

        let permit = semaphore.acquire().await.expect("a slot");
        let signal = permit.lost_signal();
        world.partition("a");
        let end = world.now() + permit.remaining();
        let told = signal.clone().await;
        assert!(matches!(told, Lost::LeaseExpired { .. }), "{told:?}");
        assert_eq!(world.now(), end);
        assert!(signal.is_lost());
    });
}

#[test]
fn a_signal_of_a_leadership_tells_its_end() {
    let world = MockConsul::new(1);
    let election = elect_with(builder_for("leader"), &world.client("a"));
    let leadership = world.run(election.campaign()).expect("elected");
    let signal = leadership.lost_signal();
    assert!(!signal.is_lost());
    world.run(leadership.resign()).expect("resigned");
    assert!(signal.is_lost());
    assert!(matches!(world.run(signal), Lost::SteppedDown));
}

#[test]
fn a_signal_outlives_the_runtime() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    let signal = permit.lost_signal();
    drop(world);
    assert!(signal.is_lost());
    let told = signal.now_or_never();
    assert!(matches!(told, Some(Lost::RuntimeEnded { .. })), "{told:?}");
}

#[test]
fn a_release_waits_no_longer_than_it_may_and_belief_ends_at_once() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    world.run(async {
        let permit = semaphore.acquire().await.expect("a slot");
        permit.release_timeout(secs(5)).await.expect("in time");
        let permit = semaphore.acquire().await.expect("a slot");
        let signal = permit.lost_signal();
        world.partition("a");
        let start = world.now();
        let late = permit.release_timeout(secs(5)).await;
        assert_eq!(world.now().saturating_since(start), secs(5));
        let is_late = |error: &Error| {
            matches!(
                error,
                Error::Timeout {
                    within: Awaited::Release,
                    ..
                }
            )
        };
        assert!(late.as_ref().is_err_and(is_late), "{late:?}");
        assert!(signal.is_lost());
        world.heal("a");
    });
    world.advance(secs(30));
    assert_nothing_left(&world);
}

#[test]
fn a_forgotten_permit_does_not_keep_a_shutdown_for_ever() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 2);
    let client = Client::builder()
        .connect(world.client("b"))
        .expect("valid settings");
    world.run(async {
        std::mem::forget(semaphore.acquire().await.expect("a slot"));
        let of_client = client.semaphore("service/other", 1).expect("valid");
        std::mem::forget(of_client.acquire().await.expect("a slot"));
        let start = world.now();
        for late in [
            semaphore.shutdown_timeout(secs(20)).await,
            client.shutdown_timeout(secs(20)).await,
        ] {
            let error = late.expect_err("a permit is held");
            assert!(
                matches!(
                    error,
                    Error::Timeout {
                        within: Awaited::Shutdown,
                        ..
                    }
                ),
                "{error:?}"
            );
        }
        assert_eq!(world.now().saturating_since(start), secs(40));
        let closed = semaphore.acquire().await;
        assert!(matches!(closed, Err(Error::Closed { .. })), "{closed:?}");
    });
}

#[test]
fn a_shutdown_that_could_not_give_everything_back_says_so() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let client = Client::builder()
        .connect(world.client("a"))
        .expect("valid settings");
    let election = elect_with(builder_for("leader"), &world.client("a"));
    let of_client = client.semaphore("service/other", 1).expect("valid");
    let held = world.run(async {
        let permit = semaphore.acquire().await.expect("a slot");
        let of_client = of_client.acquire().await.expect("a slot");
        let leadership = election.campaign().await.expect("elected");
        (permit, of_client, leadership)
    });
    world.partition("a");
    drop(held);
    let late = [
        world.run(semaphore.shutdown_timeout(secs(100))),
        world.run(client.shutdown_timeout(secs(100))),
        world.run(election.shutdown_timeout(secs(100))),
    ];
    for late in late {
        let error = late.expect_err("something is left");
        let is_late = matches!(
            error,
            Error::Timeout {
                within: Awaited::Shutdown,
                ..
            }
        );
        assert!(is_late, "{error:?}");
    }
    world.heal("a");
    world.advance(secs(60));
    world
        .run(semaphore.shutdown_timeout(secs(20)))
        .expect("nothing is left");
    world
        .run(client.shutdown_timeout(secs(20)))
        .expect("nothing is left");
    assert_eq!(session_count(&world), 0);
}

#[test]
fn a_shutdown_in_time_leaves_nothing() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    drop(permit);
    world
        .run(semaphore.shutdown_timeout(secs(20)))
        .expect("in time");
    assert_nothing_left(&world);
}

#[test]
fn a_deadline_holds_where_nobody_runs_the_driver_and_says_so() {
    let world = MockConsul::new(1);
    let process = MockProcess::new(&world.client("a"));
    let semaphore = builder(1).connect(process.clone()).expect("valid settings");
    process.pause();
    world.run(async {
        world.sleep(secs(3)).await;
        let start = world.now();
        let late = semaphore.acquire_timeout(secs(2)).await;
        assert_eq!(world.now().saturating_since(start), secs(2));
        let error = late.expect_err("nobody runs it");
        let text = error.to_string();
        let says = "nothing was granted within 2 s: nobody ran the task that speaks to Consul for ";
        assert!(text.contains(says), "{text}");
        let Error::Timeout { unattended, .. } = error else {
            panic!("{error:?}");
        };
        assert!(unattended.is_some_and(|it| it >= secs(2)), "{unattended:?}");
    });
    process.go_on();
    let permit = world.run(semaphore.acquire_timeout(secs(2)));
    world
        .run(permit.expect("it is run again").release())
        .expect("released");
    assert_nothing_left(&world);
}

#[test]
fn in_a_process_that_was_forked_off_everything_ends_at_once_and_the_parent_keeps_what_it_has() {
    let world = MockConsul::new(1);
    let runtime = Forking::new(world.client("a"));
    let semaphore = builder(2).connect(runtime.clone()).expect("valid settings");
    let kept = world.run(semaphore.acquire()).expect("a slot");
    let dropped = world.run(semaphore.acquire()).expect("a slot");
    let requests = world.stats().total_requests();

    runtime.fork();
    let at_once = semaphore.acquire().now_or_never().expect("at once");
    let error = at_once.expect_err("it has no driver");
    assert!(
        matches!(
            error,
            Error::Closed {
                by: ClosedBy::Fork,
                ..
            }
        ),
        "{error:?}"
    );
    assert!(error.to_string().contains("forked off"), "{error}");
    assert!(semaphore.is_closed());
    let inspected = semaphore.inspect().now_or_never().expect("at once");
    assert!(inspected.is_err());
    assert!(!kept.is_held() && kept.remaining().is_zero());
    assert!(kept.lost_signal().is_lost());
    assert!(matches!(
        kept.lost().now_or_never(),
        Some(Lost::Forked { .. })
    ));
    let released = dropped.release().now_or_never().expect("at once");
    assert!(
        matches!(released, Err(Error::Lost(Lost::Forked { .. }))),
        "{released:?}"
    );
    semaphore.shutdown().now_or_never().expect("at once");
    assert_eq!(world.stats().total_requests(), requests);

    // In the parent, nothing of this has happened.
    runtime.be_the_parent();
    assert!(kept.is_held() && !semaphore.is_closed());
    world.run(kept.release()).expect("released");
}
