//! Foreign content under the prefix.

use semaphore_core::Error;
use serde_json::{Value, json};

use crate::Backend;
use crate::keys::GO_FLAGS;
use crate::scene::{Scene, session};

pub fn another_limit_is_a_conflict_that_names_both(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let (three, five) = (scene.semaphore(3), scene.semaphore(5));
    let permit = scene.acquire(&three);
    let refused = scene.run(five.acquire());
    assert!(
        matches!(
            refused,
            Err(Error::LimitConflict {
                ours: 5,
                theirs: 3,
                ..
            })
        ),
        "{refused:?}"
    );
    assert!(permit.is_held());
    scene.release(permit);
    scene.run(five.shutdown());
    drop((three, five));
    scene.assert_nothing_left();
}

pub fn another_limit_is_adopted_when_asked_for(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let one = scene.semaphore(2);
    let other = scene.connect(scene.builder(5).adopt_limit());
    let permit = scene.acquire(&one);
    let adopted = scene.acquire(&other);
    assert!(scene.run(other.try_acquire()).unwrap().is_err());
    let three = scene.run(other.acquire_many(3));
    assert!(
        matches!(three, Err(Error::InvalidInput { .. })),
        "{three:?}"
    );
    assert_eq!(scene.record()["Limit"], 2);
    scene.release(adopted);
    scene.release(permit);
    scene.run(other.shutdown());
    drop((one, other));
    scene.assert_nothing_left();
}

pub fn a_record_of_something_else_is_left_alone(backend: &impl Backend) {
    for foreign in ["<html>", "", "[]", r#"{"Holders":{}}"#, r#"{"Limit":0}"#] {
        let scene = Scene::shared(backend);
        scene.write_record(foreign, GO_FLAGS);
        is_left_alone(&scene, foreign);
    }
}

pub fn flags_of_something_else_are_left_alone(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let record = r#"{"Limit":3,"Holders":{}}"#;
    // The flags of a lock.
    scene.write_record(record, 0x2ddc_cbc0_58a5_0c18);
    is_left_alone(&scene, record);
}

fn is_left_alone<B: Backend>(scene: &Scene<'_, B>, content: &str) {
    let before = scene.entry(&scene.record_key()).unwrap();
    let semaphore = scene.semaphore(3);
    for refused in [
        scene.run(semaphore.acquire()).map(drop),
        scene.run(semaphore.try_acquire()).map(drop),
        scene.run(semaphore.resize(4)),
        scene.run(semaphore.destroy()),
        scene.run(semaphore.inspect()).map(drop),
    ] {
        assert!(
            matches!(&refused, Err(Error::Conflict { key, .. }) if *key == scene.record_key()),
            "{content}: {refused:?}"
        );
    }
    scene.run(semaphore.shutdown());
    assert_eq!(scene.entry(&scene.record_key()).unwrap(), before);
    assert!(scene.contenders().is_empty());
    scene
        .admin()
        .delete(&format!("/v1/kv/{}", scene.record_key()))
        .unwrap();
    scene.assert_nothing_left();
}

pub fn each_dialect_of_the_record_is_kept(backend: &impl Backend) {
    for (empty, flags) in [
        (r#"{"Limit":2,"Holders":{}}"#, GO_FLAGS),
        (r#"{"Limit":2,"Holders":[]}"#, 0),
        (r#"{"limit":2,"holders":[]}"#, 0),
    ] {
        let scene = Scene::shared(backend);
        scene.write_record(empty, flags);
        let semaphore = scene.semaphore(2);
        let permit = scene.acquire(&semaphore);
        let id = session(&permit);
        let holders = if empty.contains("{}") {
            json!({ &id: true })
        } else {
            json!([&id])
        };
        let record = scene.record();
        let name = if empty.contains("Limit") {
            "Holders"
        } else {
            "holders"
        };
        assert_eq!(record[name], holders, "{record}");
        assert_eq!(record.as_object().unwrap().len(), 2, "{record}");
        scene.release(permit);
        let entry = scene.entry(&scene.record_key()).unwrap();
        assert_eq!(entry["Flags"].as_u64(), Some(flags));
        let empty: Value = serde_json::from_str(empty).unwrap();
        assert_eq!(scene.record(), empty);
        drop(semaphore);
        scene.assert_nothing_left();
    }
}
