//! Acquiring and releasing when nothing goes wrong.

use semaphore_core::Prefix;
use semaphore_core::sans_io::Dialect;
use transport_mock::consul::Entry;
use transport_mock::{MockConsul, RequestKind};

use crate::support::spy::{Spy, json};
use crate::support::steps::record_write;
use crate::support::*;

/// The flags that HashiCorp's clients use for semaphores.
const GO_FLAGS: u64 = 0xe0f6_9a2b_aa41_4de0;

#[test]
fn a_free_slot_is_acquired_and_given_back() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    world.run(async {
        let permit = semaphore.acquire().await.expect("a free slot");
        assert!(permit.is_held());
        assert_eq!(permit.permits(), 1);
        assert_eq!(holders(&world).len(), 1);
        permit.release().await.expect("released");
    });
    assert_nothing_left(&world);
}

#[test]
fn a_permit_that_is_dropped_is_released_in_the_background() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let before = world.now();
    drop(permit);
    assert_eq!(world.now(), before, "the drop waited");
    assert_eq!(holders(&world).len(), 1, "the drop did not wait for Consul");
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn a_slot_that_was_given_back_is_acquired_again() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    world.run(async {
        for _ in 0..5 {
            let permit = semaphore.acquire().await.expect("a free slot");
            permit.release().await.expect("released");
        }
    });
    assert_nothing_left(&world);
}

#[test]
fn the_contender_key_shows_the_value_and_is_tied_to_the_holding_session() {
    let world = MockConsul::new(1);
    let semaphore = connect(builder(1).value("node-1 \u{2713}"), &world.client("a"));
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let [session] = holders(&world).try_into().expect("one holder");
    let key = format!("{PREFIX}/{session}");
    assert_eq!(contender_keys(&world), std::slice::from_ref(&key));
    world.consul(|consul, _| {
        let entry = consul.entry(&key).expect("a contender key");
        assert_eq!(entry.value(), "node-1 \u{2713}".as_bytes());
        // Each touch leaves another number in the flags: it was entered, and claimed.
        let mark = 2 << 23;
        assert_eq!(entry.flags(), GO_FLAGS ^ mark);
        assert_eq!(entry.session(), Some(session.as_str()));
    });
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn the_record_is_gos() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 3);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let [session] = holders(&world).try_into().expect("one holder");
    let lock_key = Prefix::new(PREFIX).expect("a prefix").record_key();
    world.consul(|consul, _| {
        let entry = consul.entry(&lock_key).expect("a record");
        assert_eq!(entry.flags(), GO_FLAGS);
        let expected = format!(r#"{{"Limit":3,"Holders":{{"{session}":true}}}}"#);
        let value: serde_json::Value = serde_json::from_slice(entry.value()).expect("JSON");
        let expected: serde_json::Value = serde_json::from_str(&expected).expect("JSON");
        assert_eq!(value, expected);
    });
    assert_eq!(record(&world).expect("a record").dialect(), Dialect::Map);
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn the_record_is_created_at_index_zero_and_changed_by_its_index() {
    let world = MockConsul::new(1);
    let spy = Spy::on(&world);
    let semaphore = semaphore(&world, "a", 2);
    let lock_key = Prefix::new(PREFIX).expect("a prefix").record_key();
    let index = |world: &MockConsul| {
        world.consul(|consul, _| consul.entry(&lock_key).map(Entry::modify_index))
    };
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let after_claim = index(&world).expect("a record");
    world.run(permit.release()).expect("released");

    let writes: Vec<_> = spy.requests().iter().filter_map(record_write).collect();
    let [before @ .., claim, withdraw] = &writes[..] else {
        panic!("a claim and a release: {writes:?}");
    };
    // It may be created with the claim, or empty before it.
    assert!(before.len() <= 1, "{writes:?}");
    for create in before {
        assert_eq!(create.holders(), [""; 0]);
    }
    let indices: Vec<bool> = writes.iter().map(|write| write.index == 0).collect();
    let only_first: Vec<bool> = (0..writes.len()).map(|at| at == 0).collect();
    assert_eq!(indices, only_first, "{writes:?}");
    assert_eq!(claim.holders().len(), 1);
    assert_eq!(withdraw.index, after_claim);
    assert_eq!(withdraw.holders(), [""; 0]);
    for write in &writes {
        assert_eq!(write.flags, GO_FLAGS);
    }
    assert_nothing_left(&world);
}

#[test]
fn a_session_is_tied_to_its_ttl_alone() {
    let world = MockConsul::new(1);
    let spy = Spy::on(&world);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let [create] = &spy.of(RequestKind::SessionCreate)[..] else {
        panic!("one session");
    };
    assert_eq!(
        json(create),
        serde_json::json!({
            "Name": format!("semaphore {PREFIX}"),
            "TTL": "15s",
            "LockDelay": "15s",
            "Behavior": "delete",
            "NodeChecks": [],
        })
    );
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn nothing_is_sent_before_the_first_acquisition() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    world.advance(secs(600));
    assert_eq!(world.stats().total_requests(), 0);
    drop(semaphore);
    world.advance(secs(600));
    assert_eq!(world.stats().total_requests(), 0);
}

#[test]
fn nothing_is_sent_when_nobody_waits_or_holds_any_more() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.run(permit.release()).expect("released");
    world.advance(KEPT);
    let before = world.stats();
    assert_eq!(before.open, 0, "a poll was left open");
    world.advance(secs(600));
    assert_eq!(world.stats(), before);
    assert_nothing_left(&world);
}

#[test]
fn a_holder_keeps_its_slot_for_as_long_as_it_likes() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    for _ in 0..60 {
        world.advance(secs(60));
        assert!(permit.is_held());
        let remaining = permit.remaining();
        assert!(remaining > secs(8), "{remaining:?}");
    }
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}
