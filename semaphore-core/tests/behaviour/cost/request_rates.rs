//! No error makes a hot loop (invariant L3): how often a participant sends requests while things go
//! wrong.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use semaphore_core::Semaphore;
use semaphore_core::sans_io::{Method, Request, Response};
use transport_mock::consul::{Access, Policy};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::support::steps::{self, Is};
use crate::support::stranger::operate;
use crate::support::*;

const TIME: u64 = 240;

/// Long enough for loops that run at the limit all the time.
const BUSY_TIME: u64 = 120;

/// The requests per second of one host with a holder and ten waiters.
fn rate(what: &str, time: u64, prepare: impl FnOnce(&MockConsul)) -> f64 {
    rate_with(what, time, prepare, Stir::Nothing)
}

/// What happens on that host while its requests are counted.
#[derive(Clone, Copy, PartialEq)]
enum Stir {
    Nothing,
    /// A waiter gives up, another one comes with a separate handle, and the holder's session ends.
    /// So every kind of request is sent.
    Everything,
}

fn rate_with(what: &str, time: u64, prepare: impl FnOnce(&MockConsul), stir: Stir) -> f64 {
    let world = MockConsul::new(10);
    let other = semaphore(&world, "other", 2);
    let semaphore = semaphore(&world, "a", 2);
    let elsewhere = world.run(other.acquire()).expect("a slot");
    let mine = world.run(semaphore.acquire()).expect("a slot");
    let wait = |semaphore: &Semaphore| {
        let semaphore = semaphore.clone();
        world.start(async move {
            while let Ok(permit) = semaphore.acquire().await {
                permit.lost().await;
            }
        })
    };
    let mut waiters: Vec<_> = (0..10).map(|_| wait(&semaphore)).collect();
    world.advance(secs(1));
    prepare(&world);
    let before = world.stats_of("a");
    if stir == Stir::Everything {
        waiters.remove(0).abort();
        waiters.push(wait(&self::semaphore(&world, "a", 2)));
        let session = &mine.sequencers()[0].session;
        operate(
            &world,
            Method::Put,
            &format!("/v1/session/destroy/{session}"),
            "",
        );
    }
    world.advance(secs(time));
    let after = world.stats_of("a");
    let count = after.total_requests() - before.total_requests();
    for waiter in waiters {
        waiter.abort();
    }
    drop((mine, elsewhere));
    #[expect(clippy::cast_precision_loss, reason = "a rate to look at")]
    let rate = count as f64 / time as f64;
    let deltas: Vec<_> = after
        .requests
        .iter()
        .map(|(kind, count)| (*kind, count - before.requests_of(*kind)))
        .filter(|(_, count)| *count > 0)
        .collect();
    eprintln!("{what}: {rate:.2}/s {deltas:?}");
    // Eight requests and a poll. The held slot adds renewals and the reads that confirm them: a
    // bounded number, while nothing is answered.
    let most = 64 + 2;
    assert!(
        after.peak_open <= most,
        "{what}: {} connections",
        after.peak_open
    );
    rate
}

/// The requests of one that only holds, in ten seconds: renewals, and the reads that confirm them.
fn rate_of_holding() -> u64 {
    21
}

/// The requests of a holder in ten seconds. Its first view did not show another holder.
fn requests_about_a_hidden_holder(is_shown_again: bool) -> u64 {
    let world = MockConsul::new(10);
    let all = Policy::management;
    world.consul(|consul, _| {
        consul.set_acl_default_deny();
        consul.add_token("a", all());
        consul.add_token("other", all());
    });
    let other = connect(builder(2).token("other"), &world.client("other"));
    let elsewhere = world.run(other.acquire()).expect("a slot");
    let hidden = elsewhere.sequencers()[0].key.clone();
    world.consul(|consul, _| consul.add_token("a", all().with_key(&hidden, Access::Deny)));
    let semaphore = connect(builder(2).token("a"), &world.client("a"));
    let mine = world.run(semaphore.acquire()).expect("the other slot");
    world.advance(millis(500));
    if is_shown_again {
        world.consul(|consul, _| consul.add_token("a", all()));
    }
    let before = world.stats_of("a").total_requests();
    world.advance(secs(10));
    let after = world.stats_of("a").total_requests();
    assert!(mine.is_held() && elsewhere.is_held());
    after - before
}

#[test]
fn a_holder_who_may_not_be_seen_is_asked_for_with_growing_waits() {
    let requests = requests_about_a_hidden_holder(false);
    assert!(requests < 10 + rate_of_holding(), "{requests}");
}

#[test]
fn a_holder_who_lives_and_is_not_in_the_view_is_asked_for_with_growing_waits() {
    let requests = requests_about_a_hidden_holder(true);
    assert!(requests < 10 + rate_of_holding(), "{requests}");
}

#[test]
fn whatever_fails_is_asked_for_with_growing_waits() {
    let html = "<html>Bad Gateway</html>";
    for fault in [
        Fault::Refuse,
        Fault::LoseRequest,
        Fault::LoseAnswer,
        Fault::ResetBefore,
        Fault::ResetAfter,
        Fault::BadAnswer,
        Fault::too_many_requests(),
        Fault::no_leader(),
        Fault::unavailable(),
        Fault::Answer(Response::new(502, html)),
        Fault::Answer(Response::new(200, html)),
        Fault::Answer(Response::new(200, "")),
        Fault::Answer(Response::new(200, "null")),
        Fault::Answer(Response::new(404, "")),
        Fault::Answer(Response::new(500, "invalid session \"x\"")),
    ] {
        let what = fault.to_string();
        let rate = rate(&what, TIME, |world| {
            world.inject(Rule::new(fault).host("a").always());
        });
        // A watch, a refresh, a write and nine contenders, each every 1.1 s on average.
        assert!(rate < 11.0, "{what}: {rate}");
    }
}

#[test]
fn each_kind_of_request_that_fails_alone_makes_no_others_hot() {
    for (what, is) in [
        (
            "read",
            (|it| RequestKind::of(it) == RequestKind::KvRead) as Is,
        ),
        ("watch", |it| RequestKind::of(it) == RequestKind::KvWatch),
        ("write", steps::writes_record),
        ("enter", steps::enters),
        ("delete", steps::deletes_key),
        ("create", steps::creates_session),
        ("renew", steps::renews_session),
        ("destroy", steps::destroys_session),
    ] {
        for fault in [Fault::ResetAfter, Fault::no_leader()] {
            let what = format!("{what}: {fault}");
            let inject = |world: &MockConsul| {
                world.inject(Rule::new(fault).host("a").matching(is).always());
            };
            let rate = rate_with(&what, TIME, inject, Stir::Everything);
            // A held slot is renewed and proved each second.
            assert!(rate < 7.0, "{what}: {rate}");
        }
    }
}

#[test]
fn what_has_no_index_to_wait_on_is_read_in_time() {
    for fault in [Fault::Index(0), Fault::NoIndex] {
        let what = fault.to_string();
        let rate = rate(&what, BUSY_TIME, |world| {
            world.inject(Rule::new(fault).host("a").always());
        });
        // A read each second, and the holder's own renewals.
        assert!(rate < 5.0, "{what}: {rate}");
    }
}

#[test]
fn an_index_that_jumps_back_is_read_below_the_ceiling() {
    let rate = rate("index back and forth", BUSY_TIME, |world| {
        let is_second = AtomicBool::new(false);
        let high = Rule::new(Fault::Index(1_000_000)).matching(move |request| {
            request.target().contains("recurse") && is_second.fetch_xor(true, Ordering::SeqCst)
        });
        world.inject(high.host("a").always());
        world.inject(Rule::new(Fault::Index(1)).host("a").always());
    });
    assert!(rate < 103.0, "{rate}");
}

#[test]
fn answers_that_contradict_each_other_are_looked_into_at_the_ceiling() {
    let world = MockConsul::new(10);
    let empty = |index: &str| {
        let empty = Response::new(404, "").with_header("X-Consul-Index", index);
        Rule::new(Fault::Answer(empty)).host("a").always()
    };
    world.inject(empty("1").kind(RequestKind::KvRead));
    // A transaction has shown the participant's own key. So no poll begins before a read shows it,
    // too.
    world.inject(empty("15").kind(RequestKind::KvWatch).optional());
    let semaphore = semaphore(&world, "a", 2);
    let waiters = [(); 6].map(|()| {
        let (clock, semaphore) = (world.clone(), semaphore.clone());
        world.start(async move {
            while semaphore.acquire().await.is_err() {
                clock.sleep(millis(500)).await;
            }
        })
    });
    world.advance(secs(BUSY_TIME));
    let stats = world.stats_of("a");
    for waiter in waiters {
        waiter.abort();
    }
    let reads = stats.requests_of(RequestKind::KvRead) + stats.requests_of(RequestKind::KvWatch);
    let others = stats.total_requests() - reads;
    // 50 at once, 100 a second, and one per write.
    assert!(reads <= 50 + 100 * BUSY_TIME + others, "{stats:?}");
    assert!(others < 30 * BUSY_TIME, "{stats:?}");
}

#[test]
fn a_record_that_can_never_be_written_is_tried_with_growing_waits() {
    let rate = rate("cas always false", TIME, |world| {
        steps::refuse(world, "a", steps::writes_record);
        world.consul(|consul, now| {
            // Otherwise the other holder's slot would be free, and would be claimed.
            let other = consul
                .sessions()
                .next()
                .map(|session| session.id().to_owned());
            consul.destroy_session(now, &other.expect("a session"));
        });
    });
    assert!(rate < 5.0, "{rate}");
}

/// Writes a thousand times per second.
fn write_all_the_time(world: &MockConsul, key: &'static str) {
    let writer = world.clone();
    world.start(async move {
        for number in 0_u64.. {
            let target = format!("/v1/kv/{key}");
            let request = Request::new(Method::Put, target).with_body(number.to_string());
            writer.consul(|consul, now| {
                consul.submit(now, &request);
            });
            writer.sleep(millis(1)).await;
        }
    });
}

#[test]
fn a_session_that_is_destroyed_again_and_again_is_replaced_after_a_wait_each_time() {
    let world = MockConsul::new(10);
    let [holder, waiter] = ["a", "b"].map(|host| semaphore(&world, host, 1));
    let permit = world.run(holder.acquire()).expect("a free slot");
    let kept = permit.sequencers()[0].session.to_string();
    let waiting = world.start(async move { waiter.acquire().await });
    for _ in 0..20 {
        // It may only see that at the end of a poll.
        world.advance(secs(9));
        assert_eq!(session_count(&world), 2);
        world.consul(|consul, now| {
            let others: Vec<_> = consul
                .sessions()
                .map(|session| session.id().to_owned())
                .filter(|id| *id != kept)
                .collect();
            for id in others {
                consul.destroy_session(now, &id);
            }
        });
        world.advance(millis(45));
        assert_eq!(session_count(&world), 1, "{}", world.trace());
    }
    drop(permit);
    let permit = world.run(waiting).expect("a slot");
    world.run(permit.release()).expect("released");
}

#[test]
fn a_writer_beside_the_prefix_wakes_nobody() {
    let rate = rate("a writer beside", 60, |world| {
        write_all_the_time(world, "service/db-2/busy");
    });
    assert!(rate < 5.0, "{rate}");
}

#[test]
fn a_writer_below_the_prefix_is_followed_at_the_ceiling() {
    let rate = rate("a writer below", 60, |world| {
        write_all_the_time(world, "service/db/busy");
    });
    // In so short a time, the burst of 50 counts for a little.
    assert!(rate < 104.0, "{rate}");
}

#[test]
fn failures_among_successes_do_not_give_up_one_poll_after_the_other() {
    let world = MockConsul::new(10);
    let semaphore = semaphore(&world, "a", 60);
    let held: Vec<_> = (0..60)
        .map(|_| world.run(semaphore.acquire()).expect("a free slot"))
        .collect();
    // If every second renewal failed, a session would sometimes lose all that fit into its lease.
    let renewals = AtomicU32::new(0);
    let every_third_renewal = Rule::new(Fault::ResetBefore)
        .kind(RequestKind::SessionRenew)
        .matching(move |_| renewals.fetch_add(1, Ordering::SeqCst) % 3 == 2);
    world.inject(every_third_renewal.always());
    let polls = || world.stats_of("a").requests_of(RequestKind::KvWatch);
    let before = polls();
    world.advance(secs(60));
    assert!(held.iter().all(semaphore_core::Permit::is_held));
    // An agent counts the connection of an abandoned poll for the poll's whole wait of 15 s. It
    // allows a client 200 connections.
    let polls = polls() - before;
    assert!(polls < 60, "{polls}");
    world.clear_faults();
    drop(held);
}

#[test]
fn an_operation_whose_success_never_shows_reads_at_the_ceiling() {
    let world = MockConsul::new(10);
    let holder = semaphore(&world, "holder", 1);
    let held = world.run(holder.acquire()).expect("a slot");
    let applied = Fault::Answer(Response::new(200, "true"));
    world.inject(
        Rule::new(applied)
            .kind(RequestKind::KvCas)
            .host("a")
            .always(),
    );
    let semaphore = semaphore(&world, "a", 1);
    let resize = world.start(async move { semaphore.resize(2).await });
    let before = world.stats_of("a").total_requests();
    world.advance(secs(60));
    let count = world.stats_of("a").total_requests() - before;
    resize.abort();
    drop(held);
    // 100 reads a second after a burst of 50, and a write after each read.
    assert!(count < 2 * (60 * 100 + 60), "{count} requests");
}
