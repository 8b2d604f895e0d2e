//! Elections of one client. They use one session, and each term ends alone unless the session ends.

use std::time::Duration;

use semaphore_core::sans_io::Response;
use semaphore_core::sans_io::api::{Txn, TxnFaultKind, TxnOutcome};
use semaphore_core::{Client, Leadership, Lost};

use crate::Backend;
use crate::scene::Scene;

/// It has no lock delay: when an operator ends a session, the key is free at once.
fn client<B: Backend>(scene: &Scene<'_, B>) -> Client {
    let builder = Client::builder()
        .value("one")
        .session_name(scene.prefix())
        .lock_delay(Duration::ZERO);
    builder.connect(scene.adapter()).unwrap()
}

fn key<B: Backend>(scene: &Scene<'_, B>, shard: usize) -> String {
    format!("{}/{shard}", scene.prefix())
}

fn lead<B: Backend>(scene: &Scene<'_, B>, client: &Client, shard: usize) -> Leadership {
    let election = client.election(key(scene, shard)).unwrap();
    scene.run(election.campaign()).unwrap()
}

fn session(leadership: &Leadership) -> String {
    leadership.sequencer().session.to_string()
}

fn is_tied<B: Backend>(scene: &Scene<'_, B>, shard: usize) -> bool {
    let entry = scene.entry(&key(scene, shard)).unwrap();
    !entry["Session"].is_null()
}

/// Asserts that only the keys and their values are left, and that no session holds a key.
fn clean_up<B: Backend>(scene: &Scene<'_, B>, client: &Client, shards: usize) {
    scene.run(client.shutdown());
    for shard in 0..shards {
        assert!(!is_tied(scene, shard), "{shard}");
        let path = format!("/v1/kv/{}", key(scene, shard));
        scene.admin().delete(&path).unwrap();
    }
    scene.assert_nothing_left_soon();
}

pub fn elections_of_a_client_stand_on_one_session_and_end_apart(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let client = client(&scene);
    let terms: Vec<_> = (0..20).map(|shard| lead(&scene, &client, shard)).collect();
    let on = session(&terms[0]);
    assert!(terms.iter().all(|it| session(it) == on));
    scene.run(terms[1].resign()).unwrap();
    assert!(!is_tied(&scene, 1));
    // The session lives on, and the new term can be told from the one before.
    let again = lead(&scene, &client, 1);
    assert_eq!(session(&again), on);
    assert_ne!(again.sequencer(), terms[1].sequencer());
    assert!(again.fencing_token() > terms[1].fencing_token());
    assert_eq!(again.term(), 2);
    let others = terms.iter().enumerate().filter(|(shard, _)| *shard != 1);
    assert!(others.into_iter().all(|(_, it)| it.is_leader()));
    drop((terms, again));
    clean_up(&scene, &client, 20);
}

pub fn a_session_that_is_destroyed_ends_all_terms_on_it(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let client = client(&scene);
    let terms: Vec<_> = (0..3).map(|shard| lead(&scene, &client, shard)).collect();
    let gone = session(&terms[0]);
    scene.admin().destroy_session(&gone).unwrap();
    for term in &terms {
        let lost = scene.run(term.lost());
        assert!(
            matches!(lost, Lost::SessionGone { .. } | Lost::KeyReleased { .. }),
            "{lost:?}"
        );
    }
    drop(terms);
    let again = lead(&scene, &client, 0);
    assert_ne!(session(&again), gone);
    drop(again);
    clean_up(&scene, &client, 3);
}

/// This answer must not count as a refusal of transactions. It is what a resignation gets when
/// somebody else has unlocked the key.
pub fn an_unlock_of_a_key_that_is_not_ours_says_so(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let name = format!(r#"{{"Name":"{}","TTL":"60s"}}"#, scene.prefix());
    let session = scene.admin().create_session(&name).unwrap();
    let key = key(&scene, 0);
    let path = format!("/v1/kv/{key}");
    scene.admin().put(&path, b"").unwrap();
    let body = format!(r#"[{{"KV":{{"Verb":"unlock","Key":"{key}","Session":"{session}"}}}}]"#);
    let answer = scene.admin().put("/v1/txn", body.as_bytes()).unwrap();
    let response = Response::new(answer.status, answer.text());
    let TxnOutcome::RolledBack(faults) = Txn::parse(&response).unwrap() else {
        panic!("applied: {}", answer.text());
    };
    let kinds: Vec<_> = faults.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [TxnFaultKind::Check], "{faults:?}");
    scene.admin().destroy_session(&session).unwrap();
    scene.admin().delete(&path).unwrap();
    scene.assert_nothing_left();
}
