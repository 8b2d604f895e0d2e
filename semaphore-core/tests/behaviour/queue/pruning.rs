//! Dead holders are pruned. Nobody is pruned because of a view that may be incomplete (invariant
//! S3).

use semaphore_core::adapter::{Method, Request, Response, Transport as _};
use semaphore_core::{Error, RequestError, Token};
use transport_mock::consul::{Access, Policy};
use transport_mock::{Fault, MockConsul, MockProcess, RequestKind, Rule};

use crate::support::aftermath::assert_recovered;
use crate::support::steps::{enters, is_transaction};
use crate::support::stranger::{Stranger, operate};
use crate::support::*;

#[test]
fn a_dead_holder_is_pruned_when_its_session_has_expired_and_its_lock_delay_is_over() {
    let world = MockConsul::new(4);
    let process = MockProcess::new(&world.client("dead"));
    let dead = builder(1).connect(process.clone()).expect("valid settings");
    world.run(async {
        let permit = dead.acquire().await.expect("a slot");
        let granted = world.now();
        process.kill();
        let next = semaphore(&world, "next", 1);
        let permit_of_next = next.acquire().await.expect("a slot");
        assert!(!permit.is_held());
        let waited = world.now().saturating_since(granted);
        // Consul expires a session after twice its TTL, and the lock delay equals the TTL.
        let most = secs(45) + DEAD_SEEN_AFTER;
        assert!(waited > secs(44) && waited < most, "{waited:?}");
        assert!(permit_of_next.fencing_token() > permit.fencing_token());
        permit_of_next.release().await.expect("released");
    });
    assert_recovered(&world, 1);
}

#[test]
fn a_holder_that_learns_that_its_session_is_gone_makes_room_at_once() {
    let world = MockConsul::new(4);
    let (a, b) = (semaphore(&world, "a", 1), semaphore(&world, "b", 1));
    world.run(async {
        let permit = a.acquire().await.expect("a slot");
        let waiter = world.start(async move { b.acquire().await });
        world.sleep(secs(2)).await;
        let session = permit.sequencers()[0].session.to_string();
        let destroyed = world.now();
        world.consul(|consul, now| consul.destroy_session(now, &session));
        permit.lost().await;
        assert!(world.now().saturating_since(destroyed) < millis(10));
        let next = waiter.await.expect("a slot");
        assert!(world.now().saturating_since(destroyed) < millis(50));
        next.release().await.expect("released");
    });
    assert_recovered(&world, 1);
}

fn policy() -> Policy {
    Policy::new()
        .with_session_prefix("", Access::Write)
        .with_key_prefix("service/db", Access::Write)
}

/// A holder with all permissions. A token `blind` may not read its key.
fn with_a_hidden_holder(reports: bool) -> (MockConsul, semaphore_core::Permit) {
    let world = MockConsul::new(4);
    world.consul(|consul, _| {
        consul.set_acl_default_deny();
        consul.set_acl_reports_filtering(reports);
        consul.add_token("all", policy());
    });
    let holder = connect(builder(1).token("all"), &world.client("holder"));
    let permit = world.run(holder.acquire()).expect("a slot");
    let key = permit.sequencers()[0].key.clone();
    world.consul(|consul, _| {
        consul.add_token("blind", policy().with_key(&key, Access::Deny));
    });
    (world, permit)
}

#[test]
fn a_view_that_says_it_is_filtered_is_an_error_and_nobody_is_pruned() {
    let (world, permit) = with_a_hidden_holder(true);
    let blind = connect(builder(1).token("blind"), &world.client("blind"));
    world.run(async {
        let error = blind.acquire().await.expect_err("filtered");
        assert!(
            matches!(&error, Error::IncompleteView { prefix, .. } if prefix == PREFIX),
            "{error:?}"
        );
        let error = blind.try_acquire().await.expect_err("filtered");
        assert!(matches!(error, Error::IncompleteView { .. }));
        assert!(world.now().since_origin() < secs(1));
        world.sleep(secs(40)).await;
        assert!(permit.is_held());
        permit.release().await.expect("released");
    });
    assert_nothing_left(&world);
}

#[test]
fn a_holder_that_is_hidden_in_silence_is_an_error_and_not_pruned() {
    let (world, permit) = with_a_hidden_holder(false);
    let blind = connect(builder(1).token("blind"), &world.client("blind"));
    world.run(async {
        let error = blind.acquire().await.expect_err("hidden");
        let is_told = match &error {
            Error::IncompleteView { prefix, .. } => prefix == PREFIX,
            // The write that prunes needs the permission to write the holder's key.
            Error::Request(RequestError::Denied { .. }) => true,
            _ => false,
        };
        assert!(is_told, "{error:?}");
        assert!(world.now().since_origin() < secs(1));
        world.sleep(secs(40)).await;
        assert!(permit.is_held());
        permit.release().await.expect("released");
        // Now the record has no hidden holder, so no mistake is possible.
        let permit = blind.acquire().await.expect("a slot");
        permit.release().await.expect("released");
    });
    assert_nothing_left(&world);
}

#[test]
fn keys_that_are_hidden_in_silence_are_an_error_when_ours_are_among_them() {
    let world = MockConsul::new(4);
    world.consul(|consul, _| {
        consul.set_acl_default_deny();
        consul.add_token("all", policy());
    });
    let holder = connect(builder(1).token("all"), &world.client("holder"));
    let permit = world.run(holder.acquire()).expect("a slot");
    world.consul(|consul, _| {
        // The token must only see the record. In newer agents that would take separate rules for a
        // key that it may write but not read. So every read is made to look like that.
        consul.add_token("blind", policy());
    });
    let record = world.consul(|consul, _| {
        let entry = consul.entry("service/db/.lock").expect("a record");
        (entry.value().to_vec(), entry.flags(), entry.modify_index())
    });
    let entry = {
        use base64::Engine as _;
        let value = base64::engine::general_purpose::STANDARD.encode(&record.0);
        format!(
            r#"{{"Key":"service/db/.lock","Flags":{},"Value":"{value}","LockIndex":0,"CreateIndex":1,"ModifyIndex":{}}}"#,
            record.1, record.2
        )
    };
    let hidden = Response::new(200, format!("[{entry}]"))
        .with_header("X-Consul-Index", record.2.to_string());
    for kind in [RequestKind::KvRead, RequestKind::KvWatch] {
        let rule = Rule::new(Fault::AnswerAfter(hidden.clone()));
        let rule = rule.host("blind").kind(kind).always();
        // It need not come to a poll.
        world.inject(rule.optional());
    }
    // A transaction that enters shows neither its own key nor the others' keys.
    let results = format!(r#"{{"Results":[{{"KV":{entry}}}],"Errors":null}}"#);
    let rule = Rule::new(Fault::AnswerAfter(Response::new(200, results)));
    let enters = |it: &Request| is_transaction(it) && enters(it);
    let rule = rule.host("blind").matching(enters);
    // An entry that is made again is refused, and a refusal shows no keys.
    world.inject(rule);
    let blind = connect(builder(1).token("blind"), &world.client("blind"));
    world.run(async {
        let start = world.now();
        let error = blind.acquire().await.expect_err("hidden");
        assert!(matches!(error, Error::IncompleteView { .. }), "{error:?}");
        let waited = world.now().saturating_since(start);
        assert!(waited < secs(60), "{waited:?}");
        assert!(permit.is_held());
        assert_eq!(holders(&world).len(), 1);
        permit.release().await.expect("released");
    });
    world.advance(secs(40));
    assert_nothing_left(&world);
}

#[test]
fn sessions_that_end_before_their_keys_are_seen_are_no_sign_of_an_incomplete_view() {
    let world = MockConsul::new(4);
    let late = Rule::new(Fault::Delay(millis(500)));
    world.inject(late.kind(RequestKind::KvWatch));
    // Even the answers to entering don't show the keys, as if the token could not read them.
    let nothing = Response::new(200, r#"{"Results":[],"Errors":null}"#);
    let unseen = Rule::new(Fault::AnswerAfter(nothing));
    // They may all enter by one request.
    let unseen = unseen.times(1);
    world.inject(unseen.matching(enters));
    let semaphore = semaphore(&world, "a", 3);
    world.run(async {
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let semaphore = semaphore.clone();
                world.start(async move { semaphore.acquire().await })
            })
            .collect();
        // Before anybody is admitted.
        world.sleep(millis(50)).await;
        // After an answer that says nothing the others may enter later.
        let least = 1;
        assert!((least..=3).contains(&contender_keys(&world).len()));
        world.consul(|consul, now| {
            let ids: Vec<_> = consul.sessions().map(|s| s.id().to_owned()).collect();
            for id in ids {
                consul.destroy_session(now, &id);
            }
        });
        world.sleep(millis(500)).await;
        let poke = Request::new(Method::Put, "/v1/kv/service/db/poke");
        let operator = world.client("operator");
        operator.send(poke).await.expect("an answer");
        world.sleep(millis(10)).await;
        let poke = Request::new(Method::Delete, "/v1/kv/service/db/poke");
        operator.send(poke).await.expect("an answer");
        for waiter in waiters {
            let permit = waiter.await.expect("a slot");
            permit.release().await.expect("released");
        }
    });
    assert_recovered(&world, 3);
}

#[test]
fn an_agent_that_lags_behind_our_own_key_is_no_sign_of_an_incomplete_view() {
    let world = MockConsul::new(4);
    world.lag("a");
    // After an answer without an index the next read comes a second later.
    let without_index = Rule::new(Fault::Index(0)).always().optional();
    world.inject(without_index.matching(|request| {
        let target = request.target();
        target.contains("recurse") && !target.contains("consistent")
    }));
    let semaphore = semaphore(&world, "a", 1);
    world.run(async {
        let permit = semaphore.acquire().await.expect("a slot");
        let waited = world.now().since_origin();
        assert!(waited < secs(3), "{waited:?}\n{}", world.trace());
        world.catch_up("a");
        world.clear_faults();
        permit.release().await.expect("released");
    });
    assert_recovered(&world, 1);
}

#[test]
fn keys_of_another_prefix_keep_nobody_alive() {
    let world = MockConsul::new(4);
    let semaphore = semaphore(&world, "a", 1);
    world.run(async {
        let operator = world.client("operator");
        let put = |target: String, body: &str| {
            let request = Request::new(Method::Put, target).with_body(body);
            operator.send(request)
        };
        // A live session that the record lists as a holder, but without a contender key here.
        let created = put("/v1/session/create".to_owned(), "{}").await;
        let created = created.expect("an answer");
        let id = String::from_utf8_lossy(created.body())[7..43].to_owned();
        for prefix in ["service/db-2", "service/db/nested", "service"] {
            let target = format!("/v1/kv/{prefix}/{id}?acquire={id}");
            put(target, "").await.expect("an answer");
        }
        let record = format!(r#"{{"Limit":1,"Holders":{{"{id}":true}}}}"#);
        put("/v1/kv/service/db/.lock".to_owned(), &record)
            .await
            .expect("an answer");
        let permit = semaphore.acquire_timeout(secs(5)).await;
        let permit = permit.expect("the holder counts as dead");
        assert!(!holders(&world).contains(&id));
        permit.release().await.expect("released");
    });
    assert_eq!(holders(&world), [""; 0]);
}

/// As after a limit was lowered under its holders.
#[test]
fn a_try_is_refused_at_once_where_the_slots_of_the_dead_are_not_enough() {
    let world = MockConsul::new(4);
    let holds = Stranger::enters(&world);
    let dead = "00000000-0000-0000-0000-00000000dead";
    let session = &holds.session;
    let record = format!(r#"{{"Limit":1,"Holders":{{"{session}":true,"{dead}":true}}}}"#);
    operate(&world, Method::Put, "/v1/kv/service/db/.lock", &record);
    let semaphore = semaphore(&world, "a", 1);
    let before = world.now();
    let refused = world.run(semaphore.try_acquire()).expect("an answer");
    assert!(refused.is_err());
    assert!(world.now().saturating_since(before) < secs(1));
    holds.leaves(&world);
    let permit = world.run(semaphore.acquire()).expect("its turn");
    world.run(permit.release()).expect("released");
}

/// Writes a record of this limit that names as many dead holders.
fn hold_dead(world: &MockConsul, limit: u32, dead: u32) {
    let dead = (0..dead).map(|it| format!(r#""00000000-0000-0000-0000-{it:012}":true"#));
    let dead: Vec<_> = dead.collect();
    let dead = dead.join(",");
    let record = format!(r#"{{"Limit":{limit},"Holders":{{{dead}}}}}"#);
    operate(world, Method::Put, "/v1/kv/service/db/.lock", &record);
}

/// As after a limit was lowered under its holders. A transaction takes 64 operations.
#[test]
fn more_dead_holders_than_one_write_takes_are_removed_by_several_beside_who_enters() {
    for after in 0..10 {
        let world = MockConsul::new(4);
        hold_dead(&world, 3, 99);
        let semaphore = semaphore(&world, "a", 3);
        let other = semaphore.clone();
        let before = world.now();
        let first = world.start(async move { semaphore.acquire().await });
        world.advance(millis(after));
        let second = world.start(async move { other.acquire().await });
        let _first = world.run(first).expect("a dead holder's slot");
        let _second = world.run(second).expect("another one's");
        assert!(world.now().saturating_since(before) < secs(1));
    }
}

/// All slots and the dead in them don't fit into one transaction either.
#[test]
fn the_names_of_more_dead_holders_than_fit_beside_a_claim_are_removed_before_it() {
    let world = MockConsul::new(4);
    hold_dead(&world, 31, 31);
    let semaphore = semaphore(&world, "a", 31);
    let before = world.now();
    let permit = world.run(semaphore.acquire_many(20)).expect("their slots");
    assert_eq!(permit.sequencers().len(), 20);
    assert!(world.now().saturating_since(before) < secs(1));
}

#[test]
fn who_does_not_see_its_own_key_any_more_prunes_nobody() {
    let world = MockConsul::new(4);
    let semaphore = semaphore(&world, "a", 2);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    let ours = permit.sequencers()[0].session.to_string();
    let dead = "00000000-0000-0000-0000-00000000dead";
    let record = format!(r#"{{"Limit":2,"Holders":{{"{ours}":true,"{dead}":true}}}}"#);
    operate(&world, Method::Put, "/v1/kv/service/db/.lock", &record);
    // By now it knows that the other holder is dead.
    world.advance(secs(1));
    let key = format!("/v1/kv/{}", permit.sequencers()[0].key);
    operate(&world, Method::Delete, &key, "");
    world.run(permit.lost());
    world.advance(secs(1));
    assert_eq!(holders(&world), [dead]);
    assert_eq!(session_count(&world), 0);
}

/// Restoring a snapshot brings dead holders back, and ends or breaks every poll.
#[test]
fn who_was_found_dead_is_asked_for_again_after_the_poll_was_interrupted() {
    for (is_seen_alive, is_poll_broken) in [(true, false), (false, false), (false, true)] {
        let world = MockConsul::new(4);
        world.consul(|consul, _| {
            consul.set_acl_default_deny();
            consul.add_token("all", policy());
            consul.add_token("blind", policy());
        });
        let blind = connect(builder(2).token("blind"), &world.client("blind"));
        let permit = world.run(blind.acquire()).expect("a slot");
        let process = MockProcess::new(&world.client("holder"));
        let holder = builder(2).token("all").connect(process.clone());
        let held = world.run(holder.expect("valid settings").acquire());
        let held = held.expect("a slot").sequencers()[0].clone();
        process.kill();
        let hide = |key: &str| {
            world.consul(|consul, _| {
                consul.add_token("blind", policy().with_key(key, Access::Deny));
            });
        };
        let snapshot = world.consul(|consul, _| consul.snapshot());
        world.consul(|consul, now| consul.destroy_session(now, held.session.as_str()));
        world.advance(secs(1));
        if !is_seen_alive {
            hide(&held.key);
        }
        if is_poll_broken {
            world.break_connections();
        }
        world.consul(|consul, now| consul.restore(now, &snapshot));
        if is_seen_alive {
            world.advance(secs(1));
            hide(&held.key);
        }
        // Now the index is higher again.
        let token = Token::new("all").expect("a token");
        let poke = Request::new(Method::Put, "/v1/kv/service/db/poke").with_token(Some(token));
        world.consul(|consul, now| consul.submit(now, &poke));
        world.advance(secs(1));
        assert!(permit.is_held());
        world.run(permit.release()).expect("released");
        assert_eq!(
            holders(&world),
            [held.session.as_str()],
            "{is_seen_alive} {is_poll_broken}\n{}",
            world.trace()
        );
    }
}

#[test]
fn who_was_found_dead_is_not_asked_for_again_while_polls_go_on() {
    let world = MockConsul::new(4);
    let semaphore = semaphore(&world, "a", 2);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    let dead = "aaaaaaaa-0000-0000-0000-000000000000";
    let holder = permit.sequencers()[0].session.clone();
    let record = format!(r#"{{"Limit":2,"Holders":["{holder}","{dead}"]}}"#);
    operate(&world, Method::Put, "/v1/kv/service/db/.lock", &record);
    for _ in 0..10 {
        world.advance(secs(1));
        operate(&world, Method::Put, "/v1/kv/service/db/poke", "");
    }
    assert!(permit.is_held());
    let trace = world.trace();
    let asked = |line: &&str| line.contains("< 409");
    // Who does not need its slot need not ask at all.
    let asked = trace.lines().filter(asked).count();
    assert!(asked <= 1, "{trace}");
}

/// No client writes a session like this, but an operator may.
#[test]
fn a_dead_holder_in_upper_case_is_pruned_after_one_read() {
    let world = MockConsul::new(4);
    let record = r#"{"Limit":1,"Holders":["AAAAAAAA-0000-0000-0000-000000000000"]}"#;
    operate(&world, Method::Put, "/v1/kv/service/db/.lock", record);
    let semaphore = semaphore(&world, "a", 1);
    world.run(async {
        let permit = semaphore.acquire().await.expect("a slot");
        permit.release().await.expect("released");
    });
    let requests = world.stats_of("a").total_requests();
    assert!(requests < 20, "{requests} requests");
    assert_recovered(&world, 1);
}

#[test]
fn a_live_holder_in_upper_case_is_not_pruned() {
    let world = MockConsul::new(4);
    let stranger = Stranger::enters(&world);
    let holder = stranger.session.as_str().to_ascii_uppercase();
    let record = format!(r#"{{"Limit":1,"Holders":["{holder}"]}}"#);
    operate(&world, Method::Put, "/v1/kv/service/db/.lock", &record);
    let semaphore = semaphore(&world, "a", 1);
    let outcome = world.run(semaphore.acquire_timeout(secs(5)));
    assert!(matches!(outcome, Err(Error::Timeout { .. })), "{outcome:?}");
    assert_eq!(holders(&world), [holder]);
}
