//! A process that holds many slots of one semaphore has as many sessions. They are renewed one by one, and the leader is
//! asked about them together.

use std::collections::BTreeMap;

use semaphore_core::sans_io::{Request, Response};
use semaphore_core::{Client, Encoding, Permit, Semaphore};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::ENCODING;
use crate::support::spy::Spy;
use crate::support::steps::{is_transaction, operations};
use crate::support::*;

const MANY: u32 = 60;

/// The semaphore of a process with its own sessions, and one of a client.
fn semaphores(world: &MockConsul, limit: u32) -> [Semaphore; 2] {
    let client = Client::builder().value("test").encoding(ENCODING);
    let client = client.connect(world.client("b")).expect("valid options");
    let shared = client.semaphore("service/b", limit);
    [semaphore(world, "a", limit), shared.expect("valid options")]
}

fn hold_all(world: &MockConsul, semaphore: &Semaphore, permits: u32) -> Vec<Permit> {
    let waiting = (0..permits).map(|_| {
        let semaphore = semaphore.clone();
        world.start(async move { semaphore.acquire().await })
    });
    let waiting: Vec<_> = waiting.collect();
    let held = waiting.into_iter().map(|it| world.run(it));
    held.map(|permit| permit.expect("a free slot")).collect()
}

fn asks_alone(request: &Request) -> bool {
    request.target().starts_with("/v1/session/info/")
}

/// A question about many sessions.
fn asks_together(request: &Request) -> bool {
    let is_check = |it: &serde_json::Value| it["Verb"] == "check-session";
    is_transaction(request) && operations(request).iter().all(is_check)
}

#[test]
fn all_but_the_first_are_confirmed_by_a_few_questions() {
    for of_client in [false, true] {
        let world = MockConsul::new(1);
        let [own, shared] = semaphores(&world, MANY);
        let semaphore = if of_client { shared } else { own };
        let permits = hold_all(&world, &semaphore, MANY);
        world.advance(secs(5));
        let spy = Spy::on(&world);
        world.advance(secs(30));
        assert!(permits.iter().all(Permit::is_held));
        let renewals = spy.of(RequestKind::SessionRenew).len();
        let (alone, together) = (spy.count(asks_alone), spy.count(asks_together));
        let is_each_alone = ENCODING == Encoding::Requests;
        if is_each_alone {
            assert_eq!(together, 0);
            assert!(alone + 5 >= renewals, "{alone} of {renewals}");
        } else {
            // Those of the first sixteen, and ten questions a second.
            assert!(together <= 10 * 30 + 1, "{together}");
            assert!(alone <= renewals * 16 / 60 + 20, "{alone} of {renewals}");
        }
        for permit in permits {
            world.run(permit.release()).expect("released");
        }
    }
}

#[test]
fn where_transactions_are_refused_later_all_are_still_kept() {
    for (of_client, status) in [(false, 501), (true, 501), (false, 500), (true, 500)] {
        let world = MockConsul::new(1);
        let [own, shared] = semaphores(&world, MANY);
        let semaphore = if of_client { shared } else { own };
        let permits = hold_all(&world, &semaphore, MANY);
        let refused = Rule::new(Fault::Answer(Response::new(status, "no"))).always();
        world.inject(refused.optional().matching(is_transaction));
        world.advance(secs(60));
        assert!(permits.iter().all(Permit::is_held), "{status}");
        world.clear_faults();
        for permit in permits {
            world.run(permit.release()).expect("released");
        }
    }
}

#[test]
fn if_one_session_ends_its_slot_alone_is_lost() {
    for of_client in [false, true] {
        let world = MockConsul::new(1);
        let [own, shared] = semaphores(&world, MANY);
        let semaphore = if of_client { shared } else { own };
        let permits = hold_all(&world, &semaphore, MANY);
        world.advance(secs(5));
        let ended = permits[30].sequencers()[0].session.clone();
        world.consul(|consul, now| consul.destroy_session(now, ended.as_str()));
        world.advance(secs(3));
        let lost: Vec<_> = permits.iter().filter(|it| !it.is_held()).collect();
        assert_eq!(lost.len(), 1);
        assert_eq!(lost[0].sequencers()[0].session, ended);
        world.advance(secs(30));
        let held = permits.iter().filter(|it| it.is_held()).count();
        assert_eq!(held, MANY as usize - 1);
    }
}

/// Otherwise thousands of renewals a second would be more than an agent answers.
#[test]
fn beyond_the_first_hundreds_they_are_renewed_less_often() {
    for of_client in [false, true] {
        let world = MockConsul::new(1);
        let [own, shared] = semaphores(&world, 600);
        let semaphore = if of_client { shared } else { own };
        let permits = hold_all(&world, &semaphore, 600);
        world.advance(secs(5));
        let spy = Spy::on(&world);
        world.advance(secs(15));
        assert!(permits.iter().all(Permit::is_held));
        let mut of_each = BTreeMap::<_, usize>::new();
        for request in spy.of(RequestKind::SessionRenew) {
            *of_each.entry(request.target().to_owned()).or_default() += 1;
        }
        assert_eq!(of_each.len(), 600);
        let often = of_each.values().filter(|renewals| **renewals >= 10).count();
        let seldom = of_each.values().filter(|renewals| **renewals <= 4).count();
        assert_eq!((often, seldom), (500, 100));
    }
}
