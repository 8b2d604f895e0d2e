//! Operations that can't run say so: the tokio runtime has ended, lacks something, or is driven by
//! nobody.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::future::Future;
use std::sync::{Arc, LazyLock, mpsc};
use std::time::{Duration, Instant};

use semaphore_core::adapter::Runtime as _;
use semaphore_core::error::ClosedBy;
use tokio::runtime::{Builder, Runtime};
use transport_mock::LoopbackConsul;
use transport_reqwest::{Client, Election, Error, Lost, ReqwestTransport, Semaphore, blocking};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn transport(runtime: &Runtime, consul: &LoopbackConsul) -> ReqwestTransport {
    let _inside = runtime.enter();
    ReqwestTransport::new(consul.url()).unwrap()
}

#[test]
fn a_handle_in_a_static_says_that_the_runtime_of_the_first_test_has_ended() {
    static CONSUL: LazyLock<LoopbackConsul> = LazyLock::new(|| LoopbackConsul::start().unwrap());
    static SEMAPHORE: LazyLock<Semaphore> = LazyLock::new(|| {
        let transport = ReqwestTransport::new(CONSUL.url()).unwrap();
        Semaphore::builder("service/db", 1)
            .connect(transport)
            .unwrap()
    });
    // As `#[tokio::test]` does: each test has its own runtime.
    runtime().block_on(async {
        let permit = SEMAPHORE.acquire().await.unwrap();
        permit.release().await.unwrap();
    });
    runtime().block_on(async {
        let error = SEMAPHORE.acquire().await.unwrap_err();
        let is_told = matches!(
            error,
            Error::Closed {
                by: ClosedBy::RuntimeEnded,
                ..
            }
        );
        assert!(is_told, "{error:?}");
        let text = error.to_string();
        let address = CONSUL.url();
        let begin = format!(
            "semaphore \"service/db\" at {address}: the handle is closed, since the runtime "
        );
        assert!(text.starts_with(&begin), "{text}");
        assert!(text.contains("connect one on this runtime"), "{text}");
    });
}

#[test]
fn all_handles_say_the_same_after_the_end_and_none_panics() {
    let consul = LoopbackConsul::start().unwrap();
    let first = runtime();
    let semaphore = Semaphore::builder("service/db", 1)
        .connect(transport(&first, &consul))
        .unwrap();
    let (permit, mut follower) = first.block_on(async {
        let permit = semaphore.acquire().await.unwrap();
        let follower = transport_reqwest::Discovery::builder("leader")
            .connect(ReqwestTransport::new(consul.url()).unwrap())
            .unwrap()
            .follow();
        (permit, follower)
    });
    drop(first);
    assert!(!permit.is_held() && permit.remaining().is_zero());
    let has_ended = |error: &Error| {
        matches!(
            error,
            Error::Closed {
                by: ClosedBy::RuntimeEnded,
                ..
            }
        )
    };
    let all = async {
        assert!(matches!(permit.lost().await, Lost::RuntimeEnded { .. }));
        let released = permit.release().await;
        assert!(
            matches!(released, Err(Error::Lost(Lost::RuntimeEnded { .. }))),
            "{released:?}"
        );
        for error in [
            semaphore.inspect().await.map(drop),
            semaphore.destroy().await,
            semaphore.resize(2).await,
            semaphore
                .acquire_timeout(Duration::from_secs(60))
                .await
                .map(drop),
            semaphore.try_acquire().await.map(drop),
        ] {
            let error = error.unwrap_err();
            assert!(has_ended(&error), "{error:?}");
        }
        let last = follower.next().await.unwrap();
        assert!(last.as_ref().is_err_and(has_ended), "{last:?}");
        assert!(follower.next().await.is_none());
        semaphore.shutdown().await;
    };
    // On another runtime, and on none.
    runtime().block_on(all);
    assert!(semaphore.is_closed());
    let error = pollster::block_on(semaphore.inspect()).unwrap_err();
    assert!(has_ended(&error), "{error:?}");
}

#[test]
fn a_loop_on_another_runtime_ends_with_the_runtime_of_its_election() {
    let consul = LoopbackConsul::start().unwrap();
    for is_of_a_client in [true, false] {
        let first = runtime();
        let transport = transport(&first, &consul);
        let election = if is_of_a_client {
            let client = Client::builder().connect(transport).unwrap();
            client.election("leader").unwrap()
        } else {
            Election::builder("leader").connect(transport).unwrap()
        };
        let (polled, is_polled) = mpsc::channel();
        let (done, is_done) = mpsc::channel();
        // It is not joined: a future that never returns from one poll would stop this test, too.
        std::thread::spawn(move || {
            let terms = election.terms().hold_back(Duration::from_secs(3));
            let mut running = Box::pin(terms.run(|_| std::future::pending()));
            let told = std::future::poll_fn(move |context| {
                let run = running.as_mut().poll(context);
                let _ = polled.send(());
                run
            });
            let _ = done.send(runtime().block_on(told));
        });
        is_polled.recv().unwrap();
        drop(first);
        let ended = is_done.recv_timeout(Duration::from_secs(60));
        ended.expect("it ends").unwrap();
    }
}

#[test]
fn what_is_under_way_at_the_end_is_told_so() {
    let consul = LoopbackConsul::start().unwrap();
    let first = runtime();
    let one = transport(&first, &consul);
    let semaphore = Semaphore::builder("service/db", 1).connect(one).unwrap();
    let permit = first.block_on(semaphore.acquire()).unwrap();
    let waiting = semaphore.clone();
    let (polled, is_polled) = std::sync::mpsc::channel();
    let waiter = std::thread::spawn(move || {
        let mut acquiring = Box::pin(waiting.acquire());
        let told = std::future::poll_fn(move |context| {
            let acquired = acquiring.as_mut().poll(context);
            let _ = polled.send(());
            acquired
        });
        pollster::block_on(told).map(drop)
    });
    is_polled.recv().unwrap();
    drop(first);
    let error = waiter.join().unwrap().unwrap_err();
    assert!(matches!(error, Error::Closed { .. }), "{error:?}");
    drop(permit);
}

#[test]
fn connecting_on_a_runtime_that_can_do_nothing_is_refused_at_once() {
    let consul = LoopbackConsul::start().unwrap();
    let connect = |transport: ReqwestTransport| {
        let connected = Semaphore::builder("service/db", 1).connect(transport);
        let error = connected.expect_err("it can't run");
        assert!(matches!(error, Error::NoTask { .. }), "{error:?}");
        let text = error.to_string();
        let begin = format!("semaphore \"service/db\" at {}: ", consul.url());
        assert!(text.starts_with(&begin), "{text}");
        text
    };
    let ended = runtime();
    let of_ended = transport(&ended, &consul);
    drop(ended);
    let text = connect(of_ended);
    assert!(text.contains("the tokio runtime has ended"), "{text}");

    let bare = Builder::new_current_thread().enable_io().build().unwrap();
    let text = connect(transport(&bare, &consul));
    assert!(
        text.contains("has no timers: build it with `enable_all`"),
        "{text}"
    );

    let bare = Builder::new_current_thread().enable_time().build().unwrap();
    let text = connect(transport(&bare, &consul));
    assert!(
        text.contains("has no I/O: build it with `enable_all`"),
        "{text}"
    );
}

#[test]
fn a_deadline_of_a_thread_holds_on_a_runtime_that_nobody_drives() {
    let consul = LoopbackConsul::start().unwrap();
    let idle = runtime();
    let one = transport(&idle, &consul);
    let semaphore = blocking::Semaphore::builder("service/db", 1)
        .connect(one)
        .unwrap();
    let timeout = Duration::from_millis(1_500);
    let start = Instant::now();
    let error = semaphore.acquire_timeout(timeout).unwrap_err();
    assert!(start.elapsed() >= timeout);
    let text = error.to_string();
    assert!(
        text.contains("nobody ran the task that speaks to Consul for 1.5 s"),
        "{text}"
    );
    assert!(text.contains("driven by nobody"), "{text}");
}

#[test]
fn a_deadline_of_a_task_holds_where_another_runtime_stands_still() {
    let consul = LoopbackConsul::start().unwrap();
    let idle = runtime();
    let semaphore = Semaphore::builder("service/db", 1)
        .connect(transport(&idle, &consul))
        .unwrap();
    let error = runtime()
        .block_on(semaphore.acquire_timeout(Duration::from_millis(1_500)))
        .unwrap_err();
    assert!(matches!(
        error,
        Error::Timeout {
            unattended: Some(_),
            ..
        }
    ));
}

#[test]
fn a_blocking_handle_within_a_task_says_so() {
    let consul = LoopbackConsul::start().unwrap();
    let here = runtime();
    let one = transport(&here, &consul);
    let semaphore = Arc::new(
        blocking::Semaphore::builder("service/db", 1)
            .connect(one)
            .unwrap(),
    );
    for timeout in [None, Some(Duration::from_secs(1))] {
        let semaphore = Arc::clone(&semaphore);
        let blocks = here.spawn(async move {
            match timeout {
                None => semaphore.acquire().map(drop),
                Some(timeout) => semaphore.acquire_timeout(timeout).map(drop),
            }
        });
        let panicked = here.block_on(blocks).unwrap_err().into_panic();
        let text = panicked.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panicked.downcast_ref::<&str>().map(|it| (*it).to_owned()));
        let text = text.unwrap();
        assert!(text.contains("within a runtime"), "{text}");
    }
}

#[test]
fn a_sleep_ends_with_its_runtime() {
    let consul = LoopbackConsul::start().unwrap();
    let ended = runtime();
    let one = transport(&ended, &consul);
    assert_eq!(one.ended(), None);
    drop(ended);
    assert_eq!(one.ended(), Some(ClosedBy::RuntimeEnded));
    pollster::block_on(one.sleep(Duration::from_secs(3600)));
}

#[cfg(feature = "cancellation-token")]
#[test]
fn a_token_is_cancelled_with_the_permit_and_with_the_runtime() {
    let consul = LoopbackConsul::start().unwrap();
    let here = runtime();
    let one = transport(&here, &consul);
    let semaphore = Semaphore::builder("service/db", 1)
        .connect(one.clone())
        .unwrap();
    let (token, permit) = here.block_on(async {
        let permit = semaphore.acquire().await.unwrap();
        let token = one.cancellation_token(permit.lost_signal());
        assert!(!token.is_cancelled());
        permit.release().await.unwrap();
        token.cancelled().await;
        let permit = semaphore.acquire().await.unwrap();
        (one.cancellation_token(permit.lost_signal()), permit)
    });
    assert!(!token.is_cancelled());
    drop(here);
    assert!(token.is_cancelled());
    drop(permit);
}
