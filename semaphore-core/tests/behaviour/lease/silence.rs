//! What a holder sends while nothing is answered. Each request keeps a connection until it is given up, and an agent
//! has few for one address: forty processes of one host must not take them all (invariant L4).

use std::collections::BTreeSet;

use semaphore_core::sans_io::Response;
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::support::spy::Spy;
use crate::support::*;

/// The requests of a holder over this time, and how many are under way at its end.
fn requests(text: &str) -> (usize, usize) {
    let mut sent = 0;
    let mut under_way = BTreeSet::new();
    for line in text.lines() {
        let mut words = line.split_whitespace().skip(2);
        let (Some(no), Some(sign)) = (words.next(), words.next()) else {
            continue;
        };
        match sign {
            ">" if !line.contains("index=") => {
                sent += 1;
                under_way.insert(no.to_owned());
            }
            "<" | "x" => {
                under_way.remove(no);
            }
            _ => {}
        }
    }
    (sent, under_way.len())
}

#[test]
fn few_requests_are_sent_and_fewer_are_under_way_while_nothing_is_answered() {
    // A renewal and its proof each second, as always, and more at the end.
    for (seconds, most_sent, most_left) in [(4, 9, 9), (10, 22, 8), (12, 32, 9)] {
        let world = MockConsul::new(1);
        let semaphore = semaphore(&world, "a", 1);
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        world.advance(secs(20));
        let before = world.trace().len();
        world.partition("a");
        world.advance(secs(seconds));
        world.heal("a");
        let silent = world.trace().len();
        world.advance(secs(5));
        let trace = world.trace();
        assert!(permit.is_held(), "{trace}");
        let (sent, under_way) = requests(&trace[before..silent]);
        assert!(
            sent > 1 && sent <= most_sent,
            "{sent} in {seconds} s\n{trace}"
        );
        assert!(
            under_way <= most_left,
            "{under_way} after {seconds} s\n{trace}"
        );
        let (after, _) = requests(&trace[silent..]);
        assert!(after <= 12, "{after} after {seconds} s\n{trace}");
    }
}

/// Consul says once that it does not know the session, as a new leader does that has not applied its log. Nobody of
/// this process holds, so no lease says how long an answer may take.
#[test]
fn a_waiter_whose_session_is_doubted_is_told_of_it_by_slow_answers() {
    let world = MockConsul::new(1);
    world.advance(secs(60));
    let hosts = ["a", "b"].map(|host| semaphore(&world, host, 1));
    let permit = world.run(hosts[0].acquire()).expect("a free slot");
    let waiter = hosts[1].clone();
    let waiting = world.start(async move { waiter.acquire().await });
    world.advance(secs(1));
    let spy = Spy::on_host(&world, "b");
    let unknown = Response::new(404, "Session id 'x' not found");
    let rule = Rule::new(Fault::Answer(unknown)).host("b");
    world.inject(rule.kind(RequestKind::SessionRenew).times(1));
    while spy.of(RequestKind::SessionRenew).is_empty() {
        world.advance(millis(10));
    }
    world.set_latency(millis(1_000)..=millis(1_000));
    world.advance(secs(60));
    world.run(permit.release()).expect("released");
    let next = world.run(waiting).expect("its turn");
    assert!(next.is_held());
    let created = spy.of(RequestKind::SessionCreate).len();
    assert_eq!(created, 0, "the session was given up\n{}", world.trace());
}
