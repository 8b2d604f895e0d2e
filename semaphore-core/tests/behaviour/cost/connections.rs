//! The connection that a request takes, and what happens to it if there is none.

use std::error::Error;
use std::io;
use std::time::Duration;

use futures_util::future::{join, join_all};
use semaphore_core::adapter::{Lane, is_no_room};
use semaphore_core::sans_io::{Method, Request, Response, TransportError, TransportErrorKind};
use tracing::Level;
use transport_mock::MockConsul;

use crate::cost::wire::{ROUND, Wire, poll, read, write};
use crate::support::*;
use crate::watched::log::logged;

const FIRST: Lane = Lane::Short(0);
const SECOND: Lane = Lane::Short(1);

const OLD_AGENT: &str = "limits.http_max_conns_per_client";

/// The answer of an agent of 1.9 or newer if there is one connection too many.
fn over_limit() -> Response {
    let text = "Your IP is issuing too many concurrent connections, please rate limit your calls\n";
    Response::new(429, text)
}

/// Sends the request while the first connection is open, but busy with `/v1/slow` for a second.
fn beside_a_busy_one(wire: &Wire, world: &MockConsul, request: Request) -> Outcome {
    world.run(wire.send(write("/v1/warm"))).expect("an answer");
    wire.says("/v1/slow", secs(1), Ok(Response::new(200, "")));
    let later = async {
        world.sleep(millis(1)).await;
        wire.send(request).await
    };
    world.run(join(wire.send(write("/v1/slow")), later)).1
}

type Outcome = Result<Response, TransportError>;

fn status(outcome: &Outcome) -> Result<u16, TransportErrorKind> {
    match outcome {
        Ok(response) => Ok(response.status()),
        Err(error) => Err(error.kind()),
    }
}

/// The reason for having no answer, if it is known.
fn cause(outcome: &Outcome) -> String {
    let error = outcome.as_ref().expect_err("an error");
    error.source().map(ToString::to_string).unwrap_or_default()
}

#[test]
fn a_request_that_finds_no_connection_free_waits_for_one() {
    let world = MockConsul::new(1);
    let wire = Wire::new(&world, 1);
    let (first, second) = (write("/v1/a"), write("/v1/b"));
    let (first, second) = world.run(join(wire.send(first), wire.send(second)));
    assert_eq!((status(&first), status(&second)), (Ok(200), Ok(200)));
    let sent = wire.sent("/v1/b");
    assert_eq!(sent[0].lane, FIRST);
    // Its time began before it was sent.
    assert_eq!(
        sent[0].request.timeout(),
        secs(10).checked_sub(ROUND).unwrap()
    );
    assert_eq!(wire.sent("/v1/a")[0].request.timeout(), secs(10));
}

#[test]
fn a_request_that_finds_no_connection_in_its_time_is_not_sent() {
    let world = MockConsul::new(1);
    let wire = Wire::new(&world, 1);
    wire.says("/v1/a", secs(20), Ok(Response::new(200, "")));
    let began = world.now();
    let second = async {
        let second = wire.send(write("/v1/b")).await;
        (second, world.now().saturating_since(began))
    };
    let (first, (second, took)) = world.run(join(wire.send(write("/v1/a")), second));
    assert_eq!(status(&first), Ok(200));
    assert_eq!(status(&second), Err(TransportErrorKind::NoRoom));
    // It is given up a second early: a request sent in the last second would not be answered in
    // time.
    assert_eq!(took, secs(9));
    assert!(wire.sent("/v1/b").is_empty());
}

#[test]
fn what_no_further_connection_is_opened_for_goes_by_one_that_is_open() {
    let cases = [
        (Method::Put, Ok(over_limit())),
        (Method::Get, Ok(over_limit())),
        (Method::Put, Err(TransportErrorKind::NoRoom)),
        // An agent older than 1.9. A read may be sent twice.
        (Method::Get, Err(TransportErrorKind::Unknown)),
    ];
    for (method, answer) in cases {
        let world = MockConsul::new(1);
        let wire = Wire::new(&world, 4);
        wire.says("/v1/x", ROUND, answer.clone());
        let began = world.now();
        let outcome = beside_a_busy_one(&wire, &world, Request::new(method, "/v1/x"));
        assert_eq!(status(&outcome), Ok(200), "{method} {answer:?}");
        assert_eq!(wire.lanes("/v1/x"), [SECOND, FIRST], "{method} {answer:?}");
        let took = world.now().saturating_since(began);
        assert!(took > secs(1) && took < secs(2), "{took:?}");
    }
}

#[test]
fn a_write_of_which_nobody_knows_is_not_sent_again_and_the_reason_is_told() {
    let world = MockConsul::new(1);
    let wire = Wire::new(&world, 4);
    wire.says("/v1/x", ROUND, Err(TransportErrorKind::Unknown));
    let outcome = beside_a_busy_one(&wire, &world, write("/v1/x"));
    assert_eq!(status(&outcome), Err(TransportErrorKind::Unknown));
    assert!(cause(&outcome).contains(OLD_AGENT), "{outcome:?}");
    assert_eq!(wire.lanes("/v1/x"), [SECOND]);
}

#[test]
fn what_is_not_said_of_the_connection_is_the_answer() {
    let another_limit = "rate limit exceeded, try again later or against a different server";
    let cases: [(Duration, Result<Response, TransportErrorKind>); 6] = [
        (ROUND, Ok(Response::new(429, another_limit))),
        (ROUND, Ok(Response::new(200, over_limit().body()))),
        (ROUND, Err(TransportErrorKind::NotSent)),
        (ROUND, Err(TransportErrorKind::Timeout)),
        // The failure does not come at once.
        (secs(1), Err(TransportErrorKind::Unknown)),
        (secs(3), Err(TransportErrorKind::Unknown)),
    ];
    for (after, answer) in cases {
        let world = MockConsul::new(1);
        let wire = Wire::new(&world, 4);
        wire.says("/v1/x", after, answer.clone());
        let outcome = beside_a_busy_one(&wire, &world, read("/v1/x"));
        let expected = answer.clone().map(|response| response.status());
        assert_eq!(status(&outcome), expected, "{answer:?}");
        assert_eq!(wire.lanes("/v1/x"), [SECOND], "{answer:?}");
        if outcome.is_err() {
            assert_eq!(cause(&outcome), "", "{answer:?}");
        }
        // More connections are opened at once.
        let both = [write("/v1/y"), write("/v1/y")].map(|request| wire.send(request));
        world.run(join_all(both));
        assert_eq!(wire.lanes("/v1/y"), [FIRST, SECOND], "{answer:?}");
    }
}

#[test]
fn a_connection_that_was_open_and_breaks_is_no_refusal() {
    let world = MockConsul::new(1);
    let wire = Wire::new(&world, 4);
    world.run(wire.send(write("/v1/warm"))).expect("an answer");
    wire.says("/v1/x", ROUND, Err(TransportErrorKind::Unknown));
    let outcome = world.run(wire.send(write("/v1/x")));
    assert_eq!(status(&outcome), Err(TransportErrorKind::Unknown));
    assert_eq!(cause(&outcome), "");
    assert_eq!(wire.lanes("/v1/x"), [FIRST]);
}

#[test]
fn a_connection_that_an_answer_closes_is_opened_anew() {
    for (header, is_closed) in [("Close", true), (" close ", true), ("keep-alive", false)] {
        let world = MockConsul::new(1);
        let wire = Wire::new(&world, 4);
        let answer = Response::new(200, "").with_header("connection", header);
        wire.says("/v1/warm", ROUND, Ok(answer));
        world.run(wire.send(write("/v1/warm"))).expect("an answer");
        // Only a new connection can be one too many.
        wire.says("/v1/x", ROUND, Err(TransportErrorKind::Unknown));
        let outcome = world.run(wire.send(read("/v1/x")));
        assert_eq!(cause(&outcome).contains(OLD_AGENT), is_closed, "{header}");
    }
}

#[test]
fn a_transport_without_room_warns_once_and_says_what_to_share() {
    let lines = logged(Level::WARN, || {
        let world = MockConsul::new(1);
        let wire = Wire::new(&world, 2);
        for _ in 0..5 {
            wire.says("/v1/x", ROUND, Ok(over_limit()));
            drop(world.run(wire.send(write("/v1/x"))));
            world.advance(secs(10));
        }
    });
    let told: Vec<_> = lines
        .iter()
        .filter(|line| line.contains("gives no further connection"))
        .collect();
    assert_eq!(told.len(), 1, "{lines:#?}");
    assert!(told[0].contains("share a transport"), "{told:?}");
}

#[test]
fn where_no_connection_is_open_a_refusal_is_the_answer() {
    for method in [Method::Get, Method::Put] {
        let world = MockConsul::new(1);
        let wire = Wire::new(&world, 4);
        wire.says("/v1/x", ROUND, Ok(over_limit()));
        let outcome = world.run(wire.send(Request::new(method, "/v1/x")));
        assert_eq!(status(&outcome), Ok(429));
        assert_eq!(wire.lanes("/v1/x"), [FIRST]);
    }
}

#[test]
fn where_the_time_is_over_a_refusal_is_the_answer() {
    for after in [secs(1), secs(2)] {
        let world = MockConsul::new(1);
        let wire = Wire::new(&world, 4);
        wire.says("/v1/x", after, Ok(over_limit()));
        let request = write("/v1/x").with_timeout(secs(1));
        world.run(wire.send(write("/v1/warm"))).expect("an answer");
        wire.says("/v1/slow", secs(9), Ok(Response::new(200, "")));
        let both = join(wire.send(write("/v1/slow")), wire.send(request));
        let outcome = world.run(both).1;
        assert_eq!(status(&outcome), Ok(429));
        assert_eq!(wire.lanes("/v1/x"), [SECOND]);
    }
}

#[test]
fn a_refusal_closes_the_connections_that_no_poll_needs() {
    let world = MockConsul::new(1);
    let wire = Wire::new(&world, 4);
    let polls = [poll("/v1/kv/a", 1), poll("/v1/kv/b", 60)].map(|request| wire.send(request));
    let refused = async {
        world.sleep(secs(2)).await;
        wire.says("/v1/x", ROUND, Ok(over_limit()));
        wire.send(write("/v1/x")).await
    };
    let (_, refused) = world.run(join(join_all(polls), refused));
    assert_eq!(status(&refused), Ok(429));
    assert_eq!(wire.closed(), [Lane::Poll(0)]);
}

#[test]
fn what_has_no_descriptor_or_port_has_no_room() {
    for code in [23, 24, 10024] {
        assert!(is_no_room(&io::Error::from_raw_os_error(code)), "{code}");
    }
    assert!(is_no_room(&io::ErrorKind::AddrNotAvailable.into()));
    assert!(!is_no_room(&io::ErrorKind::ConnectionRefused.into()));
    assert!(!is_no_room(&io::Error::from_raw_os_error(2)));
}
