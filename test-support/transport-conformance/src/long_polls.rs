use std::sync::mpsc;

use crate::cancellation::{Outcome, send_in_background};
use crate::server::Server;
use crate::{Backend, get, put, send_in_sequence};
use semaphore_core::adapter::MOST_CONNECTIONS;

/// How many polls get a connection: half of all, except those that are reserved for connections
/// that are being closed.
const POLLS: usize = (MOST_CONNECTIONS - MOST_CONNECTIONS / 16) / 2;

pub fn as_many_long_polls_as_there_may_be_do_not_hold_up_a_short_request<B: Backend>(backend: &B) {
    let (event, events) = mpsc::channel();
    let server = Server::start(move |connection| {
        while let Some(request) = connection.read() {
            if request.target.starts_with("/v1/kv/") {
                event.send("held").unwrap();
                connection.wait_for_close();
                return event.send("closed").unwrap();
            }
            connection.answer(200, "true");
        }
    });
    let adapter = backend.to(server.url());
    let polls: Vec<_> = (0..2 * POLLS)
        .map(|_| send_in_background(&adapter, get("/v1/kv/a/?index=7").as_long_poll()))
        .collect();
    for _ in 0..POLLS {
        assert_eq!(events.recv().unwrap(), "held");
    }
    let renewals = (0..10).map(|_| put("/v1/session/renew/x", ""));
    send_in_sequence(&adapter, renewals.collect());
    assert!(server.connections() <= POLLS + B::CONNECTIONS_OF_A_SEQUENCE);
    for (abort, outcome) in polls {
        abort.abort();
        assert_eq!(outcome.recv().unwrap(), Outcome::Dropped);
    }
    // Polls without a connection were never sent.
    for _ in 0..POLLS {
        assert_eq!(events.recv().unwrap(), "closed");
    }
    assert!(events.try_recv().is_err());
}

pub fn a_long_poll_without_a_connection_is_read_and_tells_what_is_new<B: Backend>(backend: &B) {
    let (event, events) = mpsc::channel();
    let server = Server::start(move |connection| {
        while let Some(request) = connection.read() {
            if request.target.ends_with("wait=15s") {
                event.send(request.target).unwrap();
                return connection.wait_for_close();
            }
            event.send(request.target).unwrap();
            connection.answer_with(200, "X-Consul-Index: 8\r\n", "[]");
        }
    });
    let adapter = backend.to(server.url());
    let poll = || get("/v1/kv/a/?recurse&index=7&wait=15s").as_long_poll();
    let held: Vec<_> = (0..POLLS)
        .map(|_| send_in_background(&adapter, poll()))
        .collect();
    for _ in 0..POLLS {
        assert!(events.recv().unwrap().ends_with("&wait=15s"));
    }
    let (_abort, outcome) = send_in_background(&adapter, poll());
    assert_eq!(outcome.recv().unwrap(), Outcome::Answered(200));
    let read = "/v1/kv/a/?recurse&index=7&wait=1000000ns";
    assert_eq!(events.recv().unwrap(), read);
    assert!(server.connections() <= MOST_CONNECTIONS);
    drop(held);
}
