//! What a sequencer tells a resource: current, stale, or unknown.

use semaphore_core::manage::{Operation, Verify};
use semaphore_core::sans_io::{Instant, Method, Response};
use semaphore_core::{
    Discovery, Error, InvalidInput, RequestError, Scope, Sequencer, SequencerStatus, Token,
    blocking,
};
use transport_mock::consul::{Access, Policy};
use transport_mock::{Fault, MockConsul, Rule};

use crate::support::candidate::{Candidate, LEADER};
use crate::support::stranger::operate;
use crate::support::*;

fn resource(world: &MockConsul) -> Discovery {
    Discovery::builder(LEADER)
        .connect(world.client("resource"))
        .expect("a key")
}

fn sequencer(world: &MockConsul) -> Sequencer {
    let leader = world.run(resource(world).leader()).expect("an answer");
    leader.expect("a leader").sequencer()
}

#[track_caller]
fn status(world: &MockConsul, sequencer: &Sequencer) -> SequencerStatus {
    let verified = world.run(resource(world).verify(sequencer));
    verified.expect("a status")
}

#[test]
fn a_leaders_is_current_as_text_whatever_its_value_is_while_it_leads() {
    let world = MockConsul::new(1);
    let leader = Candidate::leading(&world, "node-1");
    let text = sequencer(&world).to_string();
    let sequencer: Sequencer = text.parse().expect("a sequencer");
    let before = world.stats_of("resource").total_requests();
    assert_eq!(status(&world, &sequencer), SequencerStatus::Current);
    let after = world.stats_of("resource").total_requests();
    assert_eq!(after - before, 1, "one read");
    leader.leads(&world, "node-1 moved");
    assert_eq!(status(&world, &sequencer), SequencerStatus::Current);
}

#[test]
fn it_is_stale_however_its_term_ended() {
    let ends: [fn(&MockConsul, &Candidate); 5] = [
        |world, leader| leader.resigns(world, ""),
        |world, leader| leader.dies(world),
        |world, leader| {
            leader.resigns(world, "");
            Candidate::leading(world, "node-2");
        },
        |world, leader| {
            leader.resigns(world, "");
            leader.leads(world, "node-1 again");
        },
        |world, _| {
            operate(world, Method::Delete, &format!("/v1/kv/{LEADER}"), "");
        },
    ];
    for (number, end) in ends.into_iter().enumerate() {
        let world = MockConsul::new(1);
        let leader = Candidate::leading(&world, "node-1");
        let sequencer = sequencer(&world);
        end(&world, &leader);
        let found = status(&world, &sequencer);
        assert_eq!(found, SequencerStatus::Stale, "{number}");
    }
}

#[test]
fn a_plain_put_leaves_no_sequencer_current() {
    let world = MockConsul::new(1);
    Candidate::leading(&world, "node-1");
    let sequencer = sequencer(&world);
    operate(&world, Method::Put, &format!("/v1/kv/{LEADER}"), "by hand");
    assert_eq!(status(&world, &sequencer), SequencerStatus::Stale);
}

#[test]
fn one_of_another_key_is_refused_without_asking() {
    let world = MockConsul::new(1);
    let candidate = Candidate::leading(&world, "node-1");
    assert!(candidate.acquires(&world, "its/own/key", "", 0));
    let foreign = Sequencer {
        key: "its/own/key".to_owned(),
        lock_index: 1,
        session: candidate.session.clone(),
    };
    let semaphore = semaphore(&world, "resource", 1);
    let refusals = [
        world.run(resource(&world).verify(&foreign)),
        world.run(semaphore.verify(&foreign)),
    ];
    for refused in refusals {
        let Err(Error::InvalidInput {
            input: InvalidInput::SequencerOfAnother(key),
            ..
        }) = refused
        else {
            panic!("{refused:?}");
        };
        assert_eq!(key, "its/own/key");
    }
    assert_eq!(world.stats_of("resource").total_requests(), 0);
}

#[test]
fn it_is_unknown_while_consul_can_not_be_asked() {
    let outages: [fn(&MockConsul); 4] = [
        MockConsul::lose_leader,
        |world| world.partition("resource"),
        |world| world.inject(Rule::new(Fault::Refuse).host("resource").always()),
        |world| {
            let garbage = Fault::Answer(Response::new(200, "<html>"));
            world.inject(Rule::new(garbage).host("resource").always());
        },
    ];
    for (number, outage) in outages.into_iter().enumerate() {
        let world = MockConsul::new(1);
        Candidate::leading(&world, "node-1");
        let sequencer = sequencer(&world);
        outage(&world);
        let found = status(&world, &sequencer);
        assert_eq!(found, SequencerStatus::Unknown, "{number}");
        world.clear_faults();
        world.elect_leader();
        let found = status(&world, &sequencer);
        assert_eq!(found, SequencerStatus::Current, "{number}");
    }
}

#[test]
fn a_failure_that_passes_soon_is_waited_out() {
    let world = MockConsul::new(1);
    Candidate::leading(&world, "node-1");
    let sequencer = sequencer(&world);
    let fault = Rule::new(Fault::no_leader()).host("resource").times(3);
    world.inject(fault);
    assert_eq!(status(&world, &sequencer), SequencerStatus::Current);
    assert_eq!(world.pending_rules(), 0);
}

#[test]
fn it_is_unknown_where_the_answer_says_that_keys_were_left_out() {
    for (filtered, expected) in [
        ("true", SequencerStatus::Unknown),
        ("false", SequencerStatus::Stale),
    ] {
        let world = MockConsul::new(1);
        Candidate::leading(&world, "node-1");
        let sequencer = sequencer(&world);
        let absent = Response::new(404, "")
            .with_header("X-Consul-Index", "7")
            .with_header("X-Consul-Results-Filtered-By-ACLs", filtered);
        world.inject(Rule::new(Fault::Answer(absent)).host("resource"));
        assert_eq!(status(&world, &sequencer), expected);
    }
}

#[test]
fn a_resource_whose_token_is_refused_learns_why() {
    let world = MockConsul::new(1);
    Candidate::leading(&world, "node-1");
    let sequencer = sequencer(&world);
    world.consul(|consul, _| {
        consul.set_acl_default_deny();
        let other = Policy::new().with_key_prefix("other/", Access::Read);
        consul.add_token("5ecret", other);
    });
    let scope = Scope::new().with_token(Token::new("5ecret").expect("a token"));
    let resource = Discovery::builder(LEADER)
        .scope(scope)
        .connect(world.client("resource"))
        .expect("a key");
    let error = world.run(resource.verify(&sequencer)).expect_err("denied");
    assert!(
        matches!(error, Error::Request(RequestError::Denied { .. })),
        "{error:?}"
    );
    assert!(!format!("{error:?} {error}").contains("5ecret"));
}

#[test]
fn a_lagging_agent_does_not_make_a_stale_one_current() {
    let world = MockConsul::new(1);
    let leader = Candidate::leading(&world, "node-1");
    let sequencer = sequencer(&world);
    world.lag("resource");
    leader.resigns(&world, "");
    assert_eq!(status(&world, &sequencer), SequencerStatus::Stale);
}

#[test]
fn a_semaphores_contender_is_verified_by_the_same_words_from_a_thread() {
    let world = MockConsul::new(1);
    let builder = builder(1);
    let client = world.client("holder");
    let holder = builder.connect_blocking(client).expect("settings");
    let permit = holder.acquire().expect("a slot");
    let sequencer = permit.sequencers()[0].clone();
    let client = world.client("resource");
    let resource = builder_of(PREFIX, 1).connect_blocking(client);
    let resource: blocking::Semaphore = resource.expect("settings");
    let status = || resource.verify(&sequencer).expect("a status");
    assert_eq!(status(), SequencerStatus::Current);
    world.partition("resource");
    assert_eq!(status(), SequencerStatus::Unknown);
    world.heal("resource");
    permit.release().expect("released");
    assert_eq!(status(), SequencerStatus::Stale);
}

#[test]
fn answers_of_any_kind_end_its_verification_within_bounds() {
    let session = "aaaaaaaa-0000-0000-0000-000000000000";
    let sequencer: Sequencer = format!("1:{session}:{LEADER}").parse().expect("one");
    let entry = |fields: &str| format!(r#"[{{"Key":"{LEADER}",{fields}}}]"#);
    let bodies = [
        String::new(),
        "[".repeat(100_000),
        "[null]".to_owned(),
        "[{}]".to_owned(),
        entry(r#""LockIndex":-1"#),
        entry(&format!(r#""LockIndex":"1","Session":"{session}""#)),
        entry(r#""LockIndex":1,"Session":7"#),
        entry(r#""LockIndex":1,"Session":"☃""#),
        r#"[{"Key":"other"}]"#.to_owned(),
    ];
    for body in bodies {
        let mut operation = Operation::new(Verify::new(sequencer.clone(), Scope::new()), 1);
        let mut now = Instant::from_origin(secs(1));
        let output = loop {
            if let Some(output) = operation.poll_output() {
                break output;
            }
            match operation.poll_transmit(now) {
                Some(_) => operation.handle_response(now, &Ok(Response::new(200, body.as_str()))),
                None => now = operation.poll_timeout().expect("another try"),
            }
        };
        let status = output.expect("a status");
        assert!(!status.is_current(), "{body:.60}");
        assert!(now < Instant::from_origin(secs(10)), "{now}");
    }
}
