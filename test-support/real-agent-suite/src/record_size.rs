//! A record that outgrows what the agent takes in one request.

use std::time::Duration;

use real_agent::Agent;
use semaphore_core::{Error, RequestError};

use crate::Backend;
use crate::scene::{Scene, wait_until};

/// The record grows with each holder, so the first claims are accepted. Consul 1.8.7 refuses a
/// larger one with 413, before it reads the body.
pub fn a_claim_with_which_the_record_outgrows_the_agents_limit_leaves_nothing(
    backend: &impl Backend,
) {
    let small = "limits { kv_max_value_size = 2048 txn_max_req_len = 2048 }";
    let agent = Agent::builder().config(small).start().unwrap();
    let scene = Scene::on(backend, &agent);
    let semaphore = scene.semaphore(100);
    let mut permits = Vec::new();
    let refused = loop {
        match scene.run(semaphore.acquire()) {
            Ok(permit) => permits.push(permit),
            Err(refused) => break refused,
        }
        assert!(permits.len() < 100, "nothing is refused");
    };
    assert!(permits.len() > 1, "the agent takes no claim: {refused}");
    let is_rejected = matches!(
        refused,
        Error::Request(RequestError::Rejected { status: 413, .. })
    );
    assert!(is_rejected, "{refused:?}");
    // Another process enters before it claims, so its writes are smaller. If it is refused, too, it goes.
    let late = scene.semaphore(100);
    match scene.run(late.acquire()) {
        Ok(permit) => scene.release(permit),
        Err(refused) => assert!(
            matches!(
                refused,
                Error::Request(RequestError::Rejected { status: 413, .. })
            ),
            "{refused:?}"
        ),
    }
    scene
        .run(late.shutdown_timeout(Duration::from_secs(30)))
        .unwrap();
    let left = scene.admin().leftovers(scene.prefix()).unwrap();
    assert_eq!(
        (left.holders.len(), left.keys.len()),
        (permits.len(), permits.len()),
        "{left}"
    );
    // A session without a slot is kept for a while.
    wait_until("each session has a slot", || {
        scene.admin().sessions().unwrap().len() == permits.len()
    });
    for permit in permits {
        assert!(permit.is_held());
        scene.release(permit);
    }
    scene.run(semaphore.shutdown());
    agent.assert_nothing_left(scene.prefix());
}
