use std::sync::mpsc;

use crate::cancellation::{Outcome, send_in_background};
use crate::server::Server;
use crate::{Backend, get, put, send_in_sequence};

pub fn fifty_open_long_polls_do_not_hold_up_a_short_request<B: Backend>(backend: &B) {
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
    let polls: Vec<_> = (0..50)
        .map(|_| send_in_background(&adapter, get("/v1/kv/a/?index=7").as_long_poll()))
        .collect();
    for _ in 0..50 {
        assert_eq!(events.recv().unwrap(), "held");
    }
    let renewals = (0..10).map(|_| put("/v1/session/renew/x", ""));
    send_in_sequence(&adapter, renewals.collect());
    assert!(server.connections() <= 50 + B::CONNECTIONS_OF_A_SEQUENCE);
    for (abort, outcome) in polls {
        abort.abort();
        assert_eq!(outcome.recv().unwrap(), Outcome::Dropped);
    }
    for _ in 0..50 {
        assert_eq!(events.recv().unwrap(), "closed");
    }
}
