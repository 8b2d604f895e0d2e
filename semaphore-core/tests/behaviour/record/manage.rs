//! Inspecting and managing a semaphore.

use semaphore_core::sans_io::{Method, Response};
use semaphore_core::{Conflict, Error, InvalidInput, RequestError};
use transport_mock::consul::{Access, Policy};
use transport_mock::{Fault, MockConsul, RequestKind, Rule, Task};

use crate::support::stranger::operate;
use crate::support::*;

const LOCK: &str = "service/db/.lock";

#[test]
fn inspection_shows_limit_holders_and_waiters_in_queue_order() {
    let world = MockConsul::new(1);
    let host = |name: &str| connect(builder(2).value(name), &world.client(name));
    let permits = ["first", "second"].map(|name| world.run(host(name).acquire()).expect("a slot"));
    let waiting = ["third", "fourth", "fifth"].map(|name| {
        let semaphore = host(name);
        let task = world.start(async move { semaphore.acquire().await });
        world.advance(secs(1));
        task
    });
    let looker = semaphore(&world, "looker", 2);
    let snapshot = world.run(looker.inspect()).expect("a semaphore");
    assert_eq!(snapshot.limit, 2);
    let values = |members: &[semaphore_core::manage::Member]| -> Vec<String> {
        assert!(members.iter().all(|member| member.is_alive));
        members
            .iter()
            .map(|member| String::from_utf8(member.value.clone()).expect("text"))
            .collect()
    };
    let mut held = values(&snapshot.holders);
    held.sort_unstable();
    assert_eq!(held, ["first", "second"]);
    assert_eq!(values(&snapshot.waiters), ["third", "fourth", "fifth"]);
    let stats = world.stats_of("looker");
    assert_eq!(stats.total_requests(), 2, "{stats:?}");
    drop((permits, waiting.map(Task::abort)));
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn inspection_says_who_it_is_and_where() {
    let world = MockConsul::new(1);
    let host = |name: &str| connect(builder(1).value(name), &world.client(name));
    let permit = world.run(host("first").acquire()).expect("a slot");
    let waiting = ["second", "third"].map(|name| {
        let semaphore = host(name);
        let task = world.start(async move { semaphore.acquire().await });
        world.advance(secs(1));
        task
    });
    let looker = semaphore(&world, "looker", 1);
    let snapshot = world.run(looker.inspect()).expect("a semaphore");
    let members = || snapshot.holders.iter().chain(&snapshot.waiters);
    let texts: Vec<_> = members().map(|it| it.text()).collect();
    assert_eq!(texts, [Some("first"), Some("second"), Some("third")]);
    let places: Vec<_> = members().map(|it| it.place).collect();
    assert_eq!(places, [1, 1, 2]);
    for member in members() {
        assert!(member.node.as_ref().is_some_and(|node| !node.is_empty()));
        let name = member.session_name.as_deref();
        assert_eq!(name, Some("semaphore service/db"));
    }
    let since: Vec<_> = members().map(|it| it.since.expect("a key")).collect();
    assert!(since.is_sorted(), "{since:?}");
    let json = serde_json::to_value(&snapshot).expect("JSON");
    assert_eq!(json["limit"], 1);
    assert_eq!(json["holders"][0]["value"], "first");
    assert_eq!(json["waiters"][1]["place"], 2);
    drop((permit, waiting.map(Task::abort)));
}

#[test]
fn inspection_goes_without_the_nodes_where_sessions_may_not_be_listed() {
    let world = MockConsul::new(1);
    let holder = semaphore(&world, "a", 1);
    let permit = world.run(holder.acquire()).expect("a slot");
    for denied in [
        Fault::Answer(Response::new(403, "Permission denied")),
        Fault::no_leader(),
    ] {
        let rule = Rule::new(denied).host("looker").target("/v1/session/list");
        world.inject(rule.always());
        let looker = semaphore(&world, "looker", 1);
        let snapshot = world.run(looker.inspect()).expect("a semaphore");
        assert_eq!(snapshot.holders[0].text(), Some("test"));
        assert_eq!(snapshot.holders[0].node, None);
        world.clear_faults();
    }
    drop(permit);
}

#[test]
fn inspection_marks_a_dead_holder() {
    let world = MockConsul::new(1);
    let holder = semaphore(&world, "a", 2);
    let permit = world.run(holder.acquire()).expect("a free slot");
    world.partition("a");
    world.advance(secs(60));
    let looker = semaphore(&world, "b", 2);
    let snapshot = world.run(looker.inspect()).expect("a semaphore");
    let [member] = &snapshot.holders[..] else {
        panic!("one holder: {snapshot:?}");
    };
    assert!(!member.is_alive);
    assert_eq!(member.value, b"");
    drop(permit);
}

#[test]
fn what_nobody_has_used_is_not_found() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 2);
    let result = world.run(semaphore.inspect());
    assert!(matches!(result, Err(Error::NotFound { .. })), "{result:?}");
    let result = world.run(semaphore.resize(3));
    assert!(matches!(result, Err(Error::NotFound { .. })), "{result:?}");
    let result = world.run(semaphore.destroy());
    assert!(matches!(result, Err(Error::NotFound { .. })), "{result:?}");
    assert!(world.consul(|consul, _| consul.entries("").next().is_none()));
}

#[test]
fn a_bigger_limit_admits_those_who_wait_and_adopt_it() {
    let world = MockConsul::new(1);
    let adopter = |host: &str| connect(builder(1).adopt_limit(), &world.client(host));
    let permit = world.run(adopter("a").acquire()).expect("a free slot");
    let waiting = ["b", "c"].map(|host| {
        let semaphore = adopter(host);
        world.start(async move { semaphore.acquire().await })
    });
    world.advance(secs(1));
    let operator = semaphore(&world, "operator", 1);
    world.run(operator.resize(3)).expect("resized");
    let more = waiting.map(|task| world.run(task).expect("a slot"));
    assert_eq!(holders(&world).len(), 3);
    assert_eq!(record(&world).expect("a record").limit(), 3);
    drop((permit, more));
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn another_limit_is_a_conflict_for_the_strict_who_wait_and_for_those_who_come() {
    let world = MockConsul::new(1);
    let [holder, strict] = ["a", "b"].map(|host| semaphore(&world, host, 1));
    let permit = world.run(holder.acquire()).expect("a free slot");
    let waiter = strict.clone();
    let waiting = world.start(async move { waiter.acquire().await });
    world.advance(secs(1));
    let operator = semaphore(&world, "operator", 1);
    world.run(operator.resize(3)).expect("resized");
    for result in [world.run(waiting), world.run(strict.acquire())] {
        match result {
            Err(Error::LimitConflict {
                ours: 1, theirs: 3, ..
            }) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(permit.is_held(), "the holder goes on");
    world.run(permit.release()).expect("released");
    assert_eq!(record(&world).expect("a record").limit(), 3);
    assert_nothing_left(&world);
}

#[test]
fn the_handle_that_resizes_goes_on_with_the_new_limit() {
    for seed in 0..20 {
        let world = MockConsul::new(seed);
        world.set_latency(millis(1)..=millis(20));
        let semaphore = semaphore(&world, "a", 1);
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        let waiter = semaphore.clone();
        let waiting = world.start(async move { waiter.acquire().await });
        world.advance(secs(1));
        world.run(semaphore.resize(3)).expect("resized");
        let second = match world.run(waiting) {
            Ok(permit) => permit,
            Err(error) => panic!("seed {seed}: {error:?}\n{}", world.trace()),
        };
        let third = world.run(semaphore.acquire()).expect("a slot");
        assert_eq!(holders(&world).len(), 3);
        drop((permit, second, third));
        world.advance(secs(1));
        let permit = world.run(semaphore.acquire_many(3)).expect("slots");
        world.run(permit.release()).expect("released");
        assert_nothing_left(&world);
    }
}

#[test]
fn the_handle_that_resizes_back_and_forth_goes_on() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 2);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    for limit in [5, 1, 2, 4] {
        world.run(semaphore.resize(limit)).expect("resized");
        let result = world.run(semaphore.try_acquire());
        let other = result.expect("no conflict");
        assert_eq!(other.is_ok(), limit > 1, "limit {limit}");
        drop(other);
        world.advance(secs(1));
    }
    // Somebody else's change is a conflict again.
    let operator = crate::support::semaphore(&world, "operator", 4);
    world.run(operator.resize(5)).expect("resized");
    let result = world.run(semaphore.acquire());
    match result {
        Err(Error::LimitConflict {
            ours: 4, theirs: 5, ..
        }) => {}
        other => panic!("{other:?}"),
    }
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn a_smaller_limit_leaves_those_who_hold_alone() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 3);
    let mut permits: Vec<_> = (0..3)
        .map(|_| world.run(semaphore.acquire()).expect("a slot"))
        .collect();
    world.run(semaphore.resize(1)).expect("resized");
    world.advance(secs(60));
    assert!(permits.iter().all(semaphore_core::Permit::is_held));
    while let Some(permit) = permits.pop() {
        assert!(
            world
                .run(semaphore.try_acquire())
                .expect("an answer")
                .is_err()
        );
        world.run(permit.release()).expect("released");
    }
    let permit = world.run(semaphore.acquire()).expect("a slot");
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn who_waits_for_more_than_a_smaller_limit_is_told() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 3);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let wide = semaphore.clone();
    let wide = world.start(async move { wide.acquire_many(3).await });
    let narrow = semaphore.clone();
    let narrow = world.start(async move { narrow.acquire().await });
    world.advance(secs(1));
    world.run(semaphore.resize(2)).expect("resized");
    match world.run(wide) {
        Err(Error::InvalidInput {
            input:
                InvalidInput::PermitsOverLimit {
                    wanted: 3,
                    limit: 2,
                },
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
    let next = world.run(narrow).expect("its turn");
    drop((permit, next));
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn a_resize_whose_answer_is_lost_is_finished_all_the_same() {
    for fault in [
        Fault::LoseAnswer,
        Fault::ResetBefore,
        Fault::no_leader(),
        Fault::BadAnswer,
        Fault::Duplicate(millis(20)),
        Fault::AnswerAfter(Response::new(504, "gateway timeout")),
    ] {
        let world = MockConsul::new(1);
        let semaphore = semaphore(&world, "a", 1);
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        world.inject(Rule::new(fault.clone()).kind(RequestKind::KvCas));
        world.run(semaphore.resize(3)).expect("resized");
        assert_eq!(world.pending_rules(), 0);
        assert_eq!(record(&world).expect("a record").limit(), 3, "{fault}");
        assert!(permit.is_held());
        world.run(permit.release()).expect("released");
        assert_nothing_left(&world);
    }
}

#[test]
fn a_limit_of_zero_is_refused_before_anything_is_sent() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    match world.run(semaphore.resize(0)) {
        Err(Error::InvalidInput {
            input: InvalidInput::LimitZero,
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(world.stats().total_requests(), 0);
}

#[test]
fn only_what_is_not_used_is_destroyed() {
    let world = MockConsul::new(1);
    let hosts = ["a", "b"].map(|host| semaphore(&world, host, 1));
    let operator = semaphore(&world, "operator", 1);
    let permit = world.run(hosts[0].acquire()).expect("a free slot");
    let waiter = hosts[1].clone();
    let waiting = world.start(async move { waiter.acquire().await });
    world.advance(secs(1));
    match world.run(operator.destroy()) {
        Err(Error::InUse {
            holders: 1,
            waiters: 1,
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
    assert!(permit.is_held());
    waiting.abort();
    world.run(permit.release()).expect("released");
    world.advance(secs(1));
    world.run(operator.destroy()).expect("destroyed");
    assert!(world.consul(|consul, _| consul.entries("").next().is_none()));
    let result = world.run(operator.destroy());
    assert!(matches!(result, Err(Error::NotFound { .. })), "{result:?}");
}

#[test]
fn what_only_the_dead_hold_is_destroyed() {
    let world = MockConsul::new(1);
    let holder = semaphore(&world, "a", 1);
    let permit = world.run(holder.acquire()).expect("a free slot");
    world.partition("a");
    world.advance(secs(60));
    let operator = semaphore(&world, "operator", 1);
    world.run(operator.destroy()).expect("destroyed");
    assert!(world.consul(|consul, _| consul.entries("").next().is_none()));
    drop(permit);
}

#[test]
fn a_destruction_whose_answer_is_lost_is_finished_all_the_same() {
    for fault in [Fault::LoseAnswer, Fault::ResetBefore, Fault::no_leader()] {
        let world = MockConsul::new(1);
        let semaphore = semaphore(&world, "a", 1);
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        world.run(permit.release()).expect("released");
        world.inject(Rule::new(fault).kind(RequestKind::KvCas));
        world.run(semaphore.destroy()).expect("destroyed");
        assert!(record(&world).is_none());
    }
}

#[test]
fn what_is_no_semaphore_is_a_conflict_and_stays_as_it_is() {
    for (flags, value) in [
        (0, "not JSON"),
        (0, "{}"),
        (0, "[]"),
        (0, ""),
        (0, r#"{"Limit":0,"Holders":{}}"#),
        (0, r#"{"Limit":-1,"Holders":{}}"#),
        (0, r#"{"Limit":1,"Holders":"me"}"#),
        (0, r#"{"Limit":1,"limit":1,"Holders":{}}"#),
        (3_304_740_253_564_472_344_u64, r#"{"Limit":1,"Holders":{}}"#),
    ] {
        let world = MockConsul::new(1);
        let semaphore = semaphore(&world, "a", 1);
        operate(
            &world,
            Method::Put,
            &format!("/v1/kv/{LOCK}?flags={flags}"),
            value,
        );
        let index = |world: &MockConsul| {
            world.consul(|consul, _| consul.entry(LOCK).expect("still there").modify_index())
        };
        let before = index(&world);
        let results = [
            world.run(semaphore.acquire()).map(drop),
            world.run(semaphore.acquire_timeout(secs(5))).map(drop),
            world.run(semaphore.try_acquire()).map(drop),
            world.run(semaphore.inspect()).map(drop),
            world.run(semaphore.resize(2)),
            world.run(semaphore.destroy()),
        ];
        for result in results {
            match result {
                Err(Error::Conflict { key, conflict, .. }) => {
                    assert_eq!(key, LOCK);
                    let is_flags = matches!(conflict, Conflict::Flags { flags } if flags != 0);
                    assert_eq!(is_flags, flags != 0, "{value}: {conflict:?}");
                }
                other => panic!("{value}: {other:?}"),
            }
        }
        world.advance(secs(1));
        assert_eq!(index(&world), before, "{value}");
        world.consul(|consul, _| {
            assert_eq!(consul.entry(LOCK).expect("there").value(), value.as_bytes());
        });
        assert_nothing_left(&world);
    }
}

#[test]
fn the_dialect_and_flags_that_were_found_are_kept() {
    for (flags, limit, holders) in [(0, "Limit", "Holders"), (0, "limit", "holders")] {
        let world = MockConsul::new(1);
        let semaphore = semaphore(&world, "a", 1);
        let text = format!(r#"{{"{limit}":1,"{holders}":[],"Note":"keep me"}}"#);
        operate(&world, Method::Put, &format!("/v1/kv/{LOCK}"), &text);
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        let session = permit.sequencers()[0].session.to_string();
        world.consul(|consul, _| {
            let entry = consul.entry(LOCK).expect("a record");
            assert_eq!(entry.flags(), flags);
            let found: serde_json::Value = serde_json::from_slice(entry.value()).expect("JSON");
            let expected = serde_json::json!({limit: 1, holders: [session], "Note": "keep me"});
            assert_eq!(found, expected);
        });
        world.run(permit.release()).expect("released");
        assert_nothing_left(&world);
    }
}

#[test]
fn a_list_that_says_it_is_incomplete_prunes_and_destroys_nothing() {
    let world = MockConsul::new(1);
    let blind = connect(builder(1).token("blind"), &world.client("b"));
    let holder = connect(builder(1).token("all"), &world.client("a"));
    world.consul(|consul, _| {
        consul.set_acl_default_deny();
        consul.set_acl_reports_filtering(true);
        consul.add_token("all", Policy::management());
        consul.add_token(
            "blind",
            Policy::new()
                .with_key(LOCK, Access::Write)
                .with_session_prefix("", Access::Write),
        );
    });
    let permit = world.run(holder.acquire()).expect("a free slot");
    let refused = world.run(blind.acquire()).map(drop);
    let is_told = match &refused {
        // It enters before it lists, and may not write its key either.
        Err(Error::IncompleteView { .. } | Error::Request(RequestError::Denied { .. })) => true,
        _ => false,
    };
    assert!(is_told, "{refused:?}");
    for result in [
        world.run(blind.try_acquire()).map(drop),
        world.run(blind.inspect()).map(drop),
        world.run(blind.destroy()),
    ] {
        match result {
            Err(Error::IncompleteView { prefix, .. }) => assert_eq!(prefix, PREFIX),
            other => panic!("{other:?}"),
        }
    }
    assert!(permit.is_held());
    world.run(permit.release()).expect("released");
    world.advance(secs(60));
    assert_nothing_left(&world);
}

#[test]
fn managing_ends_with_the_failure_when_consul_stays_away() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    world.lose_leader();
    let result = world.run(semaphore.inspect());
    assert!(matches!(result, Err(Error::Request(_))), "{result:?}");
    let sent = world.stats().total_requests();
    assert!((2..20).contains(&sent), "{sent}");
    assert!(world.now().since_origin() < secs(30));
}

#[test]
fn a_resize_that_is_given_up_leaves_nobody_waiting_for_ever() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 3);
    world
        .run(
            world
                .run(semaphore.acquire())
                .expect("a free slot")
                .release(),
        )
        .expect("released");
    world.inject(Rule::new(Fault::LoseRequest).kind(RequestKind::KvCas));
    let clone = semaphore.clone();
    let resizing = world.start(async move { clone.resize(5).await });
    world.advance(secs(1));
    resizing.abort();
    let result = world.run(semaphore.acquire_many_timeout(4, secs(60)));
    assert!(
        matches!(result, Err(Error::InvalidInput { .. })),
        "{result:?}"
    );
    world.run(semaphore.resize(5)).expect("resized");
    let permit = world.run(semaphore.acquire_many(4)).expect("free slots");
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}
