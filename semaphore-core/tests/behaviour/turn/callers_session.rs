//! Contending with a session that the caller created and will end.

use semaphore_core::sans_io::{Method, Response};
use semaphore_core::{Error, Lost, Refusal, Semaphore, SessionId};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::support::spy::Spy;
use crate::support::steps::{self, Is};
use crate::support::stranger::{Stranger, operate};
use crate::support::*;

const WITH_TTL: &str = r#"{"NodeChecks":[],"TTL":"20s","Behavior":"delete"}"#;

fn with(world: &MockConsul, host: &str, limit: u32, own: &Stranger) -> Semaphore {
    let builder = builder(limit).session(own.session.clone());
    connect(builder, &world.client(host))
}

#[test]
fn it_is_used_and_renewed_and_not_destroyed() {
    let world = MockConsul::new(1);
    let own = Stranger::session_with(&world, WITH_TTL);
    let spy = Spy::on(&world);
    let semaphore = with(&world, "a", 1, &own);
    for _ in 0..3 {
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        assert_eq!(holders(&world), [own.session.to_string()]);
        assert_eq!(contender_keys(&world), [own.key()]);
        world.advance(secs(100));
        assert!(permit.is_held());
        let before = world.now();
        world.run(permit.release()).expect("released");
        assert!(
            world.now().saturating_since(before) < millis(100),
            "released at once"
        );
        assert_eq!(holders(&world), [""; 0]);
        assert_eq!(contender_keys(&world), [""; 0]);
        assert!(own.is_alive(&world));
    }
    assert!(spy.of(RequestKind::SessionCreate).is_empty());
    assert!(spy.of(RequestKind::SessionDestroy).is_empty());
    own.leaves(&world);
    assert_nothing_left(&world);
}

#[test]
fn its_lease_is_learned_from_a_renewal_and_no_longer_than_its_ttl_and_its_lock_delay() {
    for (body, lease) in [
        // Consul's default lock delay is 15 s.
        (WITH_TTL, secs(15)),
        (
            r#"{"NodeChecks":[],"TTL":"20s","LockDelay":"20s"}"#,
            secs(20),
        ),
        (
            r#"{"NodeChecks":[],"TTL":"20s","LockDelay":"60s"}"#,
            secs(20),
        ),
        (
            r#"{"NodeChecks":[],"TTL":"600s","LockDelay":"60s"}"#,
            secs(60),
        ),
        (
            r#"{"NodeChecks":[],"TTL":"20s","LockDelay":"10s"}"#,
            secs(10),
        ),
        // Renewals could not keep a lease within this lock delay. The session's creator has chosen
        // it.
        (
            r#"{"NodeChecks":[],"TTL":"20s","LockDelay":"0s"}"#,
            secs(20),
        ),
        // A session without a TTL can end early, too.
        (r#"{"NodeChecks":[]}"#, secs(15)),
        (r#"{"NodeChecks":[],"LockDelay":"60s"}"#, secs(60)),
        (
            r#"{"NodeChecks":[],"TTL":"0s","LockDelay":"60s"}"#,
            secs(60),
        ),
    ] {
        let world = MockConsul::new(1);
        let own = Stranger::session_with(&world, body);
        let semaphore = with(&world, "a", 1, &own);
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        let remaining = permit.remaining();
        let most = lease * 9 / 10;
        assert!(
            remaining + millis(100) > most && remaining <= most,
            "{body}: {remaining:?}"
        );
        world.advance(secs(1_000));
        assert!(permit.is_held(), "{body}: it is renewed");
        world.run(permit.release()).expect("released");
        own.leaves(&world);
        assert_nothing_left(&world);
    }
}

#[test]
fn one_without_a_ttl_is_not_believed_in_for_ever() {
    let world = MockConsul::new(1);
    let own = Stranger::session(&world);
    let semaphore = with(&world, "a", 1, &own);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.partition("a");
    world.advance(secs(15));
    assert!(!permit.is_held(), "it may have ended with its node");
    world.heal("a");
    world.advance(secs(30));
    drop(permit);
    world.advance(secs(5));
    assert!(own.is_alive(&world), "it is its maker's to destroy");
    own.leaves(&world);
    assert_nothing_left(&world);
}

#[test]
fn a_second_acquisition_waits_for_the_first_to_end() {
    let world = MockConsul::new(1);
    let own = Stranger::session_with(&world, WITH_TTL);
    let semaphore = with(&world, "a", 3, &own);
    let first = world.run(semaphore.acquire()).expect("a free slot");
    let second = semaphore.clone();
    let mut second = world.start(async move { second.acquire().await });
    world.advance(secs(60));
    assert!(second.try_take().is_none());
    assert!(first.is_held());
    assert_eq!(holders(&world).len(), 1);
    let first_token = first.fencing_token();
    world.run(first.release()).expect("released");
    let second = world.run(second).expect("its turn");
    assert!(second.fencing_token() > first_token);
    world.run(second.release()).expect("released");
    own.leaves(&world);
    assert_nothing_left(&world);
}

#[test]
fn it_carries_one_permit_only() {
    let world = MockConsul::new(1);
    let own = Stranger::session(&world);
    let semaphore = with(&world, "a", 3, &own);
    let sent = world.stats().total_requests();
    let result = world.run(semaphore.acquire_many(2));
    assert!(
        matches!(result, Err(Error::InvalidInput { .. })),
        "{result:?}"
    );
    assert_eq!(world.stats().total_requests(), sent);
    own.leaves(&world);
}

#[test]
fn two_semaphores_do_not_share_it_on_one_prefix() {
    let world = MockConsul::new(1);
    let own = Stranger::session_with(&world, WITH_TTL);
    let first = with(&world, "a", 3, &own);
    let second = with(&world, "b", 3, &own);
    let permit = world.run(first.acquire()).expect("a free slot");
    let before = world.now();
    match world.run(second.acquire()) {
        Err(Error::SessionInUse { session, .. }) => assert_eq!(session, own.session),
        other => panic!("{other:?}"),
    }
    assert!(
        world.now().saturating_since(before) < millis(100),
        "told at once"
    );
    world.advance(secs(60));
    assert!(permit.is_held(), "the second one left the first alone");
    assert_eq!(holders(&world).len(), 1);
    world.run(permit.release()).expect("released");
    let permit = world.run(second.acquire()).expect("free now");
    world.run(permit.release()).expect("released");
    own.leaves(&world);
    assert_nothing_left(&world);
}

#[test]
fn of_two_that_start_at_once_one_gets_in() {
    for seed in 0..50 {
        let world = MockConsul::new(seed);
        let own = Stranger::session_with(&world, WITH_TTL);
        world.set_latency(millis(1)..=millis(20));
        let tasks = ["a", "b"].map(|host| {
            let semaphore = with(&world, host, 3, &own);
            world.start(async move { semaphore.acquire().await })
        });
        let results = tasks.map(|task| world.run(task));
        let granted = results.iter().filter(|result| result.is_ok()).count();
        assert!(granted <= 1, "seed {seed}");
        for result in results {
            match result {
                Ok(permit) => {
                    world.advance(secs(30));
                    assert!(permit.is_held());
                    assert_eq!(holders(&world).len(), 1);
                    world.run(permit.release()).expect("released");
                }
                Err(Error::SessionInUse { .. }) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(granted, 1, "seed {seed}");
        world.advance(secs(1));
        own.leaves(&world);
        assert_nothing_left(&world);
    }
}

#[test]
fn on_two_prefixes_it_carries_a_permit_each() {
    let world = MockConsul::new(1);
    let own = Stranger::session_with(&world, WITH_TTL);
    let first = with(&world, "a", 1, &own);
    let second = builder_of("service/other", 1).session(own.session.clone());
    let second = connect(second, &world.client("a"));
    let permits = [
        world.run(first.acquire()).expect("a free slot"),
        world.run(second.acquire()).expect("a free slot"),
    ];
    for permit in permits {
        assert!(permit.is_held());
        world.run(permit.release()).expect("released");
    }
    own.leaves(&world);
    assert_nothing_left(&world);
}

#[test]
fn a_dead_one_is_told() {
    let world = MockConsul::new(1);
    let dead = SessionId::new("4ca8e74b-6350-7587-addf-a18084928f3c").expect("an id");
    let semaphore = connect(builder(1).session(dead.clone()), &world.client("a"));
    match world.run(semaphore.acquire()) {
        Err(Error::SessionGone { session, .. }) => assert_eq!(session, dead),
        other => panic!("{other:?}"),
    }
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn one_that_ends_while_it_waits_is_told() {
    let world = MockConsul::new(1);
    let holder = semaphore(&world, "a", 1);
    let permit = world.run(holder.acquire()).expect("a free slot");
    let own = Stranger::session_with(&world, WITH_TTL);
    let waiter = with(&world, "b", 1, &own);
    let waiting = world.start(async move { waiter.acquire().await });
    world.advance(secs(1));
    world.consul(|consul, now| consul.destroy_session(now, own.session.as_str()));
    let result = world.run(waiting);
    assert!(
        matches!(result, Err(Error::SessionGone { .. })),
        "{result:?}"
    );
    drop(permit);
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn one_that_ends_while_it_holds_is_a_loss() {
    let world = MockConsul::new(1);
    let own = Stranger::session_with(&world, WITH_TTL);
    let semaphore = with(&world, "a", 1, &own);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.consul(|consul, now| consul.destroy_session(now, own.session.as_str()));
    assert!(matches!(world.run(permit.lost()), Lost::SessionGone { .. }));
    drop(permit);
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn a_key_that_changes_just_before_it_is_deleted_delays_a_release_and_no_more() {
    for is_deleted in [false, true] {
        let world = MockConsul::new(1);
        let own = Stranger::session_with(&world, WITH_TTL);
        let semaphore = with(&world, "a", 1, &own);
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        let late = Rule::new(Fault::Delay(millis(100))).host("a");
        world.inject(late.matching(steps::deletes_key));
        let releasing = world.start(async move { permit.release().await });
        world.advance(millis(50));
        assert_eq!(world.pending_rules(), 0);
        assert_eq!(contender_keys(&world), [own.key()]);
        if is_deleted {
            let target = format!("/v1/kv/{}", own.key());
            operate(&world, Method::Delete, &target, "");
        } else {
            own.acquires(&world, &own.key());
        }
        let start = world.now();
        world.run(releasing).expect("released");
        let waited = world.now().saturating_since(start);
        assert!(waited < secs(1), "{waited:?}\n{}", world.trace());
        assert_eq!(holders(&world), [""; 0]);
        assert_eq!(contender_keys(&world), [""; 0]);
        own.leaves(&world);
        assert_nothing_left(&world);
    }
}

#[test]
fn answers_lost_on_the_way_in_are_resolved() {
    let turn = |world: &MockConsul, case: &str| {
        let own = Stranger::session_with(world, WITH_TTL);
        let semaphore = with(world, "a", 1, &own);
        let permit = match world.run(semaphore.acquire_timeout(secs(60))) {
            Ok(permit) => permit,
            Err(error) => panic!("{case}: {error:?}\n{}", world.trace()),
        };
        world.advance(secs(10));
        assert!(permit.is_held(), "{case}");
        assert_eq!(holders(world), [own.session.to_string()], "{case}");
        world.run(permit.release()).expect("released");
        assert_eq!(contender_keys(world), [""; 0], "{case}");
        world.advance(secs(5));
        own.leaves(world);
        assert_nothing_left(world);
    };
    for (what, is) in [
        ("renew", steps::renews_session as Is),
        ("reserve", steps::reserves),
        ("enter", steps::enters),
        ("write", steps::writes_record),
    ] {
        let sent = Spy::undisturbed(1, is, |world| turn(world, what));
        // A transaction that enters needs no reservation.
        assert!(sent > 0 || what == "reserve", "{what}");
        for fault in [
            Fault::LoseAnswer,
            Fault::LoseRequest,
            Fault::ResetAfter,
            Fault::ResetBefore,
            Fault::BadAnswer,
            Fault::Refuse,
            Fault::no_leader(),
            Fault::AnswerAfter(Response::new(504, "gateway timeout")),
            Fault::Duplicate(millis(10)),
            Fault::Duplicate(secs(2)),
        ] {
            for skip in 0..sent.min(3) {
                let world = MockConsul::new(1);
                let rule = Rule::new(fault.clone()).matching(is).host("a");
                world.inject(rule.skip(skip));
                turn(&world, &format!("{what} {fault} {skip}"));
            }
        }
    }
}

#[test]
fn cancelling_at_any_time_leaves_only_the_session() {
    for step in 0..80 {
        let world = MockConsul::new(1);
        let own = Stranger::session_with(&world, WITH_TTL);
        let semaphore = with(&world, "a", 1, &own);
        let mut waiting = world.start(async move { semaphore.acquire().await });
        world.advance(std::time::Duration::from_micros(250 * step));
        let granted = waiting.try_take();
        waiting.abort();
        drop(granted);
        world.advance(secs(1));
        assert_eq!(contender_keys(&world), [""; 0], "step {step}");
        assert!(own.is_alive(&world));
        own.leaves(&world);
        assert_nothing_left(&world);
    }
}

#[test]
fn a_key_of_its_that_was_there_before_is_in_use() {
    let world = MockConsul::new(1);
    let own = Stranger::enters(&world);
    let semaphore = with(&world, "a", 1, &own);
    let result = world.run(semaphore.acquire());
    assert!(
        matches!(result, Err(Error::SessionInUse { .. })),
        "{result:?}"
    );
    world.advance(secs(1));
    assert_eq!(contender_keys(&world), [own.key()], "left alone");
    own.leaves(&world);
    assert_nothing_left(&world);
}

#[test]
fn a_key_of_its_name_that_another_session_has_is_in_use() {
    let world = MockConsul::new(1);
    let own = Stranger::session(&world);
    let other = Stranger::session(&world);
    other.acquires(&world, &own.key());
    let semaphore = with(&world, "a", 1, &own);
    let result = world.run(semaphore.acquire_timeout(secs(1)));
    assert!(
        matches!(result, Err(Error::SessionInUse { .. })),
        "{result:?}"
    );
    world.advance(secs(1));
    assert_eq!(contender_keys(&world), [own.key()], "left alone");
    let target = format!("/v1/kv/{}", own.key());
    operate(&world, Method::Delete, &target, "");
    own.leaves(&world);
    other.leaves(&world);
    assert_nothing_left(&world);
}

#[test]
fn an_instant_try_with_it_takes_a_free_slot_and_tells_a_taken_one() {
    let world = MockConsul::new(1);
    let [own, other] = [(); 2].map(|()| Stranger::session_with(&world, WITH_TTL));
    let hosts = [with(&world, "a", 1, &own), with(&world, "b", 1, &other)];
    let permit = world.run(hosts[0].try_acquire()).expect("an answer");
    let permit = permit.expect("a free slot");
    assert!(
        world
            .run(hosts[1].try_acquire())
            .expect("an answer")
            .is_err()
    );
    // Its one session is in use, so another permit is not possible at once.
    let refusal = world.run(hosts[0].try_acquire()).expect("an answer");
    assert_eq!(refusal.expect_err("in use"), Refusal::SessionInUse);
    world.run(permit.release()).expect("released");
    own.leaves(&world);
    other.leaves(&world);
    assert_nothing_left(&world);
}

#[test]
fn an_instant_try_does_not_wait_until_it_is_free() {
    let world = MockConsul::new(1);
    let own = Stranger::session_with(&world, WITH_TTL);
    let semaphore = with(&world, "a", 3, &own);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let again = semaphore.clone();
    let mut again = world.start(async move { again.try_acquire().await });
    world.advance(secs(1));
    let again = again.try_take().expect("an answer at once");
    assert!(again.expect("an answer").is_err());
    world.run(permit.release()).expect("released");
    own.leaves(&world);
    assert_nothing_left(&world);
}

#[test]
fn one_that_the_record_still_names_gets_its_slot_back() {
    for limit in [1, 2] {
        let world = MockConsul::new(1);
        let own = Stranger::session_with(&world, WITH_TTL);
        // An earlier user of the session was cut off and has left this.
        let record = format!(
            r#"{{"Holders":{{"{}":true}},"Limit":{limit}}}"#,
            own.session
        );
        let lock = format!("/v1/kv/{PREFIX}/.lock?flags=16210313421097356768");
        operate(&world, Method::Put, &lock, &record);
        let other = semaphore(&world, "b", limit);
        let semaphore = with(&world, "a", limit, &own);
        let permit = world
            .run(semaphore.acquire_timeout(secs(30)))
            .expect("free");
        assert_eq!(holders(&world), [own.session.to_string()]);
        if limit == 2 {
            let second = world.run(other.acquire()).expect("a free slot");
            assert!(second.fencing_token() > permit.fencing_token());
            world.run(second.release()).expect("released");
        } else {
            let second = world.run(other.try_acquire()).expect("an answer");
            assert!(second.is_err());
        }
        assert!(permit.is_held());
        world.run(permit.release()).expect("released");
        let permit = world.run(semaphore.try_acquire()).expect("an answer");
        world
            .run(permit.expect("a free slot").release())
            .expect("released");
        own.leaves(&world);
        assert_nothing_left(&world);
    }
}

#[test]
fn its_spelling_does_not_make_it_two() {
    let world = MockConsul::new(1);
    let own = Stranger::session_with(&world, WITH_TTL);
    let loud = SessionId::new(own.session.as_str().to_uppercase()).expect("an id");
    assert_eq!(loud, own.session);
    let first = with(&world, "a", 2, &own);
    let second = connect(builder(2).session(loud), &world.client("b"));
    let permit = world.run(first.acquire()).expect("a free slot");
    let result = world.run(second.acquire());
    assert!(
        matches!(result, Err(Error::SessionInUse { .. })),
        "{result:?}"
    );
    world.run(permit.release()).expect("released");
    own.leaves(&world);
    assert_nothing_left(&world);
}

#[test]
fn a_reservation_that_is_never_answered_is_tried_with_growing_waits() {
    for fault in [Fault::ResetBefore, Fault::ResetAfter, Fault::no_leader()] {
        let world = MockConsul::new(1);
        let own = Stranger::session_with(&world, WITH_TTL);
        let key = own.key();
        let is_reservation = move |request: &semaphore_core::sans_io::Request| {
            request.method() == Method::Put && request.target().contains(&format!("{key}?cas=0"))
        };
        let rule = Rule::new(fault.clone()).matching(is_reservation).always();
        world.inject(rule.host("a"));
        let semaphore = with(&world, "a", 1, &own);
        let result = world.run(semaphore.acquire_timeout(secs(60)));
        let sent = world.stats_of("a").total_requests();
        // Every 1.1 s on average, each followed by a read.
        assert!(sent < 200, "{fault}: {sent}");
        drop(result);
        world.advance(secs(1));
        own.leaves(&world);
        assert_nothing_left(&world);
    }
}
