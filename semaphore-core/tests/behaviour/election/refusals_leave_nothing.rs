//! A campaign that Consul refuses leaves like one that was cancelled: nothing of it is left, and a shutdown waits for
//! that (invariant L2).

use semaphore_core::sans_io::Response;
use semaphore_core::{Error, RequestError};
use transport_mock::consul::{Access, Policy};
use transport_mock::{Fault, MockConsul, Rule};

use crate::support::election::*;
use crate::support::*;

/// A world in which the token `token` may not write the key. It exists, and nobody leads.
fn world_where_the_key_is_read_only() -> MockConsul {
    let world = MockConsul::new(5);
    let (_a, leadership) = leader(&world);
    world.run(leadership.resign()).expect("resigned");
    world.advance(KEPT);
    world.consul(|consul, _| {
        consul.set_acl_default_deny();
        consul.add_token("all", Policy::management());
        let read_only = Policy::new()
            .with_session_prefix("", Access::Write)
            .with_key(KEY, Access::Read);
        consul.add_token("token", read_only);
    });
    world
}

#[track_caller]
fn assert_denied<T: std::fmt::Debug>(outcome: &Result<T, Error>) {
    let is_denied = matches!(outcome, Err(Error::Request(RequestError::Denied { .. })));
    assert!(is_denied, "{outcome:?}");
}

#[test]
fn a_hundred_refused_campaigns_leave_no_session() {
    let world = world_where_the_key_is_read_only();
    for _ in 0..100 {
        let refused = elect_with(builder_for(KEY).token("token"), &world.client("b"));
        world.run(async {
            assert_denied(&refused.campaign().await);
            refused.shutdown().await;
        });
        assert_only_key_left(&world);
    }
}

#[test]
fn a_campaign_whose_policy_was_narrowed_while_it_waited_leaves_nothing() {
    let world = world_where_the_key_is_read_only();
    let a = elect_with(builder_for(KEY).token("all"), &world.client("a"));
    let leadership = world.run(a.campaign()).expect("elected");
    world.consul(|consul, _| consul.add_token("other", Policy::management()));
    let b = elect_with(builder_for(KEY).token("other"), &world.client("b"));
    let campaigning = world.start(async move {
        let outcome = b.campaign().await;
        (outcome, b)
    });
    world.advance(secs(5));
    world.consul(|consul, _| {
        let read_only = Policy::new()
            .with_session_prefix("", Access::Write)
            .with_key(KEY, Access::Read);
        consul.add_token("other", read_only);
    });
    world.run(leadership.resign()).expect("resigned");
    let (outcome, b) = world.run(campaigning);
    assert_denied(&outcome);
    world.run(async {
        b.shutdown().await;
        a.shutdown().await;
    });
    assert_only_key_left(&world);
}

#[test]
fn what_a_proxy_refuses_of_a_resignation_is_not_repeated_beyond_the_end_of_its_session() {
    for answer in [
        Response::new(403, "<html>Forbidden</html>"),
        Response::new(413, "<html>too large</html>"),
    ] {
        let world = MockConsul::new(5);
        let (_a, leadership) = leader(&world);
        world.advance(secs(20));
        world.inject(Rule::new(Fault::Answer(answer.clone())).host("a").always());
        let resigned = world.run(leadership.resign());
        assert!(matches!(resigned, Err(Error::Request(_))), "{resigned:?}");
        world.advance(secs(30));
        let before = world.stats().total_requests();
        world.advance(secs(300));
        let requests = world.stats().total_requests() - before;
        assert_eq!(requests, 0, "{answer:?}\n{}", world.trace());
        assert_only_key_left(&world);
    }
}
