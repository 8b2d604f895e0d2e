//! With a real agent over HTTPS, hundreds of semaphores are held over a few connections. Losing one
//! connection costs no hold.

#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::{Duration, Instant};

use real_agent::{Agent, Proxy};
use tokio::time::{sleep, timeout};
use transport_conformance::tls::{Authority, Names};
use transport_reqwest::{Permit, ReqwestTransport, Semaphore};

/// One for the first request, one for all short requests, and one for each hundred polls.
const CONNECTIONS: u64 = 5;
const SEMAPHORES: usize = 250;

/// How long anything may take that must happen: a test must not fail because the machine is loaded.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_semaphores_are_held_over_a_handful_of_connections() {
    let scene = Scene::start();
    let semaphores: Vec<_> = (0..SEMAPHORES).map(|no| scene.semaphore(no)).collect();
    let permits = scene.acquire_all(&semaphores).await;
    assert!(scene.proxy.traffic().peak <= CONNECTIONS);
    wait_for_renewals(&permits).await;
    let traffic = scene.proxy.traffic();
    println!("{SEMAPHORES} semaphores are held: {traffic:?}");
    assert!(traffic.peak <= CONNECTIONS);

    // A poll of each is under way.
    let last = SEMAPHORES - 1;
    let key = format!("/v1/kv/held/{last}/?recurse");
    scene.agent.client().delete(&key).unwrap();
    timeout(PATIENCE, permits[last].lost()).await.unwrap();
    scene.give_back(semaphores, permits).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_cut_cost_no_hold() {
    let scene = Scene::start();
    let semaphores: Vec<_> = (0..SEMAPHORES).map(|no| scene.semaphore(no)).collect();
    let permits = scene.acquire_all(&semaphores).await;
    for _ in 0..3 {
        scene.proxy.cut();
        wait_for_renewals(&permits).await;
    }
    let traffic = scene.proxy.traffic();
    println!("after three cuts: {traffic:?}");
    assert!(traffic.open <= CONNECTIONS);
    scene.give_back(semaphores, permits).await;
}

/// They stay open, but nothing arrives. New connections work.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_stall_cost_no_hold() {
    let scene = Scene::start();
    let semaphores: Vec<_> = (0..10).map(|no| scene.semaphore(no)).collect();
    let permits = scene.acquire_all(&semaphores).await;
    for _ in 0..2 {
        scene.proxy.stall();
        wait_for_renewals(&permits).await;
    }
    scene.give_back(semaphores, permits).await;
}

struct Scene {
    agent: Agent,
    proxy: Proxy,
    transport: ReqwestTransport,
}

impl Scene {
    fn start() -> Self {
        let authority = Authority::new();
        let certified = authority.certify(Names::loopback());
        let builder = Agent::builder().tls(certified.pem(), certified.key_pem());
        let agent = builder.start().unwrap();
        let proxy = Proxy::start(agent.https_addr()).unwrap();
        let builder = ReqwestTransport::builder(format!("https://{}", proxy.addr()));
        let transport = builder.ca_cert(authority.pem()).build().unwrap();
        Self {
            agent,
            proxy,
            transport,
        }
    }

    /// With Consul's shortest TTL.
    fn semaphore(&self, no: usize) -> Semaphore {
        let builder = Semaphore::builder(format!("held/{no}"), 1);
        let builder = builder.ttl(Duration::from_secs(10));
        builder.connect(self.transport.clone()).unwrap()
    }

    async fn acquire_all(&self, semaphores: &[Semaphore]) -> Vec<Permit> {
        let acquiring: Vec<_> = semaphores
            .iter()
            .map(|it| {
                let semaphore = it.clone();
                tokio::spawn(async move { semaphore.acquire().await })
            })
            .collect();
        let mut permits = Vec::new();
        for acquiring in acquiring {
            permits.push(acquiring.await.unwrap().unwrap());
        }
        permits
    }

    async fn give_back(self, semaphores: Vec<Semaphore>, permits: Vec<Permit>) {
        drop(permits);
        for semaphore in &semaphores {
            semaphore.shutdown().await;
        }
        for no in 0..semaphores.len() {
            self.agent.assert_nothing_left(&format!("held/{no}"));
        }
    }
}

/// Waits until each lease was extended twice.
async fn wait_for_renewals(permits: &[Permit]) {
    for _ in 0..2 {
        let before: Vec<_> = permits.iter().map(end_of).collect();
        let is_renewed = |(permit, before): (&Permit, &Instant)| {
            assert!(permit.is_held());
            end_of(permit) > *before + Duration::from_millis(200)
        };
        let renewed = async {
            while !permits.iter().zip(&before).all(is_renewed) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, renewed).await.unwrap();
    }
}

fn end_of(permit: &Permit) -> Instant {
    Instant::now() + permit.remaining()
}
