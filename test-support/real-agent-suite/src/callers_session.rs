//! A session that the caller makes and destroys.

use semaphore_core::{Error, SessionId};

use crate::Backend;
use crate::scene::{Scene, session};

const OPTIONS: &str = r#"{"TTL":"15s","NodeChecks":[],"Behavior":"delete"}"#;

fn make<B: Backend>(scene: &Scene<'_, B>) -> SessionId {
    let id = scene.admin().create_session(OPTIONS).unwrap();
    SessionId::new(id).unwrap()
}

pub fn a_session_of_the_callers_carries_a_slot_and_stays(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let id = make(&scene);
    let semaphore = scene.connect(scene.builder(2).session(id.clone()));
    for _ in 0..3 {
        let permit = scene.acquire(&semaphore);
        assert_eq!(session(&permit), id.as_str());
        assert_eq!(scene.holders(), [id.as_str()]);
        scene.release(permit);
        assert!(scene.contenders().is_empty());
        assert!(scene.holders().is_empty());
        assert_eq!(scene.session_info(id.as_str())["ID"], id.as_str());
    }
    let many = scene.run(semaphore.acquire_many(2));
    assert!(matches!(many, Err(Error::InvalidInput { .. })), "{many:?}");
    scene.run(semaphore.shutdown());
    scene.admin().destroy_session(id.as_str()).unwrap();
    scene.assert_nothing_left();
}

pub fn a_session_of_the_callers_is_not_used_twice(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let id = make(&scene);
    let one = scene.connect(scene.builder(2).session(id.clone()));
    let other = scene.connect(scene.builder(2).session(id.clone()));
    let permit = scene.acquire(&one);
    let twice = scene.run(other.acquire());
    assert!(
        matches!(&twice, Err(Error::SessionInUse { session, .. }) if *session == id),
        "{twice:?}"
    );
    assert!(permit.is_held());
    assert_eq!(scene.contenders(), [id.as_str()]);
    scene.release(permit);
    let permit = scene.acquire(&other);
    scene.release(permit);
    scene.admin().destroy_session(id.as_str()).unwrap();
    scene.assert_nothing_left();
}

pub fn a_session_of_the_callers_that_is_gone_is_an_error(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let id = make(&scene);
    scene.admin().destroy_session(id.as_str()).unwrap();
    let semaphore = scene.connect(scene.builder(2).session(id.clone()));
    let acquired = scene.run(semaphore.acquire());
    assert!(
        matches!(&acquired, Err(Error::SessionGone { session, .. }) if *session == id),
        "{acquired:?}"
    );
    scene.run(semaphore.shutdown());
    scene.assert_nothing_left();
}
