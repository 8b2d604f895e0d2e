//! Requests that are too large for an agent are refused first, or are sent as separate requests.

use semaphore_core::sans_io::api::Txn;
use semaphore_core::sans_io::{Method, Record, Value};
use semaphore_core::{Error, InvalidInput, Permit};
use transport_mock::{Fault, MockConsul, Rule};

use crate::support::bench::is_read;
use crate::support::spy::Spy;
use crate::support::steps::{
    Is, claims, creates_session, deletes_key, enters, is_transaction, operations, withdraws,
    writes_record,
};
use crate::support::stranger::operate;
use crate::support::*;

/// Whether all requests of this step are transactions. `None` if only some are.
#[track_caller]
fn are_transactions(spy: &Spy, is: Is) -> Option<bool> {
    let requests = spy.requests();
    let mut steps = requests.iter().filter(|it| is(it)).map(is_transaction);
    let first = steps.next().expect("a request");
    steps.all(|it| it == first).then_some(first)
}

/// Asserts that an agent with Consul's default limits accepts every request.
#[track_caller]
fn assert_all_fit(spy: &Spy) {
    for request in spy.requests().iter().filter(|it| is_transaction(it)) {
        assert!(Txn::fits(request, operations(request).len()));
    }
}

#[test]
fn the_largest_value_is_shown_by_the_claim_in_a_transaction() {
    for size in [0, 4 * 1024, 4 * 1024 + 1, Value::MAX_OF_CONTENDER] {
        let world = MockConsul::new(1);
        let spy = Spy::on(&world);
        let value = vec![b'x'; size];
        let semaphore = connect(builder(1).value(value.clone()), &world.client("a"));
        for _ in 0..2 {
            let permit = world.run(semaphore.acquire()).expect("a free slot");
            let [key] = contender_keys(&world).try_into().expect("one contender");
            let found = world.consul(|consul, _| consul.entry(&key).map(|it| it.value().to_vec()));
            assert!(found == Some(value.clone()), "{size} bytes");
            world.run(permit.release()).expect("released");
        }
        assert_eq!(are_transactions(&spy, enters), Some(true), "{size}");
        assert_eq!(are_transactions(&spy, claims), Some(true), "{size}");
        assert_eq!(are_transactions(&spy, withdraws), Some(true), "{size}");
        assert_all_fit(&spy);
        assert_nothing_left(&world);
    }
}

#[test]
fn a_large_value_is_sent_once_for_each_turn_however_long_one_waits() {
    let world = MockConsul::new(1);
    let hosts = ["a", "b", "c"].map(|host| {
        let builder = builder(1).value(vec![b'x'; 100_000]);
        connect(builder, &world.client(host))
    });
    let spy = Spy::on(&world);
    let permit = world.run(hosts[0].acquire()).expect("a free slot");
    let waiting = [&hosts[1], &hosts[2]].map(|host| {
        let host = host.clone();
        world.start(async move { host.acquire().await })
    });
    world.advance(secs(20));
    world.run(permit.release()).expect("released");
    for turn in waiting {
        let permit = world.run(turn).expect("its turn");
        world.run(permit.release()).expect("released");
    }
    let requests = spy.requests();
    let with_value = requests.iter().filter(|it| it.body().len() > 100_000);
    assert_eq!(with_value.count(), 3);
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn who_finds_a_record_that_takes_nobody_more_is_told_before_anything_is_written() {
    let world = MockConsul::new(1);
    let mut record = Record::new(20_000);
    for number in 0..13_000 {
        record.add(&format!("{number:08x}-0000-0000-0000-000000000000"));
        if number > 11_800 && record.encode().len() > 524_288 - 44 {
            break;
        }
    }
    let body = String::from_utf8(record.encode()).expect("text");
    let target = format!("/v1/kv/{PREFIX}/.lock?flags={}", record.flags());
    operate(&world, Method::Put, &target, &body);
    let spy = Spy::on(&world);
    let semaphore = semaphore(&world, "a", 20_000);
    let Err(Error::InvalidInput { input: error, .. }) = world.run(semaphore.acquire()) else {
        unreachable!("nobody more fits");
    };
    let is_it = matches!(error, InvalidInput::RecordTooLarge { max: 524_288, .. });
    assert!(is_it, "{error:?}");
    assert_eq!(spy.count(writes_record), 0);
}

#[test]
fn as_many_permits_as_fit_are_claimed_and_given_back_in_one_request() {
    // A claim needs two operations per permit, a release one. More permits are claimed by the
    // record alone, and a read shows their keys. A release of up to 62 permits also deletes the
    // keys. The keys of further permits are deleted one by one.
    for (permits, operations_of_claim, deletions) in [
        (1, 1 + 2, 1),
        (31, 1 + 2 * 31, 1),
        (32, 1, 1),
        (62, 1, 1),
        (63, 1, 1 + 1),
        (100, 1, 1 + 38),
    ] {
        let world = MockConsul::new(1);
        let spy = Spy::on(&world);
        let semaphore = semaphore(&world, "a", permits);
        let permit = world.run(semaphore.acquire_many(permits)).expect("slots");
        assert_eq!(holders(&world).len(), permits as usize);
        assert!(permit.is_held());
        world.run(permit.release()).expect("released");
        assert_nothing_left(&world);

        assert_eq!(spy.count(claims), 1, "{permits}");
        let claim = spy.requests().into_iter().find(claims).expect("a claim");
        assert_eq!(operations(&claim).len(), operations_of_claim, "{permits}");
        assert_eq!(spy.count(withdraws), 1, "{permits}");
        assert_eq!(are_transactions(&spy, withdraws), Some(true));
        assert_eq!(spy.count(deletes_key), deletions, "{permits}");
        assert_all_fit(&spy);
    }
}

#[test]
fn more_who_leave_at_once_than_fit_leave_nothing() {
    let world = MockConsul::new(1);
    let spy = Spy::on(&world);
    let semaphore = semaphore(&world, "a", 80);
    let permits: Vec<_> = (0..80)
        .map(|_| world.run(semaphore.acquire()).expect("a free slot"))
        .collect();
    assert_eq!(holders(&world).len(), 80);
    drop(permits);
    world.advance(secs(5));
    assert_nothing_left(&world);
    assert_all_fit(&spy);
}

/// An agent takes a value of 512 KiB, but a transaction of 512 KiB has room for three quarters.
fn with_a_large_record(world: &MockConsul, limit: u32) {
    let note = "x".repeat(Txn::MAX_BYTES / 4 * 3);
    let body = format!(r#"{{"Limit":{limit},"Holders":{{}},"Note":"{note}"}}"#);
    let flags = Record::new(limit).flags();
    let target = format!("/v1/kv/{PREFIX}/.lock?flags={flags}");
    operate(world, Method::Put, &target, &body);
}

/// The host `a` acquires as many permits as there are slots.
fn acquire_all_at_once(world: &MockConsul, limit: u32) -> Vec<Permit> {
    let semaphore = semaphore(world, "a", limit);
    let waiting = (0..limit).map(|_| {
        let semaphore = semaphore.clone();
        world.start(async move { semaphore.acquire().await })
    });
    let waiting: Vec<_> = waiting.collect();
    let permits = waiting.into_iter().map(|it| world.run(it));
    permits.map(|it| it.expect("a free slot")).collect()
}

#[test]
fn a_record_that_fits_no_transaction_admits_those_who_have_their_key() {
    let world = MockConsul::new(1);
    with_a_large_record(&world, 5);
    let spy = Spy::on(&world);
    let hosts = ["a", "b"].map(|host| semaphore(&world, host, 5));
    for _ in 0..3 {
        let waiting = (0..12).map(|at| {
            let semaphore = hosts[at % 2].clone();
            world.start(async move {
                let permit = semaphore.acquire().await.expect("a slot");
                let token = permit.fencing_token();
                permit.release().await.expect("released");
                token
            })
        });
        let waiting: Vec<_> = waiting.collect();
        let mut tokens: Vec<_> = waiting.into_iter().map(|it| world.run(it)).collect();
        tokens.sort_unstable();
        tokens.dedup();
        assert_eq!(tokens.len(), 12, "their tokens differ");
    }
    assert_eq!(are_transactions(&spy, writes_record), Some(false));
    assert_nothing_left(&world);
}

/// Nobody may hold whose session ended before the write, which did not check that.
#[test]
fn a_record_that_fits_no_transaction_makes_no_holder_of_one_whose_key_is_gone() {
    let world = MockConsul::new(1);
    with_a_large_record(&world, 1);
    let hosts = ["a", "b"].map(|host| semaphore(&world, host, 1));
    let first = world.run(hosts[0].acquire()).expect("a slot");
    let other = hosts[1].clone();
    let waiting = world.start(async move { other.acquire().await });
    world.advance(secs(1));
    let own = &first.sequencers()[0].key;
    let waiter = contender_keys(&world).into_iter().find(|key| key != own);
    let waiter = waiter.expect("a waiter");
    // The other one has been told of the release, and not of this.
    world.run(first.release()).expect("released");
    operate(&world, Method::Delete, &format!("/v1/kv/{waiter}"), "");
    let second = world.run(waiting).expect("another contender of its");
    assert_ne!(second.sequencers()[0].key, waiter);
    world.run(second.release()).expect("released");
    assert_nothing_left(&world);
}

/// The claim may not have reached Consul. Then nobody else changes the record.
#[test]
fn a_claim_by_the_record_alone_is_repeated_if_it_was_lost() {
    for fault in [Fault::LoseRequest, Fault::LoseAnswer, Fault::ResetBefore] {
        let world = MockConsul::new(1);
        let semaphore = semaphore(&world, "a", 40);
        world.inject(Rule::new(fault.clone()).matching(claims));
        let permit = world.run(semaphore.acquire_many(40)).expect("slots");
        assert_eq!(holders(&world).len(), 40, "{fault:?}");
        world.run(permit.release()).expect("released");
        assert_nothing_left(&world);
    }
}

#[test]
fn after_more_permits_than_fit_a_turn_costs_two_requests_again() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 40);
    for _ in 0..2 {
        let many = world.run(semaphore.acquire_many(40)).expect("slots");
        world.run(many.release()).expect("released");
        let turn = || {
            let permit = world.run(semaphore.acquire()).expect("a slot");
            world.run(permit.release()).expect("released");
        };
        turn();
        let spy = Spy::on(&world);
        turn();
        assert_eq!(spy.requests().len(), 2);
    }
    assert_nothing_left(&world);
}

#[test]
fn however_many_a_record_that_fits_no_transaction_admits_their_tokens_differ() {
    let world = MockConsul::new(1);
    with_a_large_record(&world, 300);
    let permits = acquire_all_at_once(&world, 300);
    let mut tokens: Vec<_> = permits.iter().map(Permit::fencing_token).collect();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 300);
}

/// Lists take long beside so large a record. Those who enter meanwhile are not missed in them.
#[test]
fn who_enters_during_a_long_read_need_not_enter_again() {
    let world = MockConsul::new(1);
    with_a_large_record(&world, 300);
    let slow = Rule::new(Fault::DelayAnswer(millis(100)));
    world.inject(slow.matching(is_read).always());
    let spy = Spy::on(&world);
    let permits = acquire_all_at_once(&world, 300);
    let requests = spy.requests();
    let sessions = requests.iter().filter(|it| creates_session(it));
    assert_eq!((permits.len(), sessions.count()), (300, 300));
}
