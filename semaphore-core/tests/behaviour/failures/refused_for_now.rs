//! If a request was served before and is refused now, that is most likely temporary: a token is
//! being replaced, or a gateway answers instead of Consul. Holders and waiters survive it, and
//! released slots are free soon afterwards.

use semaphore_core::sans_io::Response;
use semaphore_core::{Error, RequestError};
use transport_mock::{Fault, MockConsul, Rule};

use crate::support::aftermath::assert_recovered;
use crate::support::*;

#[test]
fn holders_and_waiters_live_through_six_seconds_of_it() {
    for answer in passing_refusals() {
        let world = MockConsul::new(3);
        let holder = semaphore(&world, "holder", 1);
        let waiter = semaphore(&world, "waiter", 1);
        let permit = world.run(holder.acquire()).expect("a slot");
        let waiting = world.start(async move { waiter.acquire().await });
        // At different moments of the renewals and polls.
        for pause in [millis(3_100), millis(4_700), secs(20)] {
            world.advance(pause);
            world.inject(Rule::new(Fault::Answer(answer.clone())).always());
            world.advance(secs(6));
            world.clear_faults();
            world.advance(secs(6));
            assert!(permit.is_held(), "{answer:?}");
        }
        world.run(permit.release()).expect("released");
        let before = world.now();
        let permit = world.run(waiting).expect("a slot");
        assert!(world.now().saturating_since(before) < secs(5), "{answer:?}");
        world.run(permit.release()).expect("released");
        world.advance(secs(2));
        assert_nothing_left(&world);
    }
}

#[test]
fn a_waiter_is_told_what_it_is_when_it_lasts_for_longer_than_a_lease() {
    // A 404 does not say what is wrong, so it is waited out like any outage.
    let answers = passing_refusals().into_iter();
    for answer in answers.filter(|it| it.status() != 404) {
        let world = MockConsul::new(3);
        let holder = semaphore(&world, "holder", 1);
        let waiter = semaphore(&world, "waiter", 1);
        let permit = world.run(holder.acquire()).expect("a slot");
        let waiting = world.start(async move { waiter.acquire().await });
        world.advance(secs(20));
        world.inject(
            Rule::new(Fault::Answer(answer.clone()))
                .host("waiter")
                .always(),
        );
        let before = world.now();

        let error = world.run(waiting).expect_err("refused");
        let took = world.now().saturating_since(before);
        assert!(took >= secs(13) && took < secs(45), "{took:?}");
        let Error::Request(error) = error else {
            panic!("{error:?}");
        };
        assert!(error.is_permanent(), "{error:?}");
        assert!(!matches!(error, RequestError::RefusedForNow(_)));
        world.clear_faults();
        world.run(permit.release()).expect("released");
        world.advance(secs(60));
        assert_nothing_left(&world);
    }
}

/// An earlier version gave up at once, and the next contender had the slot 27 s later.
#[test]
fn a_release_that_is_refused_for_four_seconds_is_told_at_once_and_frees_the_slot_soon_after() {
    for answer in passing_refusals() {
        let world = MockConsul::new(3);
        let holder = semaphore(&world, "holder", 1);
        let waiter = semaphore(&world, "waiter", 1);
        let permit = world.run(holder.acquire()).expect("a slot");
        let waiting = world.start(async move { waiter.acquire().await });
        world.advance(secs(20));
        world.inject(
            Rule::new(Fault::Answer(answer.clone()))
                .host("holder")
                .always(),
        );
        let before = world.now();
        let released = world.run(permit.release());
        let told = world.now().saturating_since(before);
        assert!(matches!(released, Err(Error::Request(_))), "{released:?}");
        assert!(told < millis(50), "{told:?}");
        world.advance(secs(4));
        world.clear_faults();
        let recovered = world.now();
        let permit = world.run(waiting).expect("a slot");
        let took = world.now().saturating_since(recovered);
        assert!(took <= secs(5), "{answer:?} {took:?}");
        world.run(permit.release()).expect("released");
        world.advance(secs(2));
        assert_nothing_left(&world);
    }
}

/// In an earlier version, waiters waited 30 s longer.
#[test]
fn a_drop_in_an_outage_frees_the_slot_soon_after_it() {
    for outage in [4, 38, 120] {
        let world = MockConsul::new(3);
        let holder = semaphore(&world, "holder", 1);
        let waiter = semaphore(&world, "waiter", 1);
        let permit = world.run(holder.acquire()).expect("a slot");
        let waiting = world.start(async move { waiter.acquire().await });
        world.advance(secs(20));
        // Nothing expires while there is no leader.
        world.lose_leader();
        drop(permit);
        world.advance(secs(outage));
        world.elect_leader();
        let recovered = world.now();
        let permit = world.run(waiting).expect("a slot");
        let took = world.now().saturating_since(recovered);
        let most = secs(5).max(secs(outage) / 8 + secs(1));
        assert!(took <= most, "{outage} s: {took:?}");
        world.run(permit.release()).expect("released");
        world.advance(secs(2));
        assert_nothing_left(&world);
    }
}

#[test]
fn a_gateway_does_not_talk_a_participant_out_of_transactions() {
    let world = MockConsul::new(3);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    let html = Response::new(404, "<html>no backend</html>");
    world.inject(Rule::new(Fault::Answer(html)).host("a").always());
    assert!(world.run(permit.release()).is_err());
    world.advance(secs(4));
    world.clear_faults();
    world.advance(secs(5));
    assert_nothing_left(&world);
    let before = world.stats().total_requests();
    let permit = world.run(semaphore.acquire()).expect("a slot");
    world.run(permit.release()).expect("released");
    let most = 6;
    let requests = world.stats().total_requests() - before;
    assert!(requests <= most, "{requests}");
    assert_recovered(&world, 1);
}

/// A gateway's answers are not Consul's. A leaving contender continues in order until Consul has
/// confirmed each step.
#[test]
fn a_gateway_that_is_away_for_longer_than_a_lease_blocks_no_slot_when_it_is_back() {
    let answers = [
        Response::new(404, "<html>no backend</html>"),
        Response::new(403, "<html>Forbidden</html>"),
        Response::new(413, r#"{"message":"too large"}"#),
        Response::new(302, "").with_header("Location", "https://login.example/"),
    ];
    for answer in answers {
        for away in [1, 4, 13, 16] {
            let world = MockConsul::new(away);
            let first = semaphore(&world, "a", 1);
            let permit = world.run(first.acquire()).expect("a slot");
            let second = semaphore(&world, "b", 1);
            let waiting = world.start(async move { second.acquire().await });
            world.advance(secs(20));
            let rule = Rule::new(Fault::Answer(answer.clone())).host("a");
            world.inject(rule.always());
            let released = world.run(permit.release());
            assert!(matches!(released, Err(Error::Request(_))), "{released:?}");
            world.advance(secs(away));
            world.clear_faults();
            let recovered = world.now();
            let permit = world.run(waiting).expect("a slot");
            let took = world.now().saturating_since(recovered);
            assert!(took <= secs(5), "{answer:?} {away}: {took:?}");
            world.run(permit.release()).expect("released");
            world.advance(secs(5));
            assert_nothing_left(&world);
        }
    }
}
