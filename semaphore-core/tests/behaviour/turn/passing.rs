//! A slot passes from one local caller to the next, with one request each, in order, and each with
//! its own token. This goes on while nobody else waits, and for a while if somebody does.

use std::sync::{Arc, Mutex};

use semaphore_core::adapter::{Method, Request, Transport as _};
use semaphore_core::{FencingToken, Permit, Semaphore};
use transport_mock::{Fault, MockConsul, RequestKind, Rule, Task};

use crate::support::spy::Spy;
use crate::support::steps::{self, claims, creates_session, enters, gives_slot, writes_record};
use crate::support::stranger::Stranger;
use crate::support::*;

const LOCK: &str = "/v1/kv/service/db/.lock?flags=16210313421097356768";

/// How long a slot stays with one process, in milliseconds, and how many contenders of that process
/// stand in the line, each of which may have such a stay before those who came later.
const STAY: u64 = 200;
const PLACES: u64 = 8;

/// The callers in the order of their grants, with their tokens.
type Log = Arc<Mutex<Vec<(usize, FencingToken)>>>;

/// Local callers with turns of 10 ms each.
fn callers(
    world: &MockConsul,
    semaphore: &Semaphore,
    names: std::ops::Range<usize>,
    log: &Log,
) -> Vec<Task<()>> {
    names
        .map(|name| {
            let (world_, semaphore, log) = (world.clone(), semaphore.clone(), Arc::clone(log));
            world.start(async move {
                let permit = semaphore.acquire().await.expect("a slot");
                log.lock()
                    .expect("a log")
                    .push((name, permit.fencing_token()));
                world_.sleep(millis(10)).await;
                assert!(permit.is_held());
                permit.release().await.expect("released");
            })
        })
        .collect()
}

fn names(log: &Log) -> Vec<usize> {
    log.lock().expect("a log").iter().map(|it| it.0).collect()
}

fn tokens(log: &Log) -> Vec<FencingToken> {
    log.lock().expect("a log").iter().map(|it| it.1).collect()
}

#[track_caller]
fn assert_increasing(tokens: &[FencingToken]) {
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

/// A slot that nobody else wants.
fn held(world: &MockConsul, semaphore: &Semaphore) -> Permit {
    world.run(semaphore.acquire()).expect("a free slot")
}

#[test]
fn each_turn_of_the_same_client_is_one_request() {
    for limit in [1, 3] {
        let world = MockConsul::new(1);
        let log = Log::default();
        let semaphore = semaphore(&world, "a", limit);
        let slots = usize::try_from(limit).expect("few");
        let permits: Vec<_> = (0..slots).map(|_| held(&world, &semaphore)).collect();
        let turns = 60;
        let waiting = callers(&world, &semaphore, 0..turns, &log);
        world.advance(secs(1));
        let spy = Spy::on(&world);
        drop(permits);
        let end = world.now() + secs(10);
        // The last callers have nobody to pass their slots to.
        while names(&log).len() < turns - slots {
            assert!(holders(&world).len() <= slots);
            assert!(world.step(end), "{}", world.trace());
        }
        // As many may be under way as there are slots.
        let (gifts, all) = (spy.count(gives_slot), spy.requests().len());
        assert!(gifts <= turns, "limit {limit}: {gifts}");
        // Now and then a waiter takes the place of one that was served, and a session is renewed.
        let polls = spy.of(RequestKind::KvWatch).len();
        let others = turns / 4;
        assert!(all - polls <= turns + others, "limit {limit}: {all}");
        for task in waiting {
            world.run(task);
        }
        assert_eq!(names(&log), (0..turns).collect::<Vec<_>>());
        assert_increasing(&tokens(&log));
        assert_nothing_left(&world);
    }
}

#[test]
fn another_host_that_waits_has_its_turn_when_a_slot_has_been_here_for_a_while() {
    for limit in [1, 3] {
        for at in [0, 3, 6, 9] {
            let world = MockConsul::new(at);
            let log = Log::default();
            let busy = semaphore(&world, "busy", limit);
            let waiting = callers(&world, &busy, 0..600, &log);
            world.advance(millis(100 + at));
            let spy = Spy::on_host(&world, "other");
            let other = semaphore(&world, "other", limit);
            let mut its_turn = world.start(async move { other.acquire().await });
            while spy.count(enters) == 0 {
                world.advance(millis(1));
            }
            // The request is under way.
            world.advance(millis(1));
            let entered = (names(&log).len(), world.now());
            let end = world.now() + secs(5);
            let permit = loop {
                assert!(world.step(end), "{}", world.trace());
                if let Some(permit) = its_turn.try_take() {
                    break permit.expect("a slot");
                }
            };
            let before = names(&log).len() - entered.0;
            let waited = world.now().saturating_since(entered.1);
            // Each stay ends with the turn during which its time is over. The same holds for each of
            // the busy client's contenders with older keys. One more grant is under way.
            let stays = 1 + PLACES;
            let longest = millis(stays * (STAY + 10) + 10);
            assert!(waited <= longest, "{waited:?}\n{}", world.trace());
            let most = (stays * (STAY / 10 + 1) + 1) * u64::from(limit);
            assert!(before as u64 <= most, "{before}\n{}", world.trace());
            world.run(permit.release()).expect("released");
            for task in waiting {
                world.run(task);
            }
            assert_increasing(&tokens(&log));
            assert_nothing_left(&world);
        }
    }
}

#[test]
fn a_handoff_whose_answer_is_lost_gives_no_slot_and_no_token_twice() {
    for fault in [
        Fault::LoseAnswer,
        Fault::ResetAfter,
        Fault::ResetBefore,
        Fault::LoseRequest,
        Fault::BadAnswer,
    ] {
        for at in 0..4 {
            let world = MockConsul::new(at);
            let log = Log::default();
            let semaphore = semaphore(&world, "a", 1);
            let permit = held(&world, &semaphore);
            let waiting = callers(&world, &semaphore, 0..5, &log);
            world.advance(secs(1));
            let rule = Rule::new(fault.clone()).matching(gives_slot);
            world.inject(rule.skip(at).times(1));
            drop(permit);
            for task in waiting {
                world.run(task);
            }
            assert_eq!(world.pending_rules(), 0, "{fault}");
            assert_eq!(names(&log), [0, 1, 2, 3, 4], "{fault}");
            assert_increasing(&tokens(&log));
            world.advance(secs(40));
            assert_nothing_left(&world);
        }
    }
}

#[test]
fn a_slot_on_its_way_whose_callers_all_give_up_is_freed() {
    // At the moment of the release, and while the request is under way.
    for steps in 0..4 {
        let world = MockConsul::new(1);
        let log = Log::default();
        let semaphore = semaphore(&world, "a", 1);
        let permit = held(&world, &semaphore);
        let waiting = callers(&world, &semaphore, 0..5, &log);
        world.advance(secs(1));
        let spy = Spy::on(&world);
        drop(permit);
        for _ in 0..steps {
            world.step(world.now() + millis(1));
        }
        for task in waiting {
            task.abort();
        }
        world.advance(millis(50));
        assert_eq!(holders(&world), [""; 0], "{steps}\n{}", world.trace());
        assert!(spy.count(writes_record) <= 2, "{steps}");
        let before = world.now();
        let other = crate::support::semaphore(&world, "b", 1);
        let permit = world.run(other.acquire()).expect("a free slot");
        let took = world.now().saturating_since(before);
        assert!(took <= millis(20), "{steps}: {took:?}");
        world.run(permit.release()).expect("released");
        assert_nothing_left(&world);
    }
}

#[test]
fn a_slot_is_passed_with_the_session_that_it_has() {
    let world = MockConsul::new(1);
    let log = Log::default();
    let semaphore = semaphore(&world, "a", 1);
    let permit = held(&world, &semaphore);
    let waiting = callers(&world, &semaphore, 0..20, &log);
    world.advance(secs(1));
    let spy = Spy::on(&world);
    drop(permit);
    for task in waiting {
        world.run(task);
    }
    assert_eq!(spy.count(creates_session), 0, "{}", world.trace());
    assert_nothing_left(&world);
}

/// Exploration found this. A slot was passed on while another contender of the same client had
/// entered before. That contender took it for a free slot.
#[test]
fn a_slot_passes_on_while_another_contender_of_the_client_waits_and_is_no_second_one() {
    let world = MockConsul::new(1);
    let slow = Rule::new(Fault::DelayAnswer(millis(60)));
    world.inject(slow.matching(enters).skip(1));
    let semaphore = semaphore(&world, "a", 2);
    let ends = [300, 100, 0, 0].map(|stay| {
        let (world_, semaphore) = (world.clone(), semaphore.clone());
        world.start(async move {
            let permit = semaphore.acquire().await.expect("a slot");
            world_.sleep(millis(stay)).await;
            permit.release().await.expect("released");
        })
    });
    let end = world.now() + secs(2);
    while world.step(end) {
        assert!(holders(&world).len() <= 2, "{}", world.trace());
    }
    for task in ends {
        world.run(task);
    }
    assert_nothing_left(&world);
}

/// How many callers of the busy client were served after another host had entered and before it was
/// served, with holds of this length.
fn served_before_another(hold: u64) -> u64 {
    let world = MockConsul::new(5);
    let busy = semaphore(&world, "busy", 1);
    let served = Arc::new(Mutex::new(0));
    let callers: Vec<_> = (0..200)
        .map(|_| {
            let (world_, busy, served) = (world.clone(), busy.clone(), Arc::clone(&served));
            world.start(async move {
                let permit = busy.acquire().await.expect("a slot");
                *served.lock().expect("a count") += 1;
                world_.sleep(millis(hold)).await;
                permit.release().await.expect("released");
            })
        })
        .collect();
    world.advance(millis(hold / 2));
    let other = semaphore(&world, "other", 1);
    let permit = world.run(other.acquire()).expect("a slot");
    let before: u64 = *served.lock().expect("a count") - 1;
    world.run(permit.release()).expect("released");
    for caller in callers {
        world.run(caller);
    }
    assert_nothing_left(&world);
    before
}

#[test]
fn who_holds_for_longer_than_a_slot_stays_gives_way_after_each_hold() {
    // One turn is given before the other host is noticed, and one to each of the busy client's
    // contenders that wait with older keys.
    let stays = 1 + PLACES;
    let when_long = served_before_another(STAY + 80);
    assert!(when_long <= stays, "{when_long}");
    let while_it_stays = served_before_another(20);
    let most = stays * (STAY / 20 + 1) + 1;
    assert!(
        (3..=most).contains(&while_it_stays),
        "{while_it_stays} of {most}"
    );
}

#[test]
fn callers_who_come_at_once_are_admitted_together_with_tokens_of_their_own() {
    let world = MockConsul::new(6);
    let log = Log::default();
    let semaphore = semaphore(&world, "a", 20);
    let first = held(&world, &semaphore);
    let spy = Spy::on(&world);
    let waiting = callers(&world, &semaphore, 0..19, &log);
    let end = world.now() + secs(1);
    while names(&log).len() < 19 {
        assert!(world.step(end), "{}", world.trace());
    }
    let claims = spy.count(claims);
    assert!(claims < 10, "{claims} writes for 19 callers");
    assert_eq!(names(&log), (0..19).collect::<Vec<_>>());
    let mut all = tokens(&log);
    all.insert(0, first.fencing_token());
    assert_increasing(&all);
    drop(first);
    for task in waiting {
        world.run(task);
    }
    assert_nothing_left(&world);
}

/// Another process has its turns all the time, so most claims are refused once. Each refusal would end the stay of the slot,
/// and its session.
#[test]
fn a_slot_stays_here_although_a_poll_overtakes_the_refusal_of_its_claim() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = held(&world, &semaphore);
    let ours = holders(&world);
    let next = world.start({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire().await }
    });
    let other = Stranger::enters(&world);
    world.advance(millis(20));
    let spy = Spy::on(&world);
    world.inject(
        Rule::new(Fault::Delay(millis(30)))
            .matching(writes_record)
            .times(1),
    );
    // The same record, with other white space. It arrives before the claim, and a poll shows it.
    let record = format!(r#"{{ "Holders":{{"{}":true}},"Limit":1}}"#, ours[0]);
    let change = Request::new(Method::Put, LOCK).with_body(record.into_bytes());
    let operator = world.client("operator");
    let change = world.start(async move { operator.send(change).await });
    drop(permit);
    let permit = world.run(next).expect("a slot");
    // A slot that passes on by a touch of its key can't be refused.
    let sent = 1;
    assert_eq!(spy.count(gives_slot), sent, "{}", world.trace());
    world.run(change).expect("changed");
    assert_eq!(holders(&world), ours);
    assert_eq!(spy.count(creates_session), 0, "{}", world.trace());
    drop(permit);
    other.leaves(&world);
    world.advance(secs(2));
    assert_nothing_left(&world);
}

/// Each session that ends is two more writes of Consul's log.
#[test]
fn a_slot_that_goes_to_another_process_leaves_its_session_for_the_next_turn() {
    let world = MockConsul::new(1);
    let log = Log::default();
    let one = semaphore(&world, "one", 1);
    let two = semaphore(&world, "two", 1);
    let waiting: Vec<_> = [&one, &two]
        .into_iter()
        .flat_map(|semaphore| callers(&world, semaphore, 0..60, &log))
        .collect();
    world.advance(millis(300));
    let spy = Spy::on(&world);
    let before = names(&log).len();
    world.advance(millis(600));
    let ended = spy.count(|it| RequestKind::of(it) == RequestKind::SessionDestroy);
    assert!(names(&log).len() > before + 30);
    assert_eq!(ended, 0, "{}", world.trace());
    for task in waiting {
        world.run(task);
    }
    assert_nothing_left(&world);
}

/// The next caller gets a kept session while the contender that was made for it enters. What that one has done by then is
/// known from its answer.
#[test]
fn a_contender_that_is_no_longer_needed_while_it_enters_leaves_its_session_for_the_next_turn() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    for _ in 0..3 {
        drop(held(&world, &semaphore));
    }
    let permit = held(&world, &semaphore);
    world.inject(
        Rule::new(Fault::Delay(millis(100)))
            .matching(enters)
            .times(1),
    );
    let spy = Spy::on(&world);
    let acquire = || {
        let semaphore = semaphore.clone();
        world.start(async move { semaphore.acquire().await })
    };
    let next = acquire();
    world.advance(millis(50));
    drop(permit);
    let permit = world.run(next).expect("the slot passes on");
    world.advance(millis(200));
    let fenced = |it: &Request| {
        it.target().contains("cas=") || steps::verbs(it).contains(&"check-index".to_owned())
    };
    let deletes: Vec<_> = spy
        .requests()
        .into_iter()
        .filter(steps::deletes_key)
        .collect();
    assert!(deletes.last().is_some_and(fenced), "{}", world.trace());
    let made = spy.count(creates_session);
    let after = acquire();
    world.advance(millis(20));
    assert_eq!(spy.count(creates_session), made, "{}", world.trace());
    drop(permit);
    drop(world.run(after).expect("a slot"));
    world.advance(secs(2));
    assert_nothing_left(&world);
}
