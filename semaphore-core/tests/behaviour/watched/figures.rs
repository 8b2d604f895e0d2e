//! The metrics that the `metrics` facade receives.

use std::collections::BTreeMap;

use metrics_exporter_prometheus::PrometheusBuilder;
use semaphore_core::Semaphore;
use semaphore_core::observe::Metrics;
use semaphore_core::sans_io::Response;
use transport_mock::{Fault, MockConsul, Rule};

use crate::support::*;

/// The metrics after a scene, by name and labels as Prometheus shows them. The scene's result still
/// exists then.
pub(super) fn figures<T>(scene: impl FnOnce(&MockConsul) -> T) -> BTreeMap<String, f64> {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let text = metrics::with_local_recorder(&recorder, || {
        let world = MockConsul::new(1);
        let _kept = scene(&world);
        handle.render()
    });
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let figures = lines.filter_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    });
    figures.collect()
}

fn counted(world: &MockConsul, host: &str, limit: u32) -> Semaphore {
    let builder = builder(limit).observer(Metrics::new());
    builder.connect(world.client(host)).expect("connected")
}

#[track_caller]
pub(super) fn shows(figures: &BTreeMap<String, f64>, name: &str, expected: f64) {
    let value = figures.get(name).copied();
    let is_near = value.is_some_and(|value| (value - expected).abs() < 0.01);
    assert!(is_near, "{name} is {value:?}: {figures:#?}");
}

#[test]
fn who_holds_and_who_waits_is_counted() {
    let figures = figures(|world| {
        let semaphore = counted(world, "a", 3);
        let permits = world.run(semaphore.acquire_many(3)).expect("free slots");
        let waiting = {
            let semaphore = semaphore.clone();
            world.start(async move { semaphore.acquire().await })
        };
        world.advance(secs(4));
        drop(permits);
        let next = world.run(waiting).expect("its turn");
        let more = {
            let semaphore = semaphore.clone();
            world.start(async move { semaphore.acquire_many(3).await })
        };
        world.advance(secs(1));
        assert!(world.run(semaphore.try_acquire()).expect("asked").is_err());
        (next, more)
    });
    shows(&figures, "semaphore_held", 1.0);
    shows(&figures, "semaphore_waiting", 1.0);
    shows(&figures, "semaphore_hold_seconds_count", 1.0);
    shows(&figures, "semaphore_hold_seconds_sum", 4.0);
    shows(
        &figures,
        "semaphore_wait_seconds_count{outcome=\"granted\"}",
        2.0,
    );
    shows(&figures, "semaphore_not_available_total", 1.0);
    assert!(
        figures.contains_key("semaphore_requests_total{kind=\"session_create\",status=\"200\"}")
    );
}

#[test]
fn whatever_way_it_ends_nobody_is_counted_as_waiting_or_holding_afterwards() {
    let figures = figures(|world| {
        let semaphore = counted(world, "a", 1);
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        let behind = world.run(semaphore.acquire_timeout(secs(2)));
        assert!(behind.is_err());
        let waiting = {
            let semaphore = semaphore.clone();
            world.start(async move { semaphore.acquire().await })
        };
        world.advance(secs(1));
        waiting.abort();
        world.advance(secs(1));
        assert!(world.run(semaphore.try_acquire()).expect("asked").is_err());
        let other = counted(world, "b", 1);
        assert!(world.run(other.try_acquire()).expect("asked").is_err());
        world.partition("a");
        world.advance(secs(60));
        world.heal("a");
        world.advance(secs(30));
        drop(permit);
        world.run(semaphore.shutdown());
    });
    shows(&figures, "semaphore_held", 0.0);
    shows(&figures, "semaphore_waiting", 0.0);
    shows(
        &figures,
        "semaphore_lost_total{reason=\"lease-expired\"}",
        1.0,
    );
    shows(&figures, "semaphore_outages_total", 1.0);
    shows(&figures, "semaphore_outage_seconds_count", 1.0);
    shows(&figures, "semaphore_not_available_total", 2.0);
}

#[test]
fn why_an_acquisition_ended_is_told_apart_and_every_counter_exists_from_zero() {
    let figures = figures(|world| {
        let semaphore = counted(world, "a", 1);
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        assert!(world.run(semaphore.acquire_timeout(secs(2))).is_err());
        let other = counted(world, "b", 3);
        assert!(world.run(other.acquire()).is_err(), "another limit");
        let denied = Response::new(403, "Permission denied");
        world.inject(Rule::new(Fault::Answer(denied)).host("c").always());
        let refused = counted(world, "c", 1);
        assert!(world.run(refused.acquire()).is_err());
        permit
    });
    let of = |outcome: &str| format!("semaphore_acquisitions_total{{outcome=\"{outcome}\"}}");
    for outcome in ["granted", "timed_out", "conflict", "refused"] {
        shows(&figures, &of(outcome), 1.0);
    }
    for outcome in ["not_available", "failed", "given_up"] {
        shows(&figures, &of(outcome), 0.0);
    }
    for name in [
        "semaphore_lost_total{reason=\"lease-expired\"}",
        "semaphore_lost_total{reason=\"evicted\"}",
        "semaphore_not_available_total",
        "semaphore_outages_total",
        "semaphore_pruned_total",
    ] {
        shows(&figures, name, 0.0);
    }
}

#[test]
fn how_much_is_left_of_a_lease_shows_how_near_a_loss_was() {
    let left = |outage: u64| {
        let figures = figures(|world| {
            let semaphore = counted(world, "a", 1);
            let permit = world.run(semaphore.acquire()).expect("a free slot");
            world.advance(secs(20));
            if outage > 0 {
                world.inject(Rule::new(Fault::no_leader()).host("a").always());
                world.advance(secs(outage));
                world.clear_faults();
            }
            world.advance(secs(10));
            assert!(permit.is_held());
        });
        figures["semaphore_lease_left_seconds{quantile=\"0\"}"]
    };
    assert!(left(0) > 12.0);
    assert!(left(8) < 6.0);
}

#[test]
fn the_label_of_the_name_is_there_if_it_is_asked_for() {
    let figures = figures(|world| {
        let builder = builder(1).observer(Metrics::new().with_names());
        let semaphore = builder.connect(world.client("a")).expect("connected");
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        drop(permit);
        world.advance(secs(1));
    });
    shows(
        &figures,
        "semaphore_hold_seconds_count{name=\"service/db\"}",
        1.0,
    );
}
