//! An answer may leave out what the token may not see (`X-Consul-Results-Filtered-By-ACLs`, Consul
//! 1.11 and newer). That does not count as missing: nobody is pruned, elected or given up because
//! of it.
//!
//! For a read of one key, an agent answers 403 instead. A gateway in front of it may not.

use semaphore_core::adapter::Response;
use semaphore_core::manage::SessionDetails;
use semaphore_core::{Discovery, Error, RequestError, Scope, Token};
use transport_mock::consul::{Access, Policy, Version};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::support::election::{KEY, election, leader};
use crate::support::*;

const FILTERED: &str = "X-Consul-Results-Filtered-By-ACLs";

/// The answer if there is no such key, or if the token may not see it.
fn no_key(filtered: &str) -> Response {
    Response::new(404, "")
        .with_header("X-Consul-Index", "7")
        .with_header(FILTERED, filtered)
}

fn is_denied(error: &Error) -> bool {
    matches!(error, Error::Request(RequestError::Denied { .. }))
}

#[test]
fn a_leader_whose_key_is_left_out_goes_on_and_one_whose_key_is_gone_has_lost() {
    for (filtered, is_led) in [("true", true), ("false", false)] {
        let world = MockConsul::new(1);
        let (_election, leadership) = leader(&world);
        let left_out = Rule::new(Fault::Answer(no_key(filtered))).host("a");
        world.inject(left_out.kind(RequestKind::KvWatch).times(2).optional());
        world.advance(secs(40));
        assert_eq!(leadership.is_leader(), is_led, "{}", world.trace());
    }
}

#[test]
fn whoever_campaigns_for_a_key_that_is_left_out_is_told_and_sends_no_attempt() {
    let world = MockConsul::new(1);
    let (_election, leadership) = leader(&world);
    for kind in [RequestKind::KvRead, RequestKind::KvWatch] {
        let left_out = Rule::new(Fault::Answer(no_key("true")))
            .host("b")
            .kind(kind);
        world.inject(left_out.always().optional());
    }
    let error = world.run(election(&world, "b").campaign());
    let error = error.expect_err("it may not see the key");
    assert!(is_denied(&error), "{error:?}");
    let stats = world.stats_of("b");
    let attempts = stats.requests_of(RequestKind::Txn) + stats.requests_of(RequestKind::KvAcquire);
    assert_eq!(attempts, 0);
    assert!(leadership.is_leader());
}

/// What discovery tells about a leader's session that the token may not read.
fn described(version: Version, token: Option<&str>) -> Result<Option<SessionDetails>, Error> {
    let world = MockConsul::with_profile(1, version);
    let (_election, _leadership) = leader(&world);
    world.consul(|consul, _| {
        consul.set_acl_default_deny();
        let reader = Policy::new().with_key(KEY, Access::Read);
        consul.add_token("5ecret", reader);
        consul.add_token("all", Policy::management());
    });
    let looker = |token: Option<&str>| {
        let scope = token.map_or_else(Scope::new, |token| {
            Scope::new().with_token(Token::new(token).expect("a token"))
        });
        let builder = Discovery::builder(KEY).scope(scope);
        builder.connect(world.client("looker")).expect("a key")
    };
    let leader = world.run(looker(Some("all")).leader()).expect("an answer");
    world.run(looker(token).holder(&leader.expect("a leader")))
}

#[test]
fn a_session_that_may_not_be_read_is_denied_where_the_agent_says_so() {
    for version in [Version::V1_15, Version::V1_22, Version::V1_23] {
        let error = described(version, Some("5ecret")).expect_err("left out");
        assert!(is_denied(&error), "{error:?}");
        let text = format!("{error:?} {error}");
        assert!(!text.contains("5ecret"), "{text}");
        // Without a token, the agent does not say that anything was left out.
        let found = described(version, None).expect("an answer");
        assert_eq!(found, None);
    }
    let found = described(Version::V1_8, Some("5ecret")).expect("an answer");
    assert_eq!(found, None, "1.8 leaves it out in silence");
}
