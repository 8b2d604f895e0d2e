//! What others see in the key/value store.

use serde_json::json;

use crate::Backend;
use crate::scene::{Scene, session, value};

/// The magic number of Go's client.
pub const GO_FLAGS: u64 = 0xe0f6_9a2b_aa41_4de0;

pub fn the_contender_key_shows_value_and_flags(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let bytes: Vec<u8> = (0..=255).collect();
    let semaphore = scene.connect(scene.builder(1).value(bytes.clone()));
    let permit = scene.acquire(&semaphore);
    let id = session(&permit);
    let entry = scene.entry(&scene.contender_key(&id)).unwrap();
    assert_eq!(value(&entry), bytes);
    // The highest of these bits count how often the key was written (docs/PROTOCOL.md, "State").
    let flags = entry["Flags"].as_u64().map(|flags| flags ^ GO_FLAGS);
    assert_eq!(flags.map(|flags| flags & 0x7f_ffff), Some(0));
    assert!(flags.is_some_and(|flags| (1..512).contains(&(flags >> 23))));
    assert_eq!(entry["Session"], id.as_str());
    scene.release(permit);
    drop(semaphore);
    scene.assert_nothing_left();
}

pub fn the_record_is_written_as_go_does(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let semaphore = scene.semaphore(3);
    let permit = scene.acquire(&semaphore);
    let holders = json!({ session(&permit): true });
    assert_eq!(scene.record(), json!({ "Limit": 3, "Holders": holders }));
    let entry = scene.entry(&scene.record_key()).unwrap();
    assert_eq!(entry["Flags"].as_u64(), Some(GO_FLAGS));
    scene.release(permit);
    assert_eq!(scene.record(), json!({ "Limit": 3, "Holders": {} }));
    drop(semaphore);
    scene.assert_nothing_left();
}
