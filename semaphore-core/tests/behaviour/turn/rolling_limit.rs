//! A rolling deploy changes the limit. Old and new instances run side by side, and the record takes
//! the new limit when nobody holds (`resize_if_idle`).

use semaphore_core::adapter::{Method, Request, Transport as _};
use semaphore_core::{Builder, Error, InvalidInput, Permit, Refusal, Semaphore};
use transport_mock::{MockConsul, MockProcess};

use crate::support::stranger::Stranger;
use crate::support::*;

/// An instance of the old version, which accepts any limit.
fn old(world: &MockConsul, host: &str) -> Semaphore {
    connect(builder(2).adopt_limit(), &world.client(host))
}

/// An instance of the new version.
fn new(world: &MockConsul, host: &str) -> Semaphore {
    connect(
        builder(4).adopt_limit().resize_if_idle(),
        &world.client(host),
    )
}

/// An instance that refuses other limits.
fn strict(world: &MockConsul, host: &str) -> Semaphore {
    connect(builder(4).resize_if_idle(), &world.client(host))
}

fn limit(world: &MockConsul) -> u32 {
    record(world).expect("a record").limit()
}

fn acquire(world: &MockConsul, semaphore: &Semaphore) -> Permit {
    world.run(semaphore.acquire()).expect("a slot")
}

fn release(world: &MockConsul, permit: Permit) {
    world.run(permit.release()).expect("released");
}

/// The record of a semaphore with this limit that nobody uses any more.
fn used_before(limit: u32) -> MockConsul {
    let world = MockConsul::new(3);
    let semaphore = semaphore(&world, "before", limit);
    release(&world, acquire(&world, &semaphore));
    world.run(semaphore.shutdown());
    world
}

fn is_limit_conflict(error: &Error) -> bool {
    matches!(
        error,
        Error::LimitConflict {
            ours: 4,
            theirs: 2,
            ..
        }
    )
}

#[test]
fn the_write_that_takes_the_first_slot_writes_the_limit() {
    for builds in [new, strict] {
        let world = used_before(2);
        let semaphore = builds(&world, "a");
        let permit = acquire(&world, &semaphore);
        assert_eq!((limit(&world), holders(&world).len()), (4, 1));
        let all = world.run(semaphore.acquire_many(3)).expect("the others");
        assert_eq!(holders(&world).len(), 4);
        release(&world, permit);
        release(&world, all);
        assert_nothing_left(&world);
    }
}

#[test]
fn a_smaller_limit_is_written_alike() {
    let world = used_before(7);
    let semaphore = strict(&world, "a");
    let all = world.run(semaphore.acquire_many(4)).expect("all");
    assert_eq!(limit(&world), 4);
    let more = world.run(semaphore.try_acquire()).expect("tried");
    assert!(
        matches!(more, Err(Refusal::LimitReached { free: 0, limit: 4 })),
        "{more:?}"
    );
    release(&world, all);
}

#[test]
fn an_instant_try_writes_it_too() {
    let world = used_before(2);
    let tried = world.run(strict(&world, "a").try_acquire_many(4));
    let all = tried.expect("tried").expect("an idle record is free");
    assert_eq!((limit(&world), holders(&world).len()), (4, 4));
    release(&world, all);
}

#[test]
fn the_spelling_of_other_clients_is_kept() {
    let world = MockConsul::new(3);
    let lock = "/v1/kv/service/db/.lock?flags=0";
    let theirs = Request::new(Method::Put, lock).with_body(r#"{"limit":2,"holders":[]}"#);
    let written = world.run(world.client("go").send(theirs)).expect("written");
    assert_eq!(written.body(), b"true");
    let permit = acquire(&world, &strict(&world, "a"));
    release(&world, permit);
    let text = world.consul(|consul, _| {
        let entry = consul.entry("service/db/.lock").expect("a record");
        String::from_utf8_lossy(entry.value()).into_owned()
    });
    assert!(text.contains(r#""limit":4"#), "{text}");
    assert!(text.contains(r#""holders":[]"#), "{text}");
}

#[test]
fn where_somebody_holds_the_other_limit_is_refused_at_once_and_nothing_is_written() {
    let world = MockConsul::new(3);
    let held = acquire(&world, &old(&world, "b"));
    let semaphore = strict(&world, "a");
    let before = record(&world);
    for refused in [
        world.run(semaphore.acquire()).map(drop),
        world.run(semaphore.acquire_timeout(secs(5))).map(drop),
        world.run(semaphore.try_acquire()).map(drop),
    ] {
        let error = refused.expect_err("somebody holds");
        assert!(is_limit_conflict(&error), "{error:?}");
    }
    assert_eq!(record(&world), before);
    assert!(held.is_held());
    release(&world, held);
    let permit = acquire(&world, &semaphore);
    assert_eq!(limit(&world), 4);
    release(&world, permit);
    assert_nothing_left(&world);
}

#[test]
fn with_the_limit_adopted_the_record_s_holds_until_nobody_does() {
    let world = MockConsul::new(3);
    let (first, second) = (old(&world, "b"), new(&world, "a"));
    let held = acquire(&world, &first);
    let beside = acquire(&world, &second);
    assert_eq!((limit(&world), holders(&world).len()), (2, 2));
    let tried = world.run(second.try_acquire()).expect("tried");
    assert!(
        matches!(tried, Err(Refusal::LimitReached { free: 0, limit: 2 })),
        "{tried:?}"
    );
    let three = world.run(second.acquire_many(3)).expect_err("too many yet");
    assert!(
        matches!(
            three,
            Error::InvalidInput {
                input: InvalidInput::PermitsOverLimit {
                    wanted: 3,
                    limit: 2
                },
                ..
            }
        ),
        "{three:?}"
    );
    release(&world, held);
    release(&world, beside);
    let all = world.run(second.acquire_many(4)).expect("all of the new");
    assert_eq!(limit(&world), 4);
    release(&world, all);
}

#[test]
fn old_instances_go_on_by_the_new_limit() {
    let world = MockConsul::new(3);
    let (first, second) = (old(&world, "b"), new(&world, "a"));
    release(&world, acquire(&world, &first));
    release(&world, acquire(&world, &second));
    assert_eq!(limit(&world), 4);
    let held: Vec<_> = (0..4).map(|_| acquire(&world, &first)).collect();
    assert_eq!((limit(&world), holders(&world).len()), (4, 4));
    let waiting = world.start({
        let second = second.clone();
        async move { second.acquire().await }
    });
    for permit in held {
        release(&world, permit);
    }
    let permit = world.run(waiting).expect("a slot");
    release(&world, permit);
    assert_nothing_left(&world);
}

#[test]
fn a_holder_that_died_is_waited_for_until_its_slot_is_free() {
    for builds in [new, strict] {
        let world = MockConsul::new(3);
        let process = MockProcess::new(&world.client("b"));
        let dying = builder(1).connect(process.clone()).expect("settings");
        let held = acquire(&world, &dying);
        let began = world.now();
        process.kill();
        drop(held);
        let semaphore = builds(&world, "a");
        // The old limit has only one slot.
        let early = world.run(semaphore.acquire_timeout(secs(5)));
        let error = early.expect_err("its session lives");
        let is_told = matches!(error, Error::Timeout { .. } | Error::LimitConflict { .. });
        assert!(is_told, "{error:?}");
        let permit = loop {
            match world.run(semaphore.acquire()) {
                Ok(permit) => break permit,
                // As long as its key exists, it may still hold.
                Err(Error::LimitConflict { .. }) => world.advance(secs(1)),
                Err(error) => panic!("{error:?}"),
            }
        };
        let waited = world.now().saturating_since(began);
        // PROMISES: 40 to 46 s after the crash.
        assert!(waited >= secs(30) && waited <= secs(46), "{waited:?}");
        assert_eq!((limit(&world), holders(&world).len()), (4, 1));
        release(&world, permit);
    }
}

#[test]
fn a_holder_that_is_cut_off_believes_no_more_when_the_limit_changes() {
    let world = MockConsul::new(3);
    let cut_off = old(&world, "b");
    let held = acquire(&world, &cut_off);
    world.partition("b");
    let all = world
        .run(new(&world, "a").acquire_many(2))
        .expect("both slots");
    assert!(!held.is_held(), "two would hold");
    assert_eq!(limit(&world), 4);
    release(&world, all);
}

#[test]
fn whoever_came_before_is_served_before_the_limit_changes() {
    let world = MockConsul::new(3);
    let first = old(&world, "b");
    let both = world.run(first.acquire_many(2)).expect("both slots");
    let waiting = old(&world, "c");
    let waiting = world.start(async move { waiting.acquire().await });
    world.advance(secs(1));
    let last = new(&world, "a");
    let last = world.start(async move { last.acquire().await });
    world.advance(secs(1));
    release(&world, both);
    let served = world.run(waiting).expect("a slot");
    assert_eq!(limit(&world), 2);
    let beside = world.run(last).expect("a slot");
    assert_eq!((limit(&world), holders(&world).len()), (2, 2));
    release(&world, served);
    release(&world, beside);
}

#[test]
fn whoever_stands_ahead_and_never_claims_is_passed_by() {
    let world = used_before(2);
    let _stuck = Stranger::enters(&world);
    let semaphore = strict(&world, "a");
    let tried = world.run(semaphore.try_acquire()).expect("tried");
    let waits = matches!(
        tried,
        Err(Refusal::OthersWait {
            waiters: 1,
            free: 2
        })
    );
    assert!(waits, "{tried:?}");
    let began = world.now();
    let permit = acquire(&world, &semaphore);
    let waited = world.now().saturating_since(began);
    assert!(waited <= secs(2), "{waited:?}");
    assert_eq!((limit(&world), holders(&world).len()), (4, 1));
    release(&world, permit);
}

#[test]
fn two_versions_that_both_write_their_limit_fail_nobody_and_exceed_none() {
    let world = MockConsul::new(3);
    let instances = ["a", "b", "c", "d"].map(|host| {
        let limit = if host < "c" { 2 } else { 4 };
        let builder: Builder = builder(limit).adopt_limit().resize_if_idle();
        let semaphore = connect(builder, &world.client(host));
        let time = world.client(host);
        world.start(async move {
            use semaphore_core::adapter::Runtime as _;
            for turn in 0..20 {
                let permit = semaphore.acquire().await?;
                time.sleep(millis(40)).await;
                permit.release().await?;
                // Each version is alone now and then.
                let pause = if limit == 2 { 900 } else { 1_300 };
                time.sleep(millis(if turn % 5 == 0 { pause } else { 10 }))
                    .await;
            }
            semaphore.shutdown().await;
            Ok::<_, Error>(())
        })
    });
    let mut limits = Vec::new();
    world.run(async {
        for _ in 0..3_000 {
            if let Some(record) = record(&world) {
                assert!(record.holders().len() <= record.limit() as usize);
                limits.push(record.limit());
            }
            world.sleep(millis(5)).await;
        }
    });
    for instance in instances {
        world.run(instance).expect("nobody fails");
    }
    limits.dedup();
    assert!(limits.len() > 2, "it went back and forth: {limits:?}");
    assert_nothing_left(&world);
}

/// The simulator found this.
#[test]
fn who_wants_more_than_the_limit_that_takes_the_others_place_fails_and_keeps_nobody_out() {
    let world = used_before(6);
    let semaphore = new(&world, "new");
    let wide = world.run(semaphore.acquire_many(5));
    assert!(
        matches!(
            wide,
            Err(Error::InvalidInput {
                input: InvalidInput::PermitsOverLimit {
                    wanted: 5,
                    limit: 4
                },
                ..
            })
        ),
        "{wide:?}"
    );
    release(&world, acquire(&world, &semaphore));
    assert_eq!(limit(&world), 4);
}
