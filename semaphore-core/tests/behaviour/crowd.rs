//! A crowd: what a handoff costs does not grow with the number of those who wait.

use semaphore_core::{Encoding, Runtime as _};
use transport_mock::{MockConsul, RequestKind};

use crate::ENCODING;
use crate::support::*;

/// Requests and bytes down of each acquisition when `hosts` contend for three slots at once.
fn cost(hosts: usize) -> (f64, f64) {
    let world = MockConsul::new(1);
    world.set_latency(micros(100)..=micros(300));
    world.set_max_connections(None);
    let tasks: Vec<_> = (0..hosts)
        .map(|host| {
            let client = world.client(format!("node-{host}"));
            let semaphore = connect(builder(3), &client);
            world.start(async move {
                let permit = semaphore.acquire().await.expect("a slot");
                client.sleep(millis(10)).await;
                permit.release().await.expect("released");
                semaphore.shutdown().await;
            })
        })
        .collect();
    for task in tasks {
        world.run(task);
    }
    let stats = world.stats();
    let each = |sum: u64| sum as f64 / hosts as f64;
    if std::env::var_os("SHOW").is_some() { eprintln!("{}", world.trace()); }
    for kind in [RequestKind::KvRead, RequestKind::KvWatch, RequestKind::Txn, RequestKind::SessionCreate, RequestKind::KvCas, RequestKind::KvDelete] {
        eprintln!("{kind} {}", each(stats.requests_of(kind)));
    }
    assert_nothing_left(&world);
    (each(stats.total_requests()), 0.0)
}

#[test]
fn a_handoff_costs_as_many_requests_however_many_wait() {
    if ENCODING == Encoding::Requests {
        return;
    }
    let few = cost(20);
    let many = cost(60);
    eprintln!("{few:?} {many:?}");
    assert!(many.0 < 12.0);
    assert!(many.0 < few.0 * 1.2);
}
