use std::sync::mpsc::{self, Receiver};

use futures_util::future::{AbortHandle, abortable};
use semaphore_core::adapter::{Request, Runtime, Transport};

use crate::server::Server;
use crate::{Backend, get, put, send};

/// Sends the request in the background. Aborting drops its future.
pub(crate) fn send_in_background<A: Transport + Runtime + Clone + 'static>(
    adapter: &A,
    request: Request,
) -> (AbortHandle, Receiver<Outcome>) {
    let (ended, outcome) = mpsc::channel();
    let sending = adapter.clone();
    let (future, abort) = abortable(async move { sending.send(request).await });
    adapter
        .spawn(Box::pin(async move {
            let _ = ended.send(match future.await {
                Ok(Ok(answer)) => Outcome::Answered(answer.status()),
                Ok(Err(_)) => Outcome::Failed,
                Err(_) => Outcome::Dropped,
            });
        }))
        .unwrap();
    (abort, outcome)
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Answered(u16),
    Failed,
    Dropped,
}

pub fn dropping_the_future_closes_the_connection(backend: &impl Backend) {
    let (event, events) = mpsc::channel();
    let server = Server::start(move |connection| {
        let request = connection.read().unwrap();
        event.send(("arrived", request.target.clone())).unwrap();
        connection.wait_for_close();
        event.send(("closed", request.target)).unwrap();
    });
    let adapter = backend.to(server.url());
    for (target, request) in [
        ("/v1/short", put("/v1/short", "")),
        ("/v1/long", get("/v1/long").as_long_poll()),
    ] {
        let (abort, outcome) = send_in_background(&adapter, request);
        assert_eq!(events.recv().unwrap(), ("arrived", target.to_owned()));
        abort.abort();
        assert_eq!(events.recv().unwrap(), ("closed", target.to_owned()));
        assert_eq!(outcome.recv().unwrap(), Outcome::Dropped);
    }
}

pub fn dropping_one_future_leaves_the_others_alone(backend: &impl Backend) {
    let (event, events) = mpsc::channel();
    let (proceed, proceeds) = mpsc::channel();
    let proceeds = std::sync::Mutex::new(proceeds);
    let server = Server::start(move |connection| {
        let request = connection.read().unwrap();
        event.send(request.target.clone()).unwrap();
        if request.target == "/v1/kept" {
            let () = proceeds.lock().unwrap().recv().unwrap();
            connection.answer(200, "true");
        } else {
            connection.wait_for_close();
            event.send("closed".to_owned()).unwrap();
        }
    });
    let adapter = backend.to(server.url());
    let (_abort, kept) = send_in_background(&adapter, get("/v1/kept").as_long_poll());
    assert_eq!(events.recv().unwrap(), "/v1/kept");
    let (abort, dropped) = send_in_background(&adapter, get("/v1/dropped").as_long_poll());
    assert_eq!(events.recv().unwrap(), "/v1/dropped");
    abort.abort();
    assert_eq!(events.recv().unwrap(), "closed");
    assert_eq!(dropped.recv().unwrap(), Outcome::Dropped);
    proceed.send(()).unwrap();
    assert_eq!(kept.recv().unwrap(), Outcome::Answered(200));
}

pub fn the_next_request_works_after_one_was_given_up(backend: &impl Backend) {
    let (event, events) = mpsc::channel();
    let server = Server::start(move |connection| {
        while let Some(request) = connection.read() {
            if request.target == "/v1/held" {
                event.send(()).unwrap();
                return connection.wait_for_close();
            }
            connection.answer(200, "true");
        }
    });
    let adapter = backend.to(server.url());
    for _ in 0..5 {
        let (abort, outcome) = send_in_background(&adapter, get("/v1/held").as_long_poll());
        events.recv().unwrap();
        abort.abort();
        let answer = send(&adapter, get("/v1/next")).unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(outcome.recv().unwrap(), Outcome::Dropped);
    }
}

pub fn a_future_dropped_before_it_is_polled_sends_nothing(backend: &impl Backend) {
    let server = Server::start(|connection| connection.answer_all(200, "true"));
    let adapter = backend.to(server.url());
    drop(adapter.send(put("/v1/kv/never", "")));
    send(&adapter, put("/v1/kv/sent", "")).unwrap();
    assert_eq!(server.connections(), 1);
}
