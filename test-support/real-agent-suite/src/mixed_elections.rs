//! Elections with other clients: `consul lock`, and scripts that do what the guide does with
//! `curl`.

use std::fs;

use real_agent::Agent;
use semaphore_core::SequencerStatus;
use semaphore_core::sans_io::api::LOCK_FLAGS;

use crate::Backend;
use crate::elections::{candidate, clean_up, discovery, key, lead, sessions, start_campaign};
use crate::locker::Locker;
use crate::scene::{Scene, value, wait_until};

/// It keeps the file `held` until there is a file `end`, or until the folder `$1` is gone.
const CHILD: &str =
    "echo > $1/held; while test -d $1 && ! test -e $1/end; do sleep 0.02; done; rm $1/held";

pub fn consul_lock_and_our_clients_elect_one_leader_among_them(backend: &impl Backend) {
    let agent = Agent::start().unwrap();
    let scene = Scene::on(backend, &agent);
    let folder = tempfile::tempdir().unwrap();
    let is_held = || folder.path().join("held").exists();
    let key = scene.record_key();
    let (one, other) = (
        candidate(&scene, &key, "one"),
        candidate(&scene, &key, "other"),
    );

    // Our candidate leads first, and `consul lock` waits.
    let first = lead(&scene, &one);
    let locker = Locker::start(&agent, 1, scene.prefix(), CHILD, folder.path());
    wait_until("both campaign", || {
        agent.client().sessions().unwrap().len() == 2
    });
    assert!(scene.run(other.try_campaign()).unwrap().is_err());
    assert!(first.is_leader() && !is_held());
    let token = first.fencing_token();
    scene.run(first.resign()).unwrap();
    // Then `consul lock` holds, and our candidate waits.
    wait_until("it is theirs", is_held);
    assert!(scene.run(one.try_campaign()).unwrap().is_err());
    let waiting = start_campaign(&scene, &other);
    let named = |name: &str| {
        let sessions = agent.client().sessions().unwrap();
        let name_of = |id: &String| scene.session_info(id)["Name"].to_string();
        sessions
            .iter()
            .filter(|id| name_of(id).contains(name))
            .count()
    };
    wait_until("ours waits", || named("election") == 1);
    assert!(is_held());
    let leader = scene
        .run(discovery(&scene, &key).leader())
        .unwrap()
        .unwrap();
    let name = scene.session_info(leader.session.as_str())["Name"].to_string();
    assert!(!name.contains("election"), "{name}");
    fs::write(folder.path().join("end"), "").unwrap();
    let second = scene.finish(waiting).unwrap();
    assert!(!is_held(), "two lead");
    assert!(second.is_leader());
    // `consul lock` may have deleted the key. Then terms start again, but tokens keep rising.
    assert!(second.fencing_token() > token);
    // Before that, a resource that asks can refuse the leader.
    let leader = scene.run(discovery(&scene, &key).leader()).unwrap();
    let leader = leader.unwrap();
    assert!(!leader.is_after(second.fencing_token()));
    if leader.lock_index == 1 {
        assert!(leader.is_after(token));
    }
    locker.ends_well();
    scene.run(second.resign()).unwrap();
    wait_until("no session is left", || {
        agent.client().sessions().unwrap().is_empty()
    });
}

pub fn the_guides_requests_and_our_clients_elect_one_leader_among_them(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let key = key(&scene);
    let session = r#"{"Name":"dbservice","LockDelay":"0s"}"#;
    let session = scene.admin().create_session(session).unwrap();
    let put = |query: &str, body: &str| {
        let answer = scene
            .admin()
            .put(&format!("/v1/kv/{key}?{query}={session}"), body.as_bytes());
        answer.unwrap().is_true()
    };
    assert!(put("acquire", "guide"));
    assert_eq!(scene.entry(&key).unwrap()["Flags"], 0);
    let (one, other) = (
        candidate(&scene, &key, "one"),
        candidate(&scene, &key, "other"),
    );
    assert!(scene.run(one.try_campaign()).unwrap().is_err());
    let waiting = start_campaign(&scene, &one);
    wait_until("both campaign", || sessions(&scene) == 2);
    let discovery = discovery(&scene, &key);
    let leader = scene.run(discovery.leader()).unwrap().unwrap();
    assert_eq!(
        (leader.text(), leader.session.as_str()),
        (Some("guide"), session.as_str())
    );
    let verify = || scene.run(discovery.verify(&leader.sequencer())).unwrap();
    assert_eq!(verify(), SequencerStatus::Current);

    // The release from Consul's guide leaves its value.
    assert!(put("release", ""));
    let second = scene.finish(waiting).unwrap();
    assert_eq!(second.term(), 2);
    assert_eq!(verify(), SequencerStatus::Stale);
    let entry = scene.entry(&key).unwrap();
    assert_eq!(
        (value(&entry).as_slice(), &entry["Flags"]),
        (&b"one"[..], &LOCK_FLAGS.into())
    );
    assert!(!put("acquire", "guide"));
    let token = second.fencing_token();
    scene.run(second.resign()).unwrap();

    // When a session ends, the value stays and the flags are gone.
    assert!(put("acquire", "guide"));
    let waiting = start_campaign(&scene, &other);
    wait_until("both campaign", || sessions(&scene) == 2);
    scene.admin().destroy_session(&session).unwrap();
    let fourth = scene.finish(waiting).unwrap();
    assert_eq!(fourth.term(), 4);
    assert!(fourth.fencing_token() > token);
    scene.run(fourth.resign()).unwrap();
    drop((one, other));
    clean_up(&scene, &key);
}
