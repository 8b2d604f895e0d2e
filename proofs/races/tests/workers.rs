//! The request threads of `transport-ureq` in another environment: the client's requests take steps
//! instead of using a socket.

#![cfg(semaphore_races)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod client;
mod sync;
#[path = "../../../transport-ureq/src/workers.rs"]
#[allow(clippy::disallowed_methods, dead_code, reason = "not the core's")]
mod workers;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select;
use races::check;
use semaphore_core::adapter::Lane;
use semaphore_core::sans_io::{Method, Request, TransportError};
use shuttle::future::{block_on, yield_now};
use shuttle::thread;

use client::{Agents, Running};
use workers::Workers;

fn workers(running: &Running) -> Arc<Workers> {
    let url = Arc::new("http://127.0.0.1:8500".parse().unwrap());
    Arc::new(Workers::new(url, 100, Agents::counted(running)))
}

fn request(target: &str) -> Request {
    Request::new(Method::Get, target).with_timeout(Duration::from_secs(1))
}

/// Sends one request after the other, and gets each answer.
fn ask(workers: &Workers, name: &str) -> Result<(), TransportError> {
    for number in 0..2 {
        let target = format!("/{name}/{number}");
        let answer = block_on(workers.start(Lane::Short(0), request(&target))?)?;
        assert_eq!(answer.body(), target.as_bytes());
    }
    Ok(())
}

/// Giving up a request must not shut down an agent that has moved on to another one.
#[test]
fn a_request_that_is_given_up_takes_no_other_with_it() {
    check(|| {
        let running = Running::default();
        let workers = workers(&running);
        let asking = ["a", "b"].map(|name| {
            let workers = Arc::clone(&workers);
            thread::spawn(move || ask(&workers, name))
        });
        let pending = workers.start(Lane::Short(0), request("/given-up")).unwrap();
        block_on(select(pending, Box::pin(yield_now())));
        for asking in asking {
            asking.join().unwrap().unwrap();
        }
        drop(workers);
        running.assert_none_left();
    });
}

/// A worker may be about to end when a job comes for it, and when all workers end.
#[test]
fn a_request_to_a_worker_that_is_about_to_end_is_answered() {
    check(|| {
        let running = Running::default();
        let workers = workers(&running);
        let asking = {
            let workers = Arc::clone(&workers);
            thread::spawn(move || ask(&workers, "a"))
        };
        ask(&workers, "b").unwrap();
        drop(workers);
        asking.join().unwrap().unwrap();
        running.assert_none_left();
    });
}

/// The transport may be dropped while its last request is under way.
#[test]
fn an_answer_outlives_the_transport() {
    check(|| {
        let running = Running::default();
        let workers = workers(&running);
        let pending = workers.start(Lane::Short(0), request("/last")).unwrap();
        let dropping = thread::spawn(move || drop(workers));
        assert_eq!(block_on(pending).unwrap().body(), b"/last");
        dropping.join().unwrap();
        running.assert_none_left();
    });
}
