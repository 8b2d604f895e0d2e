//! A dropped transport leaves no thread behind. This test has its own file, because it counts the
//! threads of the process.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::sync::mpsc;
use std::thread;

use semaphore_core::adapter::{BlockOn, Method, Request, Runtime, Transport};
use transport_conformance::server::Server;
use transport_ureq::UreqTransport;

#[test]
fn dropping_the_transport_ends_its_threads() {
    let (event, events) = mpsc::channel();
    let server = Server::start(move |connection| {
        while let Some(request) = connection.read() {
            event.send(()).unwrap();
            if request.target == "/v1/held" {
                return connection.wait_for_close();
            }
            connection.answer(200, "true");
        }
    });
    let transport = UreqTransport::new(server.url()).unwrap();
    assert_eq!(workers(), 0, "no thread before the first request");

    let quick = || Request::new(Method::Get, "/v1/quick");
    transport.block_on(Box::pin(async {
        let answers = [transport.send(quick()), transport.send(quick())];
        for answer in answers {
            answer.await.unwrap();
        }
    }));
    assert_eq!(workers(), 1, "one at a time needs one thread");

    let polling = transport.clone();
    let (abort, aborted) = mpsc::channel::<()>();
    transport
        .spawn(Box::pin(async move {
            let held = Request::new(Method::Get, "/v1/held").as_long_poll();
            let mut held = polling.send(held);
            // The request is started, and then dropped without an answer, with this clone of the
            // transport.
            let started = std::future::poll_fn(|context| {
                std::task::Poll::Ready(held.as_mut().poll(context).is_pending())
            });
            assert!(started.await);
            aborted.recv().unwrap_err();
        }))
        .unwrap();
    for _ in 0..3 {
        events.recv().unwrap();
    }
    drop(transport);
    drop(abort);
    while workers() > 0 {
        thread::yield_now();
    }
}

/// The threads of this process that carry requests.
fn workers() -> usize {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    threads
        .filter_map(|thread| fs::read_to_string(thread.unwrap().path().join("comm")).ok())
        .filter(|name| name.trim() == "consul-http")
        .count()
}
