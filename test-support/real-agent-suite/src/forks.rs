//! A child of `fork` has its parent's memory, but none of its threads.

use std::process::{Command, exit};
use std::thread;
use std::time::{Duration, Instant};

use fork::{Fork, fork, waitpid_nohang};
use futures_util::FutureExt as _;
use semaphore_core::error::ClosedBy;
use semaphore_core::{Error, Lost};

use crate::Backend;
use crate::scene::{PATIENCE, Scene, wait_until};

pub fn a_child_holds_nothing_and_is_told_so_at_once(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let semaphore = scene.semaphore(3);
    let (kept, given) = (scene.acquire(&semaphore), scene.acquire(&semaphore));
    let signal = kept.lost_signal();
    let is_fork = |error: &Error| {
        matches!(
            error,
            Error::Closed {
                by: ClosedBy::Fork,
                ..
            }
        )
    };
    in_child(|| {
        check(!kept.is_held(), "is_held")?;
        check(kept.remaining().is_zero(), "remaining")?;
        check(signal.is_lost(), "lost_signal")?;
        let lost = kept.lost().now_or_never();
        check(matches!(lost, Some(Lost::Forked { .. })), "lost")?;
        let acquired = semaphore.acquire().now_or_never();
        let error = acquired.and_then(Result::err);
        check(error.as_ref().is_some_and(is_fork), "acquire")?;
        let says = error.is_some_and(|it| it.to_string().contains("connect again after the fork"));
        check(says, "the text")?;
        let timed = semaphore.acquire_timeout(PATIENCE).now_or_never();
        check(
            timed.and_then(Result::err).as_ref().is_some_and(is_fork),
            "acquire_timeout",
        )?;
        let inspected = semaphore.inspect().now_or_never();
        check(
            inspected
                .and_then(Result::err)
                .as_ref()
                .is_some_and(is_fork),
            "inspect",
        )?;
        check(semaphore.is_closed(), "is_closed")?;
        let shut = semaphore.shutdown().now_or_never();
        check(shut.is_some(), "shutdown")?;
        let released = given.release().now_or_never();
        let is_lost = matches!(released, Some(Err(Error::Lost(Lost::Forked { .. }))));
        check(is_lost, "release")
    });
    // In the parent, nothing of this has happened. The permit that went to the child is dropped
    // here, which releases its slot.
    assert!(kept.is_held());
    wait_until("one is held", || scene.holders().len() == 1);
    scene.release(kept);
    drop(semaphore);
    scene.assert_nothing_left_soon();
}

pub fn a_thread_of_a_child_waits_for_nothing(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let semaphore = scene.builder(2).connect_blocking(scene.adapter()).unwrap();
    let kept = semaphore.acquire().unwrap();
    let given = semaphore.acquire().unwrap();
    in_child(|| {
        check(!kept.is_held(), "is_held")?;
        let acquired = semaphore.acquire();
        check(matches!(acquired, Err(Error::Closed { .. })), "acquire")?;
        let timed = semaphore.acquire_timeout(PATIENCE);
        check(
            matches!(timed, Err(Error::Closed { .. })),
            "acquire_timeout",
        )?;
        check(matches!(kept.lost(), Lost::Forked { .. }), "lost")?;
        semaphore.shutdown();
        let released = given.release();
        check(
            matches!(released, Err(Error::Lost(Lost::Forked { .. }))),
            "release",
        )
    });
    assert!(kept.is_held());
    kept.release().unwrap();
    semaphore.shutdown_timeout(PATIENCE).unwrap();
    scene.assert_nothing_left();
}

/// Runs `body` in a child process, and waits for its end. `body` returns what failed.
#[track_caller]
fn in_child(body: impl FnOnce() -> Result<(), &'static str>) {
    let pid = match fork().unwrap() {
        Fork::Parent(pid) => pid,
        Fork::Child => {
            let ended = body();
            // The child drops nothing, and does not go on as a test.
            exit(match ended {
                Ok(()) => 0,
                Err(what) => {
                    eprintln!("in the child: {what}");
                    1
                }
            })
        }
    };
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = waitpid_nohang(pid).unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            panic!("the child waits for something");
        }
        thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status, 0, "what failed in the child stands above");
}

fn check(holds: bool, what: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(what) }
}
