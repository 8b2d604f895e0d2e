//! Three servers: they elect, survive a loss, and take the lost one back.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use real_agent::{Agent, Cluster};

#[test]
fn a_cluster_replicates_and_elects_another_leader_when_its_leader_is_killed() {
    let mut cluster = Cluster::start().unwrap();
    let old = cluster.leader().unwrap();
    let survivor = (old + 1) % 3;
    cluster
        .server(old)
        .client()
        .put("/v1/kv/key", b"value")
        .unwrap();

    cluster.kill(old).unwrap();
    let new = cluster.wait_for_leader().unwrap();
    assert_ne!(new, old);
    let client = cluster.server(survivor).client();
    let read = client.get("/v1/kv/key?raw&consistent").unwrap();
    assert_eq!(read.text(), "value");
    assert!(client.put("/v1/kv/key", b"later").unwrap().is_true());

    cluster.restart(old).unwrap();
    let client = cluster.server(old).client();
    let read = client.get("/v1/kv/key?raw&consistent").unwrap();
    assert_eq!(read.text(), "later");
}

#[test]
fn a_cluster_elects_another_leader_when_its_leader_is_stopped_and_continues_it_as_a_follower() {
    let mut cluster = Cluster::start().unwrap();
    let old = cluster.leader().unwrap();
    cluster.stop(old).unwrap();
    let new = cluster.wait_for_leader().unwrap();
    assert_ne!(new, old);
    cluster.cont(old).unwrap();
    cluster.wait_for_leader().unwrap();
}

#[test]
fn without_a_majority_there_is_no_leader_to_write_through() {
    let mut cluster = Cluster::start().unwrap();
    cluster.kill(0).unwrap();
    cluster.kill(1).unwrap();
    let client = cluster
        .server(2)
        .client()
        .with_timeout(Duration::from_secs(20));
    let wrote = client.put("/v1/kv/key", b"value");
    assert!(!wrote.is_ok_and(|answer| answer.status == 200));
    cluster.relaunch(0).unwrap();
    cluster.wait_for_leader().unwrap();
}

#[test]
fn a_dead_server_is_kept_unless_told_otherwise_and_its_sessions_with_it() {
    let nodes = [false, true].map(|reaped| {
        let builder = Agent::builder();
        let builder = if reaped { builder.reaped() } else { builder };
        let mut cluster = Cluster::start_with(&builder).unwrap();
        cluster.wait_for_votes().unwrap();
        let dead = (cluster.leader().unwrap() + 1) % 3;
        let session = r#"{"TTL":"600s","NodeChecks":[]}"#;
        cluster
            .server(dead)
            .client()
            .create_session(session)
            .unwrap();
        cluster.kill(dead).unwrap();
        (cluster, dead)
    });
    let [kept, reaped] = &nodes;
    let deadline = Instant::now() + Duration::from_mins(1);
    while !sessions(reaped).is_empty() {
        assert!(Instant::now() < deadline, "it is kept");
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(sessions(kept).len(), 1);
}

fn sessions((cluster, dead): &(Cluster, usize)) -> BTreeSet<String> {
    let survivor = cluster.server((dead + 1) % 3).client();
    survivor.sessions().unwrap()
}
