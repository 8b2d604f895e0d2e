//! An outage is a client's, however many semaphores and elections it has: told once, counted once, and
//! ended once.

use std::cell::RefCell;

use semaphore_core::observe::{Metrics, Notice, Observer};
use semaphore_core::{Client, Error, Leadership, Permit, Semaphore};
use tracing::Level;
use transport_mock::{Fault, MockConsul, Rule, Task};

use super::figures::{figures, shows};
use super::log::logged;
use crate::support::onlooker::Onlooker;
use crate::support::*;

type Waiting = Task<Result<Permit, Error>>;

fn client(world: &MockConsul, observer: impl Observer + 'static) -> Client {
    let builder = Client::builder().observer(observer);
    builder.connect(world.client("a")).expect("connected")
}

/// For each of many tenants one who holds and one who waits, and some terms.
struct Service {
    client: Client,
    semaphores: Vec<Semaphore>,
    permits: Vec<Permit>,
    waiting: Vec<Waiting>,
    terms: Vec<Leadership>,
}

fn service(world: &MockConsul, client: Client) -> Service {
    let tenants = (0..20).map(|it| client.semaphore(format!("service/{it}"), 1));
    let semaphores: Vec<_> = tenants.map(|it| it.expect("connected")).collect();
    let permits = semaphores.iter().map(|it| world.run(it.acquire()));
    let permits: Vec<_> = permits.map(|it| it.expect("a free slot")).collect();
    let wait = |it: &Semaphore| {
        let semaphore = it.clone();
        world.start(async move { semaphore.acquire().await })
    };
    let waiting = semaphores.iter().map(wait).collect();
    let terms = (0..5).map(|it| {
        let election = client.election(format!("service/leader/{it}"));
        world.run(election.expect("connected").campaign())
    });
    let terms: Vec<_> = terms.map(|it| it.expect("elected")).collect();
    world.advance(secs(10));
    Service {
        client,
        semaphores,
        permits,
        waiting,
        terms,
    }
}

/// Eight seconds in which Consul has no leader, and what follows.
fn eight_seconds(world: &MockConsul, observer: impl Observer + 'static) -> Service {
    let service = service(world, client(world, observer));
    world.inject(Rule::new(Fault::no_leader()).host("a").always());
    world.advance(secs(8));
    world.clear_faults();
    world.advance(secs(20));
    service
}

#[test]
fn an_outage_of_a_client_is_two_lines_however_many_semaphores_it_has() {
    let kept = RefCell::new(None);
    let lines = logged(Level::WARN, || {
        let world = MockConsul::new(1);
        let service = eight_seconds(&world, Onlooker::default());
        *kept.borrow_mut() = Some((service, world));
    });
    let beginnings = [
        "client{address=\"mock://a\"}: semaphore_core: Consul has not served the client",
        "client{address=\"mock://a\"}: semaphore_core: Consul serves the client again",
    ];
    assert_eq!(lines.len(), beginnings.len(), "{lines:#?}");
    for (line, beginning) in lines.iter().zip(beginnings) {
        assert!(line.contains(beginning), "{lines:#?}");
    }
}

#[test]
fn an_outage_of_a_client_is_counted_once_and_ended_once() {
    let figures = figures(|world| eight_seconds(world, Metrics::new().with_names()));
    shows(&figures, "semaphore_outages_total", 1.0);
    shows(&figures, "semaphore_outage_seconds_count", 1.0);
}

#[test]
fn no_trouble_is_shown_any_more_when_turns_are_granted_after_an_outage() {
    for fault in [Fault::no_leader(), Fault::LoseRequest, Fault::Refuse] {
        let world = MockConsul::new(1);
        let mut service = service(&world, client(&world, Onlooker::default()));
        world.inject(Rule::new(fault.clone()).host("a").always());
        world.advance(secs(8));
        assert!(!service.client.status().is_connected(), "{fault:?}");
        assert!(!service.semaphores[3].status().is_connected(), "{fault:?}");
        world.clear_faults();
        service.permits.clear();
        for waiting in service.waiting {
            let granted = world.run(waiting);
            drop(granted.expect("its turn"));
        }
        world.advance(secs(1));
        let status = service.client.status();
        assert!(status.is_connected(), "{fault:?}: {:?}", status.trouble);
        for semaphore in &service.semaphores {
            assert!(semaphore.status().is_connected(), "{fault:?}");
        }
        drop(service.terms);
    }
}

#[test]
fn the_outage_of_a_semaphore_that_nobody_uses_any_more_ends() {
    let world = MockConsul::new(1);
    let onlooker = Onlooker::default();
    let client = client(&world, onlooker.clone());
    let semaphore = client.semaphore("service/db", 1).expect("connected");
    world.inject(Rule::new(Fault::Refuse).host("a").always());
    let late = world.run(semaphore.acquire_timeout(secs(3)));
    assert!(matches!(late, Err(Error::Timeout { .. })), "{late:?}");
    assert!(!semaphore.status().is_connected());
    world.clear_faults();
    world.advance(secs(3_600));
    assert!(semaphore.status().is_connected());
    let told = onlooker.take().into_iter().filter_map(|(_, it)| match it {
        Notice::Retrying { .. } => Some("retrying".to_owned()),
        Notice::Unasked { after } => Some(format!("unasked after {} s", after.as_secs())),
        Notice::Recovered { .. } => Some("recovered".to_owned()),
        _ => None,
    });
    let told: Vec<_> = told.collect();
    assert_eq!(told, ["retrying", "unasked after 2 s"]);
}

#[test]
fn a_client_shows_the_state_of_all_its_semaphores_and_elections() {
    let world = MockConsul::new(1);
    let service = service(&world, client(&world, Onlooker::default()));
    let status = service.client.status();
    assert_eq!((status.held, status.waiting), (25, 20));
    assert!(status.is_connected());
    let first = status.first_waiter.expect("some wait");
    assert!(first.waited >= secs(10), "{first:?}");
    assert!(status.renewed.expect("some hold") < secs(2));
    let isolated = Semaphore::builder("service/alone", 3).isolated();
    let isolated = isolated.connect(service.client.clone()).expect("connected");
    let more = world.run(isolated.acquire_many(3)).expect("free slots");
    assert_eq!(service.client.status().held, 28);
    drop(more);
    drop(service.permits);
    drop(service.waiting);
    drop(service.terms);
    world.advance(secs(5));
    let status = service.client.status();
    assert_eq!((status.held, status.waiting), (0, 0));
}
