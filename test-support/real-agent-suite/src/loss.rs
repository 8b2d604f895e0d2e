//! What an administrator takes away is noticed.

use real_agent::Agent;
use semaphore_core::{Error, Lost, Permit, Semaphore, SequencerStatus};

use crate::Backend;
use crate::keys::GO_FLAGS;
use crate::scene::{Scene, session, wait_until};

/// Harms the only holder while another one waits. The holder learns of its loss, the waiter is
/// admitted, and nothing stays behind.
fn loses<B: Backend>(
    scene: &Scene<'_, B>,
    harm: impl FnOnce(&Permit),
    is_expected: impl FnOnce(&Lost) -> bool,
) {
    let (one, other) = (scene.semaphore(1), scene.semaphore(1));
    let permit = scene.acquire(&one);
    let waiting = scene.start_acquire(&other);
    wait_until("both contend", || scene.contenders().len() == 2);
    harm(&permit);
    let lost = scene.run(permit.lost());
    assert!(is_expected(&lost), "{lost:?}");
    assert!(!permit.is_held());
    assert!(permit.remaining().is_zero());
    let second = scene.finish(waiting).unwrap();
    assert!(second.fencing_token() > permit.fencing_token());
    let released = scene.run(permit.release());
    assert!(matches!(released, Err(Error::Lost(_))), "{released:?}");
    assert!(second.is_held(), "a late release has no effect on others");
    assert_eq!(scene.holders(), [session(&second)]);
    scene.release(second);
    ends(scene, &[&one, &other]);
}

fn ends<B: Backend>(scene: &Scene<'_, B>, semaphores: &[&Semaphore]) {
    for semaphore in semaphores {
        scene.run(semaphore.shutdown());
    }
    scene.assert_nothing_left();
}

pub fn a_destroyed_session_is_noticed_and_its_slot_is_free(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let harm = |permit: &Permit| scene.admin().destroy_session(&session(permit)).unwrap();
    loses(&scene, harm, |lost| {
        matches!(lost, Lost::SessionGone { .. })
    });
}

pub fn a_removed_holder_entry_is_noticed(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let harm = |_: &Permit| scene.write_record(r#"{"Limit":1,"Holders":{}}"#, GO_FLAGS);
    let removed = |lost: &Lost| matches!(lost, Lost::RemovedFromHolders { .. });
    loses(&scene, harm, removed);
}

pub fn a_removed_record_is_noticed(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let harm = |_: &Permit| {
        let path = format!("/v1/kv/{}", scene.record_key());
        assert!(scene.admin().delete(&path).unwrap().is_true());
    };
    let removed = |lost: &Lost| matches!(lost, Lost::RemovedFromHolders { .. });
    loses(&scene, harm, removed);
}

pub fn a_deleted_contender_key_is_noticed(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let harm = |permit: &Permit| {
        let path = format!("/v1/kv/{}", scene.contender_key(&session(permit)));
        assert!(scene.admin().delete(&path).unwrap().is_true());
    };
    // An invalidated session leaves the same behind.
    loses(&scene, harm, |lost| {
        matches!(lost, Lost::SessionGone { .. })
    });
}

pub fn a_released_contender_key_is_noticed(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let harm = |permit: &Permit| {
        let id = session(permit);
        let path = format!("/v1/kv/{}?release={id}", scene.contender_key(&id));
        assert!(scene.admin().put(&path, b"").unwrap().is_true());
    };
    let taken = |lost: &Lost| matches!(lost, Lost::ContenderKeyTaken { .. });
    loses(&scene, harm, taken);
}

pub fn an_overwritten_contender_key_is_still_its_sessions(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let (one, other) = (scene.semaphore(1), scene.semaphore(1));
    let permit = scene.acquire(&one);
    let waiting = scene.start_acquire(&other);
    wait_until("both contend", || scene.contenders().len() == 2);
    let key = scene.contender_key(&session(&permit));
    let path = format!("/v1/kv/{key}");
    assert!(scene.admin().put(&path, b"overwritten").unwrap().is_true());
    // The write resets the key's lock index, so the sequencer is stale.
    let status = scene.run(one.verify(&permit.sequencers()[0])).unwrap();
    assert_eq!(status, SequencerStatus::Stale);
    assert!(permit.is_held());
    assert_eq!(scene.holders(), [session(&permit)]);
    scene.release(permit);
    let permit = scene.finish(waiting).unwrap();
    scene.release(permit);
    ends(&scene, &[&one, &other]);
}

pub fn a_deregistered_node_is_noticed(backend: &impl Backend) {
    let agent = Agent::start().unwrap();
    let scene = Scene::on(backend, &agent);
    let node = r#"{"Node":"elsewhere","Address":"127.0.0.1"}"#;
    scene
        .admin()
        .put("/v1/catalog/register", node.as_bytes())
        .unwrap();
    let semaphore = scene.connect(scene.builder(1).node("elsewhere"));
    let permit = scene.acquire(&semaphore);
    assert_eq!(scene.session_info(&session(&permit))["Node"], "elsewhere");
    scene
        .admin()
        .put("/v1/catalog/deregister", br#"{"Node":"elsewhere"}"#)
        .unwrap();
    let lost = scene.run(permit.lost());
    assert!(matches!(lost, Lost::SessionGone { .. }), "{lost:?}");
    scene.run(permit.release()).unwrap_err();
    agent.assert_nothing_left(scene.prefix());
}
