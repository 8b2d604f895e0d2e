//! The options of sessions.

use std::time::Duration;

use real_agent::Agent;
use semaphore_core::Lost;
use serde_json::json;

use crate::Backend;
use crate::scene::{Scene, session};

/// A service whose own check passes or fails.
const SERVICE: &str =
    r#"{"ID":"web","Name":"web","Check":{"CheckID":"web-alive","TTL":"1h","Status":"passing"}}"#;

pub fn the_session_is_made_as_told(backend: &impl Backend) {
    let agent = Agent::start().unwrap();
    let scene = Scene::on(backend, &agent);
    scene
        .admin()
        .put("/v1/agent/service/register", SERVICE.as_bytes())
        .unwrap();
    let builder = scene
        .builder(1)
        .session_name("nightly import")
        .node(agent.node())
        .ttl(Duration::from_secs(90))
        .lock_delay(Duration::from_secs(3))
        .node_checks(["serfHealth"])
        .service_checks(["web-alive"]);
    let semaphore = scene.connect(builder);
    let permit = scene.acquire(&semaphore);
    let info = scene.session_info(&session(&permit));
    assert_eq!(info["Name"], "nightly import");
    assert_eq!(info["Node"], agent.node());
    assert_eq!(info["TTL"], "90s");
    assert_eq!(info["LockDelay"], 3_000_000_000_u64);
    assert_eq!(info["Behavior"], "delete");
    assert_eq!(info["NodeChecks"], json!(["serfHealth"]));
    assert_eq!(info["ServiceChecks"][0]["ID"], "web-alive");
    scene.release(permit);
    scene.run(semaphore.shutdown());
    agent.assert_nothing_left(scene.prefix());
}

pub fn the_default_session_has_no_health_checks(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let semaphore = scene.semaphore(1);
    let permit = scene.acquire(&semaphore);
    let info = scene.session_info(&session(&permit));
    assert_eq!(info["TTL"], "15s");
    assert_eq!(info["Behavior"], "delete");
    assert!(
        info["NodeChecks"].as_array().is_none_or(Vec::is_empty),
        "{info}"
    );
    assert!(
        info["ServiceChecks"].as_array().is_none_or(Vec::is_empty),
        "{info}"
    );
    assert_eq!(info["Name"], format!("semaphore {}", scene.prefix()));
    scene.release(permit);
    drop(semaphore);
    scene.assert_nothing_left();
}

pub fn a_failing_service_check_ends_the_session(backend: &impl Backend) {
    let agent = Agent::start().unwrap();
    let scene = Scene::on(backend, &agent);
    scene
        .admin()
        .put("/v1/agent/service/register", SERVICE.as_bytes())
        .unwrap();
    let semaphore = scene.connect(scene.builder(1).service_checks(["web-alive"]));
    let permit = scene.acquire(&semaphore);
    scene
        .admin()
        .put("/v1/agent/check/fail/web-alive", b"")
        .unwrap();
    let lost = scene.run(permit.lost());
    assert!(matches!(lost, Lost::SessionGone { .. }), "{lost:?}");
    scene.run(permit.release()).unwrap_err();
    agent.assert_nothing_left(scene.prefix());
}
