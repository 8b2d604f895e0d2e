//! Who leads an election, seen from outside.

use std::time::Duration;

use semaphore_core::sans_io::api::LOCK_FLAGS;
use semaphore_core::{
    Behavior, Conflict, Discovery, Error, LeaderEvent, LeaderStatus, SequencerStatus, blocking,
};

use crate::Backend;
use crate::scene::Scene;

/// It has no lock delay, so another one may lead at once.
const SESSION: &str = r#"{"Name":"leader","TTL":"60s","LockDelay":"0s","NodeChecks":[]}"#;

fn key<B: Backend>(scene: &Scene<'_, B>) -> String {
    format!("{}/leader", scene.prefix())
}

fn lead<B: Backend>(scene: &Scene<'_, B>, session: &str, value: &str) {
    let path = format!("/v1/kv/{}?acquire={session}&flags={LOCK_FLAGS}", key(scene));
    let answer = scene.admin().put(&path, value.as_bytes()).unwrap();
    assert!(answer.is_true(), "{}", answer.text());
}

fn discovery<B: Backend>(scene: &Scene<'_, B>) -> Discovery {
    Discovery::builder(key(scene))
        .connect(scene.adapter())
        .unwrap()
}

fn clean_up<B: Backend>(scene: &Scene<'_, B>, sessions: &[String]) {
    for session in sessions {
        scene.admin().destroy_session(session).unwrap();
    }
    let path = format!("/v1/kv/{}", key(scene));
    scene.admin().delete(&path).unwrap();
    scene.assert_nothing_left();
}

pub fn a_leader_and_its_session_are_told(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let discovery = discovery(&scene);
    let status = scene.run(discovery.status()).unwrap();
    assert_eq!(status, LeaderStatus::Leaderless { last_value: None });

    let session = scene.admin().create_session(SESSION).unwrap();
    lead(&scene, &session, "node-1");
    let leader = scene.run(discovery.leader()).unwrap().unwrap();
    assert_eq!(leader.text(), Some("node-1"));
    assert_eq!(leader.session.as_str(), session);
    assert_eq!(leader.lock_index, 1);
    let holder = scene.run(discovery.holder(&leader)).unwrap().unwrap();
    let said = scene.session_info(&session);
    assert_eq!(Some(holder.node.as_str()), said["Node"].as_str());
    assert_eq!(holder.name, "leader");
    assert_eq!(holder.ttl, Some(Duration::from_secs(60)));
    assert_eq!(holder.lock_delay, Some(Duration::ZERO));
    assert_eq!(holder.behavior, Some(Behavior::Release));
    assert!(holder.checks.is_empty(), "{holder:?}");

    scene.admin().destroy_session(&session).unwrap();
    assert_eq!(scene.run(discovery.holder(&leader)).unwrap(), None);
    let status = scene.run(discovery.status()).unwrap();
    let last_value = Some(b"node-1".to_vec());
    assert_eq!(status, LeaderStatus::Leaderless { last_value });
    clean_up(&scene, &[]);
}

pub fn the_checks_of_a_leaders_session_are_told(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let body = r#"{"LockDelay":"0s","Behavior":"delete"}"#;
    let session = scene.admin().create_session(body).unwrap();
    lead(&scene, &session, "node-1");
    let discovery = discovery(&scene);
    let leader = scene.run(discovery.leader()).unwrap().unwrap();
    let holder = scene.run(discovery.holder(&leader)).unwrap().unwrap();
    assert_eq!(holder.checks, ["serfHealth"]);
    assert_eq!(holder.behavior, Some(Behavior::Delete));
    assert_eq!(holder.ttl, None);
    clean_up(&scene, &[session]);
}

pub fn each_change_of_a_leader_is_seen(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let sessions = [SESSION, SESSION].map(|body| scene.admin().create_session(body).unwrap());
    let mut follower = discovery(&scene).follow();
    let mut next = || scene.run(follower.next()).unwrap().unwrap();
    let event = next();
    assert!(matches!(event, LeaderEvent::Leaderless { .. }), "{event:?}");
    for (session, node) in sessions.iter().zip(["node-1", "node-2"]) {
        lead(&scene, session, node);
        let event = next();
        let LeaderEvent::Elected(leader) = &event else {
            panic!("{event:?}");
        };
        assert_eq!(leader.text(), Some(node));
        lead(&scene, session, "moved");
        let event = next();
        assert!(matches!(event, LeaderEvent::ValueChanged(_)), "{event:?}");
        let path = format!("/v1/kv/{}?release={session}", key(&scene));
        assert!(scene.admin().put(&path, b"bye").unwrap().is_true());
        let event = next();
        assert!(matches!(event, LeaderEvent::Leaderless { .. }), "{event:?}");
    }
    clean_up(&scene, &sessions);
}

pub fn a_leaders_sequencer_is_current_until_its_term_ends(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let session = scene.admin().create_session(SESSION).unwrap();
    lead(&scene, &session, "node-1");
    let discovery = discovery(&scene);
    let leader = scene.run(discovery.leader()).unwrap().unwrap();
    let sequencer = leader.sequencer();
    let status = || scene.run(discovery.verify(&sequencer)).unwrap();
    assert_eq!(status(), SequencerStatus::Current);
    lead(&scene, &session, "moved");
    assert_eq!(status(), SequencerStatus::Current);
    let path = format!("/v1/kv/{}?release={session}", key(&scene));
    assert!(scene.admin().put(&path, b"").unwrap().is_true());
    assert_eq!(status(), SequencerStatus::Stale);
    lead(&scene, &session, "node-1");
    assert_eq!(status(), SequencerStatus::Stale);
    clean_up(&scene, &[session]);
}

pub fn a_semaphores_keys_are_refused_as_an_elections(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let semaphore = scene.semaphore(1);
    let permit = scene.acquire(&semaphore);
    for key in [scene.record_key(), permit.sequencers()[0].key.clone()] {
        let discovery = Discovery::builder(key).connect(scene.adapter()).unwrap();
        let refused = scene.run(discovery.leader());
        let Err(Error::NotAnElection { conflict, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(conflict, Conflict::Semaphore);
    }
    scene.release(permit);
    drop(semaphore);
    scene.assert_nothing_left();
}

pub fn a_thread_follows_a_leader(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let discovery = blocking::Discovery::builder(key(&scene))
        .connect(scene.adapter())
        .unwrap();
    let mut follower = discovery.follow();
    let event = follower.next().unwrap().unwrap();
    assert!(matches!(event, LeaderEvent::Leaderless { .. }), "{event:?}");
    assert!(follower.next_timeout(Duration::from_millis(100)).is_none());
    let session = scene.admin().create_session(SESSION).unwrap();
    lead(&scene, &session, "node-1");
    let event = follower.next().unwrap().unwrap();
    assert!(matches!(event, LeaderEvent::Elected(_)), "{event:?}");
    let leader = discovery.leader().unwrap().unwrap();
    let status = discovery.verify(&leader.sequencer()).unwrap();
    assert_eq!(status, SequencerStatus::Current);
    clean_up(&scene, &[session]);
}
