//! Agents with access control that denies by default.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use std::{fs, io, thread};

use real_agent::{Agent, Client};
use semaphore_core::adapter::{Files, Stamp, TokenFile};
use semaphore_core::{Error, RequestError, Semaphore};
use serde_json::json;

use crate::Backend;
use crate::keys::GO_FLAGS;
use crate::scene::{Scene, wait_until};

const MANAGEMENT: &str = "5f0d1b8e-6a3c-4a51-9a70-27d0c2b8f111";

/// The permissions that a participant needs.
pub(crate) const SESSIONS: &str = r#"session_prefix "" { policy = "write" }"#;

pub(crate) fn agent() -> Agent {
    Agent::builder().acl(MANAGEMENT).start().unwrap()
}

/// A token with these rules.
pub(crate) fn token(admin: &Client, name: &str, rules: &str) -> String {
    let made = admin.create_token(name, rules);
    made.unwrap_or_else(|error| panic!("{rules}: {error}"))
}

fn semaphore<B: Backend>(scene: &Scene<'_, B>, token: &str) -> Semaphore {
    scene.connect(scene.builder(1).token(token))
}

/// Another participant holds the only slot with all permissions. The token is refused and does no
/// harm.
fn is_refused(backend: &impl Backend, name: &str, rules: impl FnOnce(&str) -> String) {
    let agent = agent();
    let scene = Scene::on(backend, &agent);
    let holder = semaphore(&scene, MANAGEMENT);
    let permit = scene.acquire(&holder);
    let token = token(scene.admin(), name, &rules(scene.prefix()));
    let restricted = semaphore(&scene, &token);
    let refused = scene.run(restricted.acquire());
    let denied = matches!(refused, Err(Error::Request(RequestError::Denied { .. })));
    assert!(denied, "{refused:?}");
    assert!(!format!("{refused:?}").contains(&token));
    scene.run(restricted.shutdown());
    assert!(permit.is_held());
    assert_eq!(scene.holders().len(), 1);
    scene.release(permit);
    drop(holder);
    agent.assert_nothing_left(scene.prefix());
}

pub fn a_token_with_the_permissions_does_everything(backend: &impl Backend) {
    let agent = agent();
    let scene = Scene::on(backend, &agent);
    let rules = format!(
        r#"{SESSIONS} key_prefix "{}/" {{ policy = "write" }}"#,
        scene.prefix()
    );
    let token = token(scene.admin(), "contender", &rules);
    let semaphore = semaphore(&scene, &token);
    let permit = scene.acquire(&semaphore);
    assert!(scene.run(semaphore.try_acquire()).unwrap().is_err());
    assert_eq!(scene.run(semaphore.inspect()).unwrap().holders.len(), 1);
    scene.release(permit);
    scene.run(semaphore.resize(2)).unwrap();
    scene.run(semaphore.destroy()).unwrap();
    drop(semaphore);
    agent.assert_nothing_left(scene.prefix());
}

pub fn an_unknown_token_is_refused_at_once(backend: &impl Backend) {
    let agent = agent();
    let scene = Scene::on(backend, &agent);
    let unknown = "00000000-0000-4000-8000-00000000beef";
    let semaphore = semaphore(&scene, unknown);
    for refused in [
        scene.run(semaphore.acquire()).map(drop),
        scene.run(semaphore.try_acquire()).map(drop),
        scene.run(semaphore.inspect()).map(drop),
    ] {
        let denied = matches!(refused, Err(Error::Request(RequestError::Denied { .. })));
        assert!(denied, "{refused:?}");
        assert!(!format!("{refused:?}").contains(unknown));
    }
    scene.run(semaphore.shutdown());
    agent.assert_nothing_left(scene.prefix());
}

pub fn a_missing_permission_is_refused_at_once(backend: &impl Backend) {
    is_refused(backend, "no-session", |prefix| {
        format!(r#"key_prefix "{prefix}/" {{ policy = "write" }}"#)
    });
    is_refused(backend, "no-write", |prefix| {
        format!(r#"{SESSIONS} key_prefix "{prefix}/" {{ policy = "read" }}"#)
    });
}

pub fn a_record_that_may_not_be_read_is_left_alone(backend: &impl Backend) {
    let agent = agent();
    let scene = Scene::on(backend, &agent);
    let record = r#"{"Limit":1,"Holders":{}}"#;
    scene.write_record(record, GO_FLAGS);
    let rules = format!(
        r#"{SESSIONS} key_prefix "{0}/" {{ policy = "write" }} key "{0}/.lock" {{ policy = "deny" }}"#,
        scene.prefix()
    );
    let token = token(scene.admin(), "no-record", &rules);
    let semaphore = semaphore(&scene, &token);
    let refused = scene.run(semaphore.acquire());
    assert!(
        matches!(
            refused,
            Err(Error::Request(RequestError::Denied { .. }) | Error::IncompleteView { .. })
        ),
        "{refused:?}"
    );
    scene.run(semaphore.shutdown());
    assert_eq!(scene.record(), json!({ "Limit": 1, "Holders": {} }));
    agent.assert_nothing_left(scene.prefix());
}

/// The refusal comes when it is in the queue: a record exists, and the token may read it.
pub fn a_shutdown_after_a_refusal_leaves_nothing(backend: &impl Backend) {
    let agent = agent();
    let scene = Scene::on(backend, &agent);
    let first = semaphore(&scene, MANAGEMENT);
    let permit = scene.acquire(&first);
    scene.release(permit);
    scene.run(first.shutdown());
    let rules = format!(
        r#"{SESSIONS} key_prefix "{0}/" {{ policy = "write" }} key "{0}/.lock" {{ policy = "read" }}"#,
        scene.prefix()
    );
    let token = token(scene.admin(), "reads-record", &rules);
    let restricted = semaphore(&scene, &token);
    let refused = scene.run(restricted.acquire());
    let denied = matches!(refused, Err(Error::Request(RequestError::Denied { .. })));
    assert!(denied, "{refused:?}");
    scene.run(restricted.shutdown());
    let left = scene.admin().leftovers(scene.prefix()).unwrap();
    assert!(left.is_empty(), "{left}");
}

pub fn a_prefix_that_may_not_be_listed_is_refused_at_once(backend: &impl Backend) {
    let listing = r"acl { enable_key_list_policy = true }";
    let agent = Agent::builder()
        .acl(MANAGEMENT)
        .config(listing)
        .start()
        .unwrap();
    let scene = Scene::on(backend, &agent);
    let holder = semaphore(&scene, MANAGEMENT);
    let permit = scene.acquire(&holder);
    let rules = format!(
        r#"{SESSIONS} key_prefix "{0}/" {{ policy = "read" }} key "{0}/.lock" {{ policy = "write" }}"#,
        scene.prefix()
    );
    let token = token(scene.admin(), "no-list", &rules);
    let restricted = semaphore(&scene, &token);
    let refused = scene.run(restricted.acquire());
    let denied = matches!(refused, Err(Error::Request(RequestError::Denied { .. })));
    assert!(denied, "{refused:?}");
    scene.run(restricted.shutdown());
    assert!(permit.is_held());
    scene.release(permit);
    drop((holder, restricted));
    agent.assert_nothing_left(scene.prefix());
}

/// Consul 1.8 silently leaves keys that may not be read out of a list, so their holder looks dead.
pub fn a_holder_that_may_not_be_seen_is_not_evicted(backend: &impl Backend) {
    let agent = agent();
    let scene = Scene::on(backend, &agent);
    let holder = semaphore(&scene, MANAGEMENT);
    let permit = scene.acquire(&holder);
    let hidden = scene.contender_key(&crate::scene::session(&permit));
    let rules = format!(
        r#"{SESSIONS} key_prefix "{}/" {{ policy = "write" }} key "{hidden}" {{ policy = "deny" }}"#,
        scene.prefix()
    );
    let token = token(scene.admin(), "no-holder", &rules);
    let restricted = semaphore(&scene, &token);
    let refused = scene.run(restricted.acquire());
    // It enters and lists in one transaction, which Consul refuses as a whole.
    let is_told = matches!(
        refused,
        Err(Error::IncompleteView { .. } | Error::Request(RequestError::Denied { .. }))
    );
    assert!(is_told, "{refused:?} {:?}", scene.record());
    assert!(permit.is_held());
    scene.release(permit);
    scene.run(restricted.shutdown());
    drop((holder, restricted));
    agent.assert_nothing_left(scene.prefix());
}

/// The secret and the accessor of a new token with all permissions.
fn any_token(admin: &Client) -> (String, String) {
    let body = json!({ "Policies": [{ "Name": "global-management" }] }).to_string();
    let made = admin.put("/v1/acl/token", body.as_bytes()).unwrap();
    assert_eq!(made.status, 200, "{}", made.text());
    let made = made.json().unwrap();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("SecretID"), text("AccessorID"))
}

/// A token source that reads this file.
fn token_file(path: &Path) -> TokenFile {
    TokenFile::new("token_file", path, Disk).unwrap()
}

struct Disk;

impl Files for Disk {
    fn stamp(&self, path: &Path) -> Option<Stamp> {
        let metadata = fs::metadata(path).ok()?;
        let changed = metadata.modified().ok()?;
        Some((changed.duration_since(UNIX_EPOCH).ok()?, metadata.len()))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(vec![path.to_owned()])
    }
}

/// The old token is deleted, and the file gets another one.
pub fn holders_waiters_and_leaders_live_through_a_rotation_of_their_token(backend: &impl Backend) {
    let agent = agent();
    let scene = Scene::on(backend, &agent);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let (secret, old) = any_token(scene.admin());
    fs::write(&path, &secret).unwrap();
    let semaphore = || scene.connect(scene.builder(1).token_source(token_file(&path)));
    let (holder, waiter) = (semaphore(), semaphore());
    let permit = scene.acquire(&holder);
    let waiting = scene.start_acquire(&waiter);
    let key = format!("{}-leader", scene.prefix());
    let election = crate::elections::builder(&key).token_source(token_file(&path));
    let election = election.connect(scene.adapter()).unwrap();
    let leadership = scene.run(election.campaign()).unwrap();
    // A token that is refused at its first use is an error at once, so this one must have been used
    // before it is deleted.
    wait_until("the waiter has its place", || scene.contenders().len() == 2);
    thread::sleep(Duration::from_secs(1));
    let (secret, _) = any_token(scene.admin());
    let deleted = scene.admin().delete(&format!("/v1/acl/token/{old}"));
    assert_eq!(deleted.unwrap().status, 200);
    // The new token comes late.
    thread::sleep(Duration::from_secs(2));
    fs::write(&path, &secret).unwrap();
    // This is longer than a lease, so the hold lasts only if the new token renews it.
    thread::sleep(Duration::from_secs(14));
    assert!(permit.is_held() && leadership.is_leader());
    scene.release(permit);
    scene.release(scene.finish(waiting).unwrap());
    scene.run(leadership.resign()).unwrap();
    scene.run(election.shutdown());
    drop((holder, waiter));
    agent.assert_nothing_left(scene.prefix());
}
