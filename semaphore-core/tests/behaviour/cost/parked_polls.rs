//! Blocking queries without a connection: how they are answered, and when.

use std::time::Duration;

use futures_util::future::{Either, join, join_all, select};
use semaphore_core::adapter::Lane;
use semaphore_core::sans_io::{Method, Request, Response, TransportErrorKind};
use transport_mock::MockConsul;

use crate::cost::wire::{ROUND, Wire, poll, read, write};
use crate::support::*;

const POLL: Lane = Lane::Poll(0);
const SHORT: Lane = Lane::Short(0);

/// Keeps the only connection for polls busy for this long.
async fn occupy(wire: &Wire, wait: u64) {
    wire.send(poll("/v1/kv/other", wait))
        .await
        .expect("an answer");
}

#[test]
fn those_without_a_connection_read_twice_a_second_together_or_each_every_few_seconds() {
    for (parked, least) in [(1, millis(500)), (2, secs(1)), (8, secs(4)), (40, secs(4))] {
        let world = MockConsul::new(1);
        let wire = Wire::new(&world, 2);
        let began = world.now();
        let path = |no: u32| format!("/v1/kv/a{no}");
        let all = (0..parked).map(|no| {
            let (wire, world) = (&wire, &world);
            async move {
                let answer = wire.send(poll(&path(no), 60)).await.expect("an answer");
                let index = answer.header("X-Consul-Index").map(str::to_owned);
                (index, world.now().saturating_since(began))
            }
        });
        let news = async {
            world.sleep(secs(20)).await;
            wire.set_index(8);
        };
        let ((), (told, ())) = world.run(join(occupy(&wire, 60), join(join_all(all), news)));
        let most = least * 5 / 4 + ROUND * 40;
        for (index, took) in told {
            assert_eq!(index.as_deref(), Some("8"));
            assert!(took >= secs(20) && took <= secs(20) + most, "{took:?}");
        }
        for no in 0..parked {
            let sent = wire.sent(&path(no));
            for (one, next) in sent.iter().zip(&sent[1..]) {
                let between = next.at.saturating_since(one.at);
                // Once some know the news, the others look more often.
                let all_wait = next.at.saturating_since(began) < secs(20);
                assert!(between >= least || !all_wait, "{between:?} of {parked}");
                assert!(between <= most, "{between:?} of {parked}");
            }
            for one in &sent {
                assert_eq!(one.lane, SHORT);
                assert!(!one.request.is_long_poll());
                assert_eq!(one.request.wait(), Some(millis(1)));
            }
            // The first look comes at once: what the caller knows may be older than its place in
            // the queue.
            assert!(sent[0].at <= began + ROUND * 40);
        }
    }
}

#[test]
fn one_without_a_connection_is_answered_when_its_wait_is_over() {
    let world = MockConsul::new(1);
    let wire = Wire::new(&world, 2);
    let began = world.now();
    let parked = async {
        let answer = wire.send(poll("/v1/kv/a", 30)).await.expect("an answer");
        assert_eq!(answer.header("X-Consul-Index"), Some("7"));
        world.now().saturating_since(began)
    };
    let ((), took) = world.run(join(occupy(&wire, 60), parked));
    assert_eq!(took, secs(30) + ROUND);
}

#[test]
fn one_without_a_connection_is_answered_what_its_read_fails_with() {
    let world = MockConsul::new(1);
    let wire = Wire::new(&world, 2);
    wire.says(
        "/v1/kv/a",
        ROUND,
        Ok(Response::new(500, "No cluster leader")),
    );
    wire.says("/v1/kv/b", ROUND, Err(TransportErrorKind::Timeout));
    let both = [poll("/v1/kv/a", 30), poll("/v1/kv/b", 30)].map(|request| wire.send(request));
    let ((), both) = world.run(join(occupy(&wire, 60), join_all(both)));
    let kind = both[1]
        .as_ref()
        .map_err(semaphore_core::sans_io::TransportError::kind);
    assert_eq!(kind, Err(TransportErrorKind::Timeout));
    assert_eq!(both[0].as_ref().map(Response::status).ok(), Some(500));
    assert_eq!(wire.sent("/v1/kv/a").len(), 1);
}

#[test]
fn what_the_same_transport_changes_is_read_at_once() {
    let cases = [
        (write("/v1/kv/jobs/a"), 200, true),
        (
            Request::new(Method::Delete, "/v1/kv/jobs/a?cas=1"),
            200,
            true,
        ),
        (write("/v1/kv/jobs/b"), 200, false),
        (read("/v1/kv/jobs/a"), 200, false),
    ];
    for (request, status, is_told) in cases {
        let world = MockConsul::new(1);
        let wire = Wire::new(&world, 2);
        let change = async {
            world.sleep(secs(2)).await;
            wire.set_index(8);
            wire.says(
                request.target().split('?').next().expect("a path"),
                ROUND,
                Ok(Response::new(status, "true")),
            );
            wire.send(request.clone()).await.expect("an answer");
            world.now()
        };
        let parked = async {
            wire.send(poll("/v1/kv/jobs/a", 60))
                .await
                .expect("an answer");
            world.now()
        };
        let ((), (changed, told)) = world.run(join(occupy(&wire, 60), join(change, parked)));
        let took = told.saturating_since(changed);
        assert_eq!(took <= ROUND, is_told, "{request:?} {took:?}");
    }
}

#[test]
fn one_that_waits_has_the_next_connection_for_what_is_left_of_its_wait() {
    let world = MockConsul::new(1);
    let wire = Wire::new(&world, 2);
    let began = world.now();
    let parked = async {
        wire.send(poll("/v1/kv/a", 60)).await.expect("an answer");
        world.now().saturating_since(began)
    };
    let ((), took) = world.run(join(occupy(&wire, 10), parked));
    assert_eq!(took, secs(60));
    let sent = wire.sent("/v1/kv/a");
    let last = sent.last().expect("some");
    assert_eq!((last.lane, last.request.wait()), (POLL, Some(secs(50))));
    assert_eq!(last.at.saturating_since(began), secs(10));
    assert!(last.request.is_long_poll());
}

#[test]
fn one_that_finds_a_connection_is_sent_as_it_is_and_once() {
    let world = MockConsul::new(1);
    let wire = Wire::new(&world, 2);
    let request = poll("/v1/kv/a", 30);
    world.run(wire.send(request.clone())).expect("an answer");
    let sent: Vec<_> = wire
        .sent("/v1/kv/a")
        .into_iter()
        .map(|it| it.request)
        .collect();
    assert_eq!(sent, [request]);
    assert_eq!(wire.lanes("/v1/kv/a"), [POLL]);
}

#[test]
fn one_that_does_not_say_what_it_waits_for_waits_for_a_connection() {
    let unlimited = || {
        let request = Request::new(Method::Get, "/v1/event/list");
        request.with_timeout(secs(30)).as_long_poll()
    };
    for (occupied, is_sent) in [(10, true), (60, false)] {
        let world = MockConsul::new(1);
        let wire = Wire::new(&world, 2);
        let began = world.now();
        let parked = async {
            let answer = wire.send(unlimited()).await;
            (answer, world.now().saturating_since(began))
        };
        let ((), (answer, took)) = world.run(join(occupy(&wire, occupied), parked));
        let kind = answer.map(|it| it.status()).map_err(|error| error.kind());
        if is_sent {
            assert_eq!(kind, Ok(200));
            assert_eq!(took, secs(10) + ROUND);
            assert_eq!(wire.lanes("/v1/event/list"), [POLL]);
        } else {
            assert_eq!(kind, Err(TransportErrorKind::NoRoom));
            assert_eq!(took, secs(30));
        }
    }
}

/// The agent still counts its connection.
#[test]
fn one_that_is_given_up_keeps_its_connection_until_its_wait_is_over() {
    let world = MockConsul::new(1);
    let wire = Wire::new(&world, 2);
    let began = world.now();
    let given_up = async {
        let sent = Box::pin(wire.send(poll("/v1/kv/other", 20)));
        match select(sent, Box::pin(world.sleep(secs(5)))).await {
            Either::Left(_) => panic!("an answer"),
            Either::Right(_) => {}
        }
    };
    world
        .run(join(given_up, wire.send(poll("/v1/kv/a", 60))))
        .1
        .expect("an answer");
    let sent = wire.sent("/v1/kv/a");
    let last = sent.last().expect("some");
    assert_eq!(last.lane, POLL);
    let after = last.at.saturating_since(began);
    // The server adds up to a sixteenth to the wait, and its clock may be slower. The poll in the
    // queue then looks separately.
    let over = millis(23_906);
    assert!(after >= over && after <= over + secs(5), "{after:?}");
}

#[test]
fn one_that_is_refused_a_connection_reads_until_one_is_opened_again() {
    let world = MockConsul::new(1);
    let wire = Wire::new(&world, 2);
    world.run(wire.send(write("/v1/warm"))).expect("an answer");
    let text = "Your IP is issuing too many concurrent connections";
    wire.says("/v1/kv/a", ROUND, Ok(Response::new(429, text)));
    let began = world.now();
    world
        .run(wire.send(poll("/v1/kv/a", 60)))
        .expect("an answer");
    let took = world.now().saturating_since(began);
    assert!(took >= secs(60) && took <= secs(61), "{took:?}");
    let lanes = wire.lanes("/v1/kv/a");
    assert_eq!((lanes[0], lanes[1]), (POLL, SHORT));
    assert_eq!(lanes.last(), Some(&POLL));
    assert!(lanes.len() <= 8, "it reads twice a second: {lanes:?}");
    let until: Duration = wire
        .sent("/v1/kv/a")
        .last()
        .expect("some")
        .at
        .saturating_since(began);
    assert!(until >= secs(2) && until <= secs(4), "{until:?}");
}

#[test]
fn half_of_the_connections_are_for_polls_and_some_for_those_being_closed() {
    let world = MockConsul::new(1);
    let wire = Wire::new(&world, 64);
    let polls = (0..40).map(|_| wire.send(poll("/v1/kv/a", 1)));
    world.run(join_all(polls));
    let mut lanes = wire.lanes("/v1/kv/a");
    lanes.retain(|lane| matches!(lane, Lane::Poll(_)));
    lanes.sort();
    lanes.dedup();
    assert_eq!(lanes, (0..30).map(Lane::Poll).collect::<Vec<_>>());
}
