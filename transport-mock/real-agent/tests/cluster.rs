//! Three servers: they elect, survive a loss, and take the lost one back.

use std::time::Duration;

use real_agent::Cluster;

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
