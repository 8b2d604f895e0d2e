//! Invalid input is reported before anything is sent.

use std::error::Error as _;
use std::time::Duration;

use semaphore_core::error::Flaw;
use semaphore_core::{Builder, Error, InvalidInput, Prefix, Semaphore, SessionId, Token};
use transport_mock::MockConsul;

use crate::support::*;

/// The error of connecting. Asserts that nothing was sent.
#[track_caller]
fn refused(builder: Builder) -> InvalidInput {
    let world = MockConsul::new(1);
    let error = builder
        .clone()
        .connect(world.client("a"))
        .expect_err("invalid");
    let blocking = builder
        .connect_blocking(world.client("a"))
        .expect_err("invalid");
    assert_eq!(error.to_string(), blocking.to_string());
    world.advance(secs(60));
    assert_eq!(world.stats().total_requests(), 0);
    let source = error.source().expect("a source").to_string();
    match error {
        Error::InvalidInput { input, .. } => {
            assert_eq!(source, input.to_string());
            assert!(!source.ends_with('.') && !source.contains('\n'), "{source}");
            input
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn prefixes_that_consul_would_change_or_that_name_nothing() {
    for prefix in ["", "/"] {
        let found = refused(Semaphore::builder(prefix, 1));
        assert_eq!(found, flawed(prefix, Flaw::Empty));
    }
    for prefix in ["a//b", "//a", "a//", "//"] {
        let found = refused(Semaphore::builder(prefix, 1));
        assert_eq!(found, flawed(prefix, Flaw::EmptySegment));
    }
    for prefix in [".", "..", "a/./b", "a/../b", "a/..", "./a", "../a"] {
        let found = refused(Semaphore::builder(prefix, 1));
        assert_eq!(found, flawed(prefix, Flaw::DotSegment));
    }
    for prefix in ["a\nb", "a\0", "\u{7f}", "a\r\nHost: b", "a\u{85}b"] {
        let found = refused(Semaphore::builder(prefix, 1));
        assert_eq!(found, flawed(prefix, Flaw::ControlCharacter));
    }
    for prefix in [" a", "a ", "/a/b /"] {
        let found = refused(Semaphore::builder(prefix, 1));
        assert_eq!(found, flawed(prefix, Flaw::OuterSpace));
    }
    for prefix in [".lock", "a/.lock", "/a/.lock/"] {
        let found = refused(Semaphore::builder(prefix, 1));
        assert_eq!(found, flawed(prefix, Flaw::OfRecord));
    }
    for prefix in ["a%20b", "a%2Fb", "%41/b"] {
        let found = refused(Semaphore::builder(prefix, 1));
        assert_eq!(found, flawed(prefix, Flaw::Encoded));
    }
    let found = refused(Semaphore::builder("a\u{a0}b", 1));
    assert_eq!(found, flawed("a\u{a0}b", Flaw::Unprintable('\u{a0}')));
    let found = refused(Semaphore::builder("x".repeat(200_000), 1));
    let beginning = "x".repeat(200);
    assert_eq!(found, flawed(&beginning, Flaw::TooLong(200_000)));
}

fn flawed(prefix: &str, flaw: Flaw) -> InvalidInput {
    let prefix = prefix.to_owned();
    InvalidInput::Prefix { prefix, flaw }
}

#[test]
fn prefixes_that_look_odd_and_work() {
    for prefix in [
        "a",
        "a/b",
        "/a/b",
        "a/b/",
        "a b",
        "a?b#c%d",
        "\u{e4}\u{2713}",
        "a/.b",
        "a/b.c",
        "...",
        "a&b=c+d",
        "a%2-b",
    ] {
        let world = MockConsul::new(1);
        let semaphore = connect(Semaphore::builder(prefix, 1), &world.client("a"));
        let permit = world
            .run(semaphore.acquire_timeout(secs(5)))
            .unwrap_or_else(|error| panic!("{prefix:?}: {error:?}\n{}", world.trace()));
        let lock_key = Prefix::new(prefix).expect("a prefix").record_key();
        assert_eq!(lock_key, format!("{}/.lock", prefix.trim_matches('/')));
        assert!(world.consul(|consul, _| consul.entry(&lock_key).is_some()));
        world.run(permit.release()).expect("released");
        assert_eq!(world.consul(|consul, _| consul.entries("").count()), 1);
        world.advance(KEPT);
        assert_eq!(session_count(&world), 0);
    }
}

#[test]
fn a_semaphore_without_slots() {
    assert_eq!(refused(builder(0)), InvalidInput::LimitZero);
}

#[test]
fn more_slots_than_a_transaction_has_room_for() {
    let (limit, max) = (5_001, 5_000);
    let found = refused(builder(limit));
    assert_eq!(
        found.to_string(),
        "the limit is 5001, and a semaphore has at most 5000 slots: split it over several prefixes"
    );
    assert_eq!(found, InvalidInput::LimitTooLarge { limit, max });
    assert_takes(builder(max));
}

#[test]
fn ttls_that_consul_does_not_take() {
    for ttl in [
        Duration::ZERO,
        Duration::from_nanos(9_999_999_999),
        secs(24 * 60 * 60) + Duration::from_nanos(1),
        Duration::MAX,
    ] {
        assert_eq!(refused(builder(1).ttl(ttl)), InvalidInput::Ttl(ttl));
    }
    for ttl in [secs(10), secs(24 * 60 * 60)] {
        assert_takes(builder(1).ttl(ttl));
    }
}

#[test]
fn a_lock_delay_over_a_minute() {
    let delay = secs(60) + Duration::from_nanos(1);
    let found = refused(builder(1).lock_delay(delay));
    assert_eq!(found, InvalidInput::LockDelay(delay));
    for delay in [secs(0), secs(60)] {
        assert_takes(builder(1).lock_delay(delay));
    }
}

#[test]
fn a_value_over_what_fits_into_a_claim() {
    for len in [4 * 1024 + 1, 320 * 1024] {
        let found = refused(builder(1).value(vec![b'x'; len]));
        let max = 4 * 1024;
        assert_eq!(found, InvalidInput::ValueTooLarge { len, max });
    }
    let found = refused(builder(1).value(vec![b'x'; 320 * 1024 + 1]));
    let (len, max) = (320 * 1024 + 1, 320 * 1024);
    assert_eq!(found, InvalidInput::ValueTooLarge { len, max });
    assert_takes(builder(1).value(vec![b'x'; 4 * 1024]));
    assert_takes(builder(1).value(vec![0, 255, b'\n']));
    assert_takes(builder(1).value(""));
}

#[test]
fn tokens_that_a_header_can_not_carry() {
    for token in [
        "",
        "a b",
        "secret\r\nX-Other: 1",
        "secret\n",
        "\u{e4}",
        "a\0b",
    ] {
        let found = refused(builder(1).token(token));
        assert_eq!(found, InvalidInput::Token);
        assert!(!found.to_string().contains("secret"));
        assert!(!format!("{found:?}").contains("secret"));
        assert!(Token::new(token).is_err());
    }
}

#[test]
fn names_that_are_empty_or_have_control_characters() {
    for name in ["", "a\nb", "\0"] {
        for builder in [
            builder(1).session_name(name),
            builder(1).node(name),
            builder(1).node_checks(["serfHealth", name]),
            builder(1).service_checks([name]),
            builder(1).datacenter(name),
            builder(1).namespace(name),
            builder(1).partition(name),
        ] {
            let found = refused(builder);
            assert!(
                matches!(&found, InvalidInput::Name { name: given, .. } if given == name),
                "{found:?}"
            );
        }
    }
}

#[test]
fn names_that_are_too_long_for_a_url() {
    let name = "x".repeat(401);
    for builder in [
        builder(1).datacenter(&name),
        builder(1).namespace(&name),
        builder(1).partition("\u{e4}".repeat(67)),
    ] {
        let found = refused(builder);
        let is_told = matches!(
            found,
            InvalidInput::NameTooLong {
                len: 401 | 402,
                max: 400,
                ..
            }
        );
        assert!(is_told, "{found:?}");
    }
    let longest = builder(1).datacenter("x".repeat(400));
    assert!(longest.connect(MockConsul::new(1).client("a")).is_ok());
}

#[test]
fn the_first_thing_that_is_wrong_is_told() {
    let found = refused(Semaphore::builder("", 0).ttl(secs(1)));
    assert_eq!(found, flawed("", Flaw::Empty));
    let found = refused(builder(1).lock_delay(secs(61)).ttl(secs(1)));
    assert_eq!(found, InvalidInput::LockDelay(secs(61)));
    // A later valid value does not repair it.
    let found = refused(builder(1).ttl(secs(1)).ttl(secs(20)));
    assert_eq!(found, InvalidInput::Ttl(secs(1)));
}

#[test]
fn what_is_no_session_id() {
    for id in ["", "x", "4ca8e74b-6350-7587-addf-a18084928f3c/.."] {
        assert_eq!(
            SessionId::new(id).expect_err("no id"),
            InvalidInput::SessionId(id.into())
        );
    }
}

#[test]
fn numbers_of_permits_that_can_not_be_served() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 3);
    let blocking = builder(3)
        .connect_blocking(world.client("b"))
        .expect("valid settings");
    for wanted in [0, 4, u32::MAX] {
        for result in [
            world.run(semaphore.acquire_many(wanted)).map(drop),
            world
                .run(semaphore.acquire_many_timeout(wanted, secs(1)))
                .map(drop),
            world.run(semaphore.try_acquire_many(wanted)).map(drop),
            blocking.acquire_many(wanted).map(drop),
            blocking.acquire_many_timeout(wanted, secs(1)).map(drop),
            blocking.try_acquire_many(wanted).map(drop),
        ] {
            match result {
                Err(Error::InvalidInput {
                    input: InvalidInput::PermitsZero,
                    ..
                }) => assert_eq!(wanted, 0),
                Err(Error::InvalidInput {
                    input:
                        InvalidInput::PermitsOverLimit {
                            wanted: told,
                            limit: 3,
                        },
                    ..
                }) => {
                    assert_eq!(told, wanted);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    world.advance(secs(60));
    assert_eq!(world.stats().total_requests(), 0);
}

/// Asserts that it connects, acquires and releases.
#[track_caller]
fn assert_takes(builder: Builder) {
    let world = MockConsul::new(1);
    let semaphore = connect(builder, &world.client("a"));
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.run(permit.release()).expect("released");
    // With the longest lease.
    world.advance(secs(24));
    assert_nothing_left(&world);
}
