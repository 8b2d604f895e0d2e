//! Everything that waits for leases to end, all at once. Consul takes twenty seconds to expire a
//! session with the shortest TTL.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use std::{env, thread};

use real_agent::{Agent, Client};
use semaphore_core::{Error, Lost, Semaphore};

use crate::scene::{SHORT_TTL, Scene, run_on, wait_until};
use crate::wrappers::Mortal;
use crate::{Backend, Options, early_ends, outages, silence};

/// The address and prefix with which a process that will be killed holds a slot.
const VICTIM: &str = "REAL_AGENT_SUITE_VICTIM";

/// `name` is the name of the test, which the process to be killed runs again.
pub fn what_outlasts_a_lease<B: Backend>(backend: &B, name: &str) {
    if let Ok(place) = env::var(VICTIM) {
        hold_for_ever(backend, &place);
    }
    let scenes: [(&str, &(dyn Fn() + Sync)); _] = [
        ("the slot of a killed process is given to another", &|| {
            the_slot_of_a_killed_process_is_given_to_another(backend, name);
        }),
        (
            "a runtime that ends is a loss, and the TTL cleans up",
            &|| {
                a_runtime_that_ends_is_a_loss_and_the_ttl_cleans_up(backend);
            },
        ),
        (
            "a silent partition is noticed before another is admitted",
            &|| {
                silence::a_silent_partition_is_noticed_before_another_is_admitted(backend);
            },
        ),
        (
            "nobody is admitted while a holder believes whose session was destroyed",
            &|| {
                early_ends::nobody_is_admitted_while_a_holder_believes_whose_session_was_destroyed(
                    backend,
                );
            },
        ),
        ("a short silence costs nothing", &|| {
            silence::a_short_silence_costs_nothing(backend);
        }),
        (
            "an agent that stops for less than the lease costs nothing",
            &|| {
                outages::an_agent_that_stops_for_less_than_the_lease_costs_nothing(backend);
            },
        ),
        (
            "an agent that stops for longer than the lease is a loss",
            &|| {
                outages::an_agent_that_stops_for_longer_than_the_lease_is_a_loss(backend);
            },
        ),
        (
            "an agent that restarts with its state costs nothing",
            &|| {
                outages::an_agent_that_restarts_with_its_state_costs_nothing(backend);
            },
        ),
        (
            "an agent that restarts without its state is a loss",
            &|| {
                outages::an_agent_that_restarts_without_its_state_is_a_loss(backend);
            },
        ),
        ("a waiter outlives its agent's restart", &|| {
            outages::a_waiter_outlives_its_agents_restart(backend);
        }),
        (
            "a holder keeps what it has when Consul's leader is killed",
            &|| {
                outages::a_holder_keeps_what_it_has_when_consuls_leader_is_killed(backend);
            },
        ),
    ];
    let failed: Vec<_> = thread::scope(|threads| {
        let running = scenes.map(|(name, scene)| {
            let thread = thread::Builder::new().name(name.to_owned());
            (name, thread.spawn_scoped(threads, scene).unwrap())
        });
        let ended = running
            .into_iter()
            .map(|(name, thread)| (name, thread.join()));
        ended
            .filter_map(|(name, end)| end.is_err().then_some(name))
            .collect()
    });
    assert!(failed.is_empty(), "failed: {failed:?}");
}

fn the_slot_of_a_killed_process_is_given_to_another(backend: &impl Backend, name: &str) {
    let agent = Agent::start().unwrap();
    let scene = Scene::on(backend, &agent);
    let mut victim = Victim::start(name, &scene);
    wait_until("the victim holds", || scene.holders().len() == 1);
    let other = scene.connect(scene.builder(1).ttl(SHORT_TTL));
    assert!(scene.run(other.try_acquire()).unwrap().is_err());
    victim.kill();
    let permit = scene.run(other.acquire()).unwrap();
    assert_eq!(scene.holders().len(), 1);
    scene.release(permit);
    agent.assert_nothing_left(scene.prefix());
}

fn a_runtime_that_ends_is_a_loss_and_the_ttl_cleans_up(backend: &impl Backend) {
    let agent = Agent::start().unwrap();
    let scene = Scene::on(backend, &agent);
    let adapter = scene.adapter();
    let runtime = Mortal::new(adapter.clone());
    let builder = scene.builder(1).ttl(SHORT_TTL);
    let semaphore = builder
        .connect_parts(Arc::new(adapter), Arc::new(runtime.clone()))
        .unwrap();
    let permit = scene.acquire(&semaphore);
    let waiting = scene.start_acquire(&semaphore);
    wait_until("both contend", || scene.contenders().len() == 2);
    runtime.kill();
    let lost = scene.run(permit.lost());
    assert!(matches!(lost, Lost::RuntimeEnded { .. }), "{lost:?}");
    assert!(!permit.is_held());
    assert!(matches!(scene.finish(waiting), Err(Error::Closed { .. })));
    let late = scene.run(semaphore.acquire());
    assert!(matches!(late, Err(Error::Closed { .. })), "{late:?}");
    let released = scene.run(permit.release());
    assert!(
        matches!(released, Err(Error::Lost(Lost::RuntimeEnded { .. }))),
        "{released:?}"
    );
    scene.run(semaphore.shutdown());

    let other = scene.connect(scene.builder(1).ttl(SHORT_TTL));
    let permit = scene.acquire(&other);
    scene.release(permit);
    wait_until("the sessions have expired", || {
        scene.admin().sessions().unwrap().is_empty()
    });
    agent.assert_nothing_left(scene.prefix());
}

/// A process of this test's own binary that holds a slot. Dropping it kills it.
struct Victim(Child);

impl Victim {
    fn start<B: Backend>(name: &str, scene: &Scene<'_, B>) -> Self {
        // Without the name of the crate, as the test harness lists it.
        let (_, name) = name.split_once("::").unwrap();
        let place = format!("{} {}", scene.admin().url(), scene.prefix());
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(VICTIM, place)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    /// Sends `SIGKILL`, so the process can't react.
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn hold_for_ever(backend: &impl Backend, place: &str) -> ! {
    let (url, prefix) = place.split_once(' ').unwrap();
    let adapter = backend.build(Options::to(url));
    let builder = Semaphore::builder(prefix, 1).ttl(SHORT_TTL);
    let semaphore = builder.connect(adapter.clone()).unwrap();
    let _permit = run_on(&adapter, semaphore.acquire()).unwrap();
    // If nobody kills it, it ends with the agent.
    let agent = Client::new(url);
    while agent.get("/v1/status/leader").is_ok() {
        thread::sleep(Duration::from_secs(1));
    }
    std::process::exit(1)
}
