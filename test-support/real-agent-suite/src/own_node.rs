//! Sessions on a node without an agent.

use real_agent::{Agent, Client, Cluster};
use semaphore_core::{Election, Error, Lost, RequestError, Semaphore};
use serde_json::{Value, json};

use crate::Backend;
use crate::acl::{self, SESSIONS, token};
use crate::scene::{Scene, session, wait_until};

const OWN: &str = "semaphores";

/// The node as the catalog describes it.
fn described(client: &Client) -> Value {
    let path = format!("/v1/catalog/node/{OWN}");
    client.get(&path).unwrap().json().unwrap()["Node"].clone()
}

fn has_node(client: &Client, node: &str) -> bool {
    let nodes = client.get("/v1/catalog/nodes?stale").unwrap().json();
    let nodes = nodes.unwrap_or_default();
    let mut nodes = nodes.as_array().into_iter().flatten();
    nodes.any(|it| it["Node"] == node)
}

pub fn a_missing_node_is_made_and_made_again_when_it_is_taken_away(backend: &impl Backend) {
    let agent = Agent::start().unwrap();
    let scene = Scene::on(backend, &agent);
    let connect = || scene.connect(scene.builder(1).own_node(OWN));
    let (holder, other) = (connect(), connect());
    let permit = scene.acquire(&holder);
    assert_eq!(scene.session_info(&session(&permit))["Node"], OWN);
    let node = described(scene.admin());
    assert_eq!(node["Address"], "192.0.2.1");
    assert_eq!(
        node["Meta"],
        json!({"external-node": "true", "external-probe": "false"})
    );

    let waiting = scene.start_acquire(&other);
    scene
        .admin()
        .put(
            "/v1/catalog/deregister",
            format!(r#"{{"Node":"{OWN}"}}"#).as_bytes(),
        )
        .unwrap();
    let lost = scene.run(permit.lost());
    assert!(matches!(lost, Lost::SessionGone { .. }), "{lost:?}");
    drop(permit);
    let permit = scene.finish(waiting).unwrap();
    assert_eq!(scene.session_info(&session(&permit))["Node"], OWN);
    scene.release(permit);
    drop((holder, other));
    agent.assert_nothing_left(scene.prefix());
}

pub fn a_node_that_somebody_else_describes_is_left_as_it_is(backend: &impl Backend) {
    let agent = Agent::start().unwrap();
    let scene = Scene::on(backend, &agent);
    let node = format!(r#"{{"Node":"{OWN}","Address":"10.0.0.1","NodeMeta":{{"of":"others"}}}}"#);
    scene
        .admin()
        .put("/v1/catalog/register", node.as_bytes())
        .unwrap();
    let semaphore = scene.connect(scene.builder(1).own_node(OWN));
    let permit = scene.acquire(&semaphore);
    let node = described(scene.admin());
    assert_eq!(
        (&node["Address"], &node["Meta"]["of"]),
        (&json!("10.0.0.1"), &json!("others"))
    );
    scene.release(permit);
    drop(semaphore);
    agent.assert_nothing_left(scene.prefix());
}

pub fn a_token_that_may_not_register_a_node_is_told_so_unless_it_is_there(backend: &impl Backend) {
    let agent = acl::agent();
    let scene = Scene::on(backend, &agent);
    let rules = format!(
        r#"{SESSIONS} key_prefix "{}/" {{ policy = "write" }}"#,
        scene.prefix()
    );
    let token = token(scene.admin(), "contender", &rules);
    let connect = || scene.connect(scene.builder(1).token(&token).own_node(OWN));
    let error = scene.run(connect().acquire()).unwrap_err();
    let Error::Request(RequestError::Denied { text, .. }) = &error else {
        panic!("{error:?}");
    };
    assert!(text.contains("node:write") && text.contains(OWN), "{text}");

    let node = format!(r#"{{"Node":"{OWN}","Address":"192.0.2.1"}}"#);
    scene
        .admin()
        .put("/v1/catalog/register", node.as_bytes())
        .unwrap();
    let permit = scene.acquire(&connect());
    scene.release(permit);
    agent.assert_nothing_left(scene.prefix());
}

pub fn slots_are_shared_across_datacenters(backend: &impl Backend) {
    let here = Agent::start().unwrap();
    let there = Agent::builder()
        .config(r#"datacenter = "dc2""#)
        .start()
        .unwrap();
    let join = format!("/v1/agent/join/{}?wan=1", there.wan_addr());
    assert_eq!(here.client().put(&join, b"").unwrap().status, 200);
    let (scene, far) = (Scene::on(backend, &here), Scene::on(backend, &there));
    wait_until("the other datacenter", || {
        let known = here.client().get("/v1/catalog/datacenters").unwrap();
        known.json().unwrap() == json!(["dc1", "dc2"])
    });
    let remote = scene.builder(1).datacenter("dc2").own_node(OWN);
    let remote = scene.connect(remote);
    let permit = scene.acquire(&remote);
    assert!(has_node(far.admin(), OWN) && !has_node(scene.admin(), OWN));
    let local = Semaphore::builder(scene.prefix(), 1);
    let local = far.connect(local);
    assert!(
        far.run(local.try_acquire()).unwrap().is_err(),
        "the same slot"
    );
    scene.release(permit);
    let permit = far.acquire(&local);
    far.release(permit);
    there.assert_nothing_left(scene.prefix());
}

/// The test also shows the fault: it strikes participants whose session is on the agent's node.
pub fn an_agent_that_leaves_and_a_server_that_is_reaped_end_no_hold(backend: &impl Backend) {
    let mut cluster = Cluster::start_with(&Agent::builder().reaped()).unwrap();
    let mut agent = cluster.join(&Agent::builder()).unwrap();
    let scene = Scene::on(backend, &agent);
    let key = format!("{}-leader", scene.prefix());
    let election = Election::builder(&key).own_node(OWN);
    let election = election.connect(scene.adapter()).unwrap();
    let leadership = scene.run(election.campaign()).unwrap();
    let own = scene.connect(scene.builder(2).own_node(OWN));
    let usual = scene.connect(scene.builder(2));
    let kept = scene.acquire(&own);
    let struck = scene.acquire(&usual);

    agent.terminate().unwrap();
    agent.restart().unwrap();
    let lost = scene.run(struck.lost());
    assert!(matches!(lost, Lost::SessionGone { .. }), "{lost:?}");
    drop(struck);

    let leader = cluster.wait_for_leader().unwrap();
    let node = cluster.server(leader).node().to_owned();
    cluster.kill(leader).unwrap();
    cluster.wait_for_leader().unwrap();
    wait_until("the server is reaped", || !has_node(scene.admin(), &node));
    assert_eq!(scene.session_info(&session(&kept))["Node"], OWN);
    assert!(kept.is_held());
    assert!(leadership.is_leader());
    scene.release(kept);
    scene.run(leadership.resign()).unwrap();
}
