//! The levels of log lines: `docs/LOGS.md` is the contract.

use semaphore_core::adapter::{Method, Request};
use semaphore_core::{Election, Token};
use tracing::Level;
use transport_mock::consul::{Access, Policy};
use transport_mock::{Fault, MockConsul, Rule};

use super::log::logged;
use crate::support::stranger::Stranger;
use crate::support::*;

/// A scene with everything that causes a log line. The semaphore has a token.
fn eventful(world: &MockConsul) {
    let builder = || builder(1).token("a-secret-token");
    let a = builder().connect(world.client("a")).expect("connected");
    let permit = world.run(a.acquire()).expect("a free slot");
    let b = builder().connect(world.client("b")).expect("connected");
    let next = {
        let b = b.clone();
        world.start(async move { b.acquire().await })
    };
    world.advance(secs(5));
    assert!(world.run(b.try_acquire()).expect("asked").is_err());
    world.run(permit.release()).expect("released");
    let permit = world.run(next).expect("its turn");
    world.partition("b");
    world.advance(secs(60));
    world.heal("b");
    world.advance(secs(10));
    drop(permit);
    world.advance(secs(10));
}

#[test]
fn fifteen_seconds_at_a_wrong_address_are_a_warning_with_the_name_and_the_cause() {
    let lines = logged(Level::WARN, || {
        let world = MockConsul::new(1);
        world.inject(Rule::new(Fault::Refuse).always());
        let semaphore = semaphore(&world, "a", 1);
        let waiting = world.start(async move { semaphore.acquire().await });
        world.advance(secs(15));
        drop(waiting);
    });
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].starts_with("WARN"), "{lines:?}");
    assert!(lines[0].contains(PREFIX), "{lines:?}");
    let cause = "the agent could not be reached";
    assert!(lines[0].contains(cause), "{lines:?}");
}

#[test]
fn a_silent_agent_is_a_warning_too() {
    let lines = logged(Level::WARN, || {
        let world = MockConsul::new(1);
        world.partition("a");
        let semaphore = semaphore(&world, "a", 1);
        let waiting = world.start(async move { semaphore.acquire().await });
        world.advance(secs(15));
        drop(waiting);
    });
    assert_eq!(lines.len(), 1, "{lines:#?}");
    let cause = "the agent did not answer in time";
    assert!(lines[0].contains(cause), "{lines:?}");
}

#[test]
fn a_minute_of_outage_while_holding_is_three_warnings_with_the_name() {
    let lines = logged(Level::WARN, || {
        let world = MockConsul::new(1);
        let semaphore = semaphore(&world, "a", 1);
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        world.advance(secs(30));
        world.partition("a");
        world.advance(secs(60));
        world.heal("a");
        world.advance(secs(30));
        drop(permit);
    });
    let beginnings = [
        "Consul has not served service/db for a second or more",
        "a slot of service/db is lost",
        "Consul serves service/db again",
    ];
    assert_eq!(lines.len(), beginnings.len(), "{lines:#?}");
    for (line, beginning) in lines.iter().zip(beginnings) {
        assert!(line.contains(beginning), "{lines:#?}");
        assert!(line.contains("prefix=\"service/db\" limit=1"), "{lines:#?}");
    }
    assert!(lines[1].contains("lease-expired"), "{lines:#?}");
    assert!(lines[1].contains("in time"), "its cause: {lines:#?}");
}

#[test]
fn a_turn_is_told_at_debug_and_nothing_of_it_at_info() {
    let turn = || {
        let world = MockConsul::new(1);
        let semaphore = semaphore(&world, "a", 1);
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        world.run(permit.release()).expect("released");
    };
    assert_eq!(logged(Level::INFO, turn), [""; 0]);
    let lines = logged(Level::DEBUG, turn);
    for text in [
        "waits for service/db",
        "holds service/db",
        "gives service/db back",
    ] {
        let has = |line: &String| line.starts_with("DEBUG") && line.contains(text);
        assert!(lines.iter().any(has), "{text}: {lines:#?}");
    }
}

#[test]
fn who_leads_is_told_at_info_and_ones_own_term_is_no_other_leaders() {
    let lines = logged(Level::INFO, || {
        let world = MockConsul::new(1);
        let connect = |host| {
            let builder = Election::builder("service/leader");
            builder.connect(world.client(host)).expect("connected")
        };
        let leadership = world.run(connect("a").campaign()).expect("elected");
        world.advance(secs(1));
        let other = connect("b");
        let next = world.start(async move { other.campaign().await });
        world.advance(secs(1));
        world.run(leadership.resign()).expect("resigned");
        drop(world.run(next).expect("elected"));
        world.advance(secs(5));
    });
    let of = |host: &str| {
        let host = format!("mock://{host}");
        let lines = lines.iter().filter(move |line| line.contains(&host));
        let texts = lines.map(|line| {
            assert!(line.starts_with("INFO"), "{line}");
            let texts = [
                "leads service/leader no more",
                "service/leader has another leader",
                "nobody leads service/leader",
                "leads service/leader",
            ];
            let is_of = |text: &&&str| line.contains(**text);
            *texts.iter().find(is_of).unwrap_or_else(|| panic!("{line}"))
        });
        texts.collect::<Vec<_>>()
    };
    assert_eq!(
        of("a")[..2],
        ["leads service/leader", "leads service/leader no more"]
    );
    let beside = of("b");
    assert_eq!(beside[0], "service/leader has another leader", "{lines:#?}");
    let others = beside.iter().filter(|it| **it == beside[0]);
    assert_eq!(others.count(), 1, "{lines:#?}");
}

#[test]
fn a_conflict_that_every_request_meets_is_one_warning() {
    let lines = logged(Level::WARN, || {
        let world = MockConsul::new(1);
        let holder = semaphore(&world, "b", 2);
        let permit = world.run(holder.acquire()).expect("a free slot");
        let other = semaphore(&world, "a", 3);
        for _ in 0..10 {
            assert!(world.run(other.acquire()).is_err(), "another limit");
        }
        drop(permit);
    });
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(
        lines[0].contains("is not what it was built as"),
        "{lines:?}"
    );
}

#[test]
fn a_ttl_over_a_minute_is_a_warning() {
    let lines = |ttl: u64| {
        logged(Level::WARN, || {
            let world = MockConsul::new(1);
            let semaphore = builder(1).ttl(secs(ttl)).connect(world.client("a"));
            drop(semaphore.expect("connected"));
        })
    };
    assert_eq!(lines(60), [""; 0]);
    let warned = lines(3_600);
    assert!(
        warned.len() == 1 && warned[0].contains("the TTL is over a minute"),
        "{warned:?}"
    );
}

#[test]
fn a_dead_holder_and_its_pruning_are_told_at_info() {
    let lines = logged(Level::INFO, || {
        let world = MockConsul::new(1);
        let dead = semaphore(&world, "dead", 1);
        let permit = world.run(dead.acquire()).expect("a free slot");
        let other = semaphore(&world, "a", 1);
        world.advance(secs(1));
        let next = world.start({
            let other = other.clone();
            async move { other.acquire().await }
        });
        world.advance(secs(1));
        world.partition("dead");
        let next = world.run(next).expect("its turn");
        world.advance(secs(1));
        drop((permit, next));
    });
    for text in [
        "a holder has died",
        "dead holders of service/db were taken out",
    ] {
        let told = |line: &&String| line.starts_with("INFO") && line.contains(text);
        let told: Vec<_> = lines.iter().filter(told).collect();
        assert_eq!(told.len(), 1, "{text}: {lines:#?}");
        assert!(told[0].contains("mock://a"), "{told:?}");
    }
    let died = lines.iter().find(|line| line.contains("a holder has died"));
    assert!(died.expect("told").contains("value=\"test\""), "{lines:#?}");
}

/// The lines about holders that have died, or lost their key.
fn deaths(lines: &[String]) -> Vec<&String> {
    let told = |line: &&String| line.contains("a holder has ");
    lines.iter().filter(told).collect()
}

/// Agents older than 1.11 don't say that they leave keys out. A question then shows whether the
/// holder is dead.
#[test]
fn a_holder_that_others_may_not_see_for_a_while_is_not_told_as_dead() {
    let all = || {
        Policy::new()
            .with_session_prefix("", Access::Write)
            .with_key_prefix(PREFIX, Access::Write)
    };
    let lines = logged(Level::INFO, || {
        let world = MockConsul::new(1);
        let may_see = |key: &str, access| {
            let policy = all().with_key(key, access);
            world.consul(|consul, _| consul.add_token("other", policy));
        };
        world.consul(|consul, _| {
            consul.set_acl_default_deny();
            consul.set_acl_reports_filtering(false);
            consul.add_token("all", all());
        });
        let holder = connect(builder(2).token("all"), &world.client("holder"));
        let permit = world.run(holder.acquire()).expect("a free slot");
        let key = permit.sequencers()[0].key.clone();
        may_see(&key, Access::Deny);
        let other = connect(builder(2).token("other"), &world.client("other"));
        let mine = world.run(other.acquire()).expect("the other slot");
        world.advance(millis(500));
        for access in [Access::Write, Access::Deny, Access::Write] {
            may_see(&key, access);
            let token = Token::new("all").expect("a token");
            let poke = Request::new(Method::Put, "/v1/kv/service/db/poke").with_token(Some(token));
            world.consul(|consul, now| consul.submit(now, &poke));
            world.advance(secs(30));
        }
        assert!(permit.is_held() && mine.is_held());
        drop((permit, mine));
        world.advance(secs(1));
    });
    assert_eq!(deaths(&lines), [""; 0], "{lines:#?}");
}

#[test]
fn a_death_is_told_once_by_who_waits_and_only_when_consul_has_confirmed_it() {
    let told_after = |wait: u64| {
        let lines = logged(Level::INFO, || {
            let world = MockConsul::new(1);
            let dead = semaphore(&world, "dead", 1);
            let permit = world.run(dead.acquire()).expect("a free slot");
            let other = semaphore(&world, "a", 1);
            let waiting = world.start(async move { other.acquire().await });
            world.advance(secs(1));
            world.partition("dead");
            let session = permit.sequencers()[0].session.to_string();
            world.consul(|consul, now| consul.destroy_session(now, &session));
            world.advance(secs(wait));
            drop((permit, waiting));
        });
        deaths(&lines).len()
    };
    // Its lock delay is 15 s.
    assert_eq!((told_after(14), told_after(40)), (0, 1));
}

#[test]
fn a_holder_whose_key_another_session_has_acquired_is_told_as_that_and_once() {
    let lines = logged(Level::INFO, || {
        let world = MockConsul::new(1);
        let held = semaphore(&world, "holder", 1);
        let permit = world.run(held.acquire()).expect("a free slot");
        let other = semaphore(&world, "a", 1);
        let waiting = world.start(async move { other.acquire().await });
        world.advance(secs(1));
        world.partition("holder");
        let own = permit.sequencers()[0].clone();
        let stranger = Stranger::session(&world);
        let release = format!("/v1/kv/{}?release={}", own.key, own.session);
        stranger.call(&world, Method::Put, &release, "");
        stranger.acquires(&world, &own.key);
        drop(world.run(waiting).expect("its turn"));
        drop(permit);
    });
    let lost = deaths(&lines);
    let is_it = |line: &&String| line.contains("has lost its contender key to another session");
    assert!(lost.len() == 1 && lost.iter().all(is_it), "{lines:#?}");
}

#[test]
fn every_line_of_a_request_names_its_semaphore_and_none_its_token() {
    let lines = logged(Level::TRACE, || eventful(&MockConsul::new(1)));
    assert!(lines.len() > 100, "{}", lines.len());
    let secret = lines.iter().find(|line| line.contains("a-secret-token"));
    assert_eq!(secret, None);
    let unnamed = lines
        .iter()
        .find(|line| !line.contains("prefix=\"service/db\""));
    assert_eq!(unnamed, None);
}

#[test]
fn a_level_adds_lines_and_takes_none_away() {
    let at = |level| logged(level, || eventful(&MockConsul::new(1)));
    let levels = [Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
    let counts = levels.map(|level| at(level).len());
    assert!(counts.is_sorted(), "{counts:?}");
    assert!(counts[0] >= 3 && counts[0] <= 6, "{counts:?}");
}
