//! An error says enough: what failed, on which semaphore, at which agent, why, and what to do.

use std::error::Error as _;

use futures_util::FutureExt as _;
use semaphore_core::adapter::{Response, Transport as _};
use semaphore_core::error::{Awaited, ClosedBy};
use semaphore_core::sans_io::api::{CasKey, LOCK_FLAGS};
use semaphore_core::sans_io::{Event, Index, Machine as _};
use semaphore_core::{Builder, Discovery, Election, Error, InvalidInput, Lost, Scope};
use transport_mock::consul::{Access, Policy};
use transport_mock::{Fault, MockConsul, Rule};

use crate::support::bench::Bench;
use crate::support::election::{builder_for, elect_with};
use crate::support::forking::Forking;
use crate::support::*;

/// The beginning of every text about a semaphore of [`builder`].
const HERE: &str = "semaphore \"service/db\" at mock://a: ";

#[track_caller]
fn assert_says(error: impl std::error::Error, parts: &[&str]) {
    let text = error.to_string();
    let mut rest = text.as_str();
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else {
            panic!("{part:?} is missing in {rest:?} of {text:?}");
        };
        rest = after;
    }
    assert!(!text.ends_with('.') && !text.contains('\n'), "{text:?}");
}

#[track_caller]
fn assert_begins_here(error: &Error) {
    assert!(error.to_string().starts_with(HERE), "{error}");
    let subject = error.subject().expect("it is known");
    assert_eq!(subject.semaphore(), Some("service/db"));
    assert_eq!(subject.agent(), Some("mock://a"));
    assert_eq!(subject.election(), None);
}

#[test]
fn a_bad_option_says_which_and_what_to_do() {
    let world = MockConsul::new(1);
    let told = |builder: Builder| {
        builder
            .connect(world.client("a"))
            .expect_err("it is refused")
    };
    assert_says(
        told(builder(0)),
        &[
            "semaphore \"service/db\": invalid input: the limit is 0",
            "at least one slot",
        ],
    );
    assert_says(
        told(builder(1).ttl(secs(1))),
        &[
            "semaphore \"service/db\": invalid input: ",
            "TTL 1s",
            "10 s to 24 h",
        ],
    );
    assert_says(
        told(builder_of("a/.lock", 1)),
        &["\"a/.lock\" ends in `.lock`", "leave that out"],
    );
    let semaphore = semaphore(&world, "a", 3);
    let error = world.run(semaphore.acquire_many(4)).expect_err("too many");
    assert_begins_here(&error);
    assert_says(
        &error,
        &["4 permits", "the limit is 3", "ask for 3 at most"],
    );
    assert!(
        error
            .source()
            .is_some_and(<dyn std::error::Error>::is::<InvalidInput>)
    );
}

#[test]
fn a_bad_option_of_an_election_or_a_discovery_says_of_which() {
    let world = MockConsul::new(1);
    let election = elections().ttl(secs(1)).connect(world.client("a"));
    let says = ["election \"service/db/leader\": invalid input: ", "TTL 1s"];
    assert_says(election.expect_err("refused"), &says);
    let discovery = Discovery::builder("service/db/leader").max_age(secs(1));
    let says = [
        "election \"service/db/leader\": invalid input: ",
        "max_age of 1s",
    ];
    assert_says(
        discovery.connect(world.client("a")).expect_err("refused"),
        &says,
    );
}

#[test]
fn a_failed_request_says_what_was_asked_of_whom_and_why_it_failed() {
    let world = MockConsul::new(1);
    world.inject(Rule::new(Fault::Refuse).always());
    let semaphore = semaphore(&world, "a", 1);
    let error = world
        .run(semaphore.acquire_timeout(secs(5)))
        .expect_err("nobody answers");
    assert_begins_here(&error);
    let parts = [
        "nothing was granted within 5 s: ",
        " /v1/",
        " got no answer: the agent could not be reached",
        "; is an agent running there, and is the address right?",
    ];
    assert_says(&error, &parts);
    let error = world.run(semaphore.inspect()).expect_err("nobody answers");
    assert_begins_here(&error);
    assert_says(&error, &["GET /v1/kv/service/db/ got no answer", "reached"]);
    let Error::Request(request) = &error else {
        panic!("{error:?}");
    };
    let asked = request.asked().request();
    assert_eq!(asked.as_deref(), Some("GET /v1/kv/service/db/"));
}

#[test]
fn an_address_that_is_not_consuls_is_told_alike_whoever_asks() {
    let world = MockConsul::new(1);
    for status in [404, 405] {
        world.inject(Rule::new(Fault::Answer(Response::new(status, ""))).always());
        let semaphore = semaphore(&world, "a", 1);
        let tried = world.run(semaphore.try_acquire()).expect_err("refused");
        let waited = world.run(semaphore.acquire()).expect_err("refused");
        for error in [&tried, &waited] {
            assert_begins_here(error);
            let advice = "is the address, with its path, that of a Consul agent?";
            assert_says(error, &[" /v1/", advice]);
        }
        world.clear_faults();
    }
}

#[test]
fn plain_http_to_a_port_of_https_says_so() {
    let world = MockConsul::new(1);
    let text = "Client sent an HTTP request to an HTTPS server.";
    world.inject(Rule::new(Fault::Answer(Response::new(400, text))).always());
    let semaphore = semaphore(&world, "a", 1);
    let error = world.run(semaphore.acquire()).expect_err("refused");
    assert_begins_here(&error);
    assert_says(
        &error,
        &["status 400", text, "the port speaks TLS: use https://"],
    );
}

#[test]
fn a_missing_permission_is_named_with_its_key() {
    let no_sessions = Policy::new().with_key_prefix("service/db", Access::Write);
    let no_keys = Policy::new().with_session_prefix("", Access::Write);
    let read_only = Policy::new()
        .with_session_prefix("", Access::Write)
        .with_key_prefix("service/db", Access::Read);
    for (policy, permission) in [
        (
            no_sessions,
            "session write on the node that the session stands on",
        ),
        (read_only, "\" write"),
        (no_keys, "key"),
    ] {
        let world = MockConsul::new(1);
        world.consul(|consul, _| {
            consul.set_acl_default_deny();
            consul.add_token("hidden-token", policy);
        });
        let semaphore = connect(builder(1).token("hidden-token"), &world.client("a"));
        let error = world.run(semaphore.acquire()).expect_err("denied");
        assert_begins_here(&error);
        assert_says(
            &error,
            &["the token", " lacks the permission: ", permission],
        );
        assert!(!format!("{error:?} {error}").contains("hidden-token"));
    }
}

#[test]
fn a_token_that_is_unknown_or_missing_is_told_apart() {
    let world = MockConsul::new(1);
    world.consul(|consul, _| consul.set_acl_default_deny());
    let unknown = connect(builder(1).token("deleted"), &world.client("a"));
    let error = world.run(unknown.acquire()).expect_err("denied");
    assert_says(&error, &["ACL not found", "Consul does not know the token"]);
    let none = semaphore(&world, "b", 1);
    let error = world.run(none.acquire()).expect_err("denied");
    assert_says(&error, &["no token was given, and without one lacks"]);
}

#[test]
fn another_limit_says_of_which_semaphore_and_what_to_do() {
    let world = MockConsul::new(1);
    let permit = world
        .run(semaphore(&world, "b", 3).acquire())
        .expect("a slot");
    let error = world
        .run(semaphore(&world, "a", 5).acquire())
        .expect_err("another limit");
    assert_begins_here(&error);
    let parts = [
        "the limit is 5 here, but the semaphore's record says 3: connect with 3, ",
        "or resize the semaphore to 5",
    ];
    assert_says(&error, &parts);
    world.run(permit.release()).expect("released");
}

#[test]
fn who_waits_in_vain_is_told_who_holds() {
    let world = MockConsul::new(1);
    let holder = semaphore(&world, "b", 1);
    let permit = world.run(holder.acquire()).expect("a slot");
    let session = permit.sequencers()[0].session.to_string();
    let waiting = semaphore(&world, "a", 1);
    let error = world
        .run(waiting.acquire_timeout(secs(20)))
        .expect_err("it is held");
    assert_begins_here(&error);
    let text = format!(
        "nothing was granted within 20 s: Consul answers: 1 of 1 held by \"test\" ({session}), nobody waits ahead"
    );
    assert_says(&error, &[&text]);
    let Error::Timeout { within, seen, .. } = error else {
        panic!("{error:?}");
    };
    let seen = seen.expect("Consul has answered");
    assert_eq!(
        (within, seen.limit, seen.ahead),
        (Awaited::Grant, Some(1), Some(0))
    );
    assert_eq!(seen.holders[0].session, session);
    world.run(permit.release()).expect("released");
}

#[test]
fn who_campaigns_in_vain_is_told_who_leads() {
    let world = MockConsul::new(1);
    let elected = elect_with(elections().value("node-b"), &world.client("b"));
    let leadership = world.run(elected.campaign()).expect("it leads");
    let session = leadership.sequencer().session.to_string();
    let other = elect_with(elections(), &world.client("a"));
    let error = world
        .run(other.campaign_timeout(secs(20)))
        .expect_err("another one leads");
    let text = format!(
        "election \"service/db/leader\" at mock://a: nothing was granted within 20 s: Consul answers: led by \"node-b\" ({session})"
    );
    assert_eq!(error.to_string(), text);
    assert_eq!(
        error.subject().expect("known").election(),
        Some("service/db/leader")
    );
    world.run(leadership.resign()).expect("resigned");
}

fn elections() -> Builder<Election> {
    builder_for("service/db/leader")
}

#[test]
fn a_frozen_agent_does_not_look_like_a_full_semaphore() {
    let world = MockConsul::new(1);
    let holder = semaphore(&world, "b", 2);
    let permit = world.run(holder.acquire()).expect("a slot");
    let unused = semaphore(&world, "a", 2);
    let known = semaphore(&world, "c", 2);
    drop(world.run(known.acquire()).expect("a slot"));
    world.run(known.shutdown_timeout(secs(5))).expect("in time");
    let known = semaphore(&world, "c", 2);
    let mine = world.run(known.acquire()).expect("a slot");
    world.inject(Rule::new(Fault::LoseRequest).host("a").always());
    world.inject(Rule::new(Fault::LoseRequest).host("c").always());
    let text = |semaphore: &semaphore_core::Semaphore| {
        let late = world.run(semaphore.acquire_timeout(millis(501)));
        late.expect_err("nobody answers").to_string()
    };
    let of_unused = text(&unused);
    let silence = "nothing was granted within 501 ms: Consul has not answered for 501 ms";
    assert!(of_unused.ends_with(silence), "{of_unused}");
    let of_known = text(&known);
    assert!(of_known.contains(silence), "{of_known}");
    let last = "; by its last answer 2 of 2 held by ";
    assert!(of_known.contains(last), "{of_known}");
    world.clear_faults();
    drop(mine);
    world.run(permit.release()).expect("released");
}

#[test]
fn a_time_out_says_how_many_wait_ahead() {
    let world = MockConsul::new(1);
    let holder = semaphore(&world, "b", 1);
    let permit = world.run(holder.acquire()).expect("a slot");
    let others = ["c", "d"].map(|host| semaphore(&world, host, 1));
    let waiting = others.each_ref().map(|it| {
        let other = it.clone();
        let waiting = world.start(async move { other.acquire().await });
        world.advance(secs(1));
        waiting
    });
    let late = world.run(semaphore(&world, "a", 1).acquire_timeout(secs(5)));
    assert_says(
        late.expect_err("it is held"),
        &["1 of 1 held by \"test\" (", ", 2 wait ahead"],
    );
    drop(waiting);
    world.run(permit.release()).expect("released");
}

#[test]
fn many_who_hold_are_told_by_their_number() {
    let world = MockConsul::new(1);
    let holder = semaphore(&world, "b", 5);
    let permit = world.run(holder.acquire_many(5)).expect("slots");
    let error = world
        .run(semaphore(&world, "a", 5).acquire_timeout(secs(2)))
        .expect_err("they are held");
    assert_says(
        &error,
        &[
            "within 2 s: Consul answers: 5 of 5 held by \"test\" (",
            " and 2 more, nobody waits ahead",
        ],
    );
    world.run(permit.release()).expect("released");
}

#[test]
fn a_lease_that_ran_out_in_silence_says_why_no_renewal_succeeded() {
    let world = MockConsul::new(1);
    let permit = world
        .run(semaphore(&world, "a", 1).acquire())
        .expect("a slot");
    world.partition("a");
    let lost = world.run(permit.lost());
    let parts = [
        "semaphore \"service/db\" at mock://a: lost: the lease of session ",
        " ran out: no renewal succeeded: ",
        " got no answer: the agent did not answer in time",
    ];
    assert_says(&lost, &parts);
    assert_eq!(
        lost.subject().expect("known").semaphore(),
        Some("service/db")
    );
    let released = world.run(permit.release()).expect_err("it was lost");
    assert_says(
        &released,
        &[&lost.to_string(), "what it protected may have"],
    );
}

#[test]
fn a_lease_that_ran_out_since_nobody_sent_a_renewal_says_so() {
    let mut bench = Bench::new(1, 1);
    let acquire = bench.acquire();
    bench.run_for(secs(3));
    assert!(bench.participant.is_held(bench.now, acquire));
    // Nobody runs the machine for 20 s.
    bench.now = bench.now + secs(20);
    bench.participant.handle_timeout(bench.now);
    let mut events = std::iter::from_fn(|| bench.participant.poll_event());
    let lost = events.find_map(|event| match event {
        Event::Lost { reason, .. } => Some(reason),
        _ => None,
    });
    let lost = &lost.expect("it is lost");
    assert_says(
        lost,
        &[
            "ran out: no renewal was sent for 2",
            " s; is the executor blocked, or was the process stopped?",
        ],
    );
    let Lost::LeaseExpired { unsent, .. } = lost else {
        panic!("{lost:?}");
    };
    assert!(unsent.is_some_and(|unsent| unsent >= secs(20)), "{lost:?}");
}

#[test]
fn a_leader_that_nobody_ran_is_told_so() {
    let mut bench = crate::support::election_bench::Bench::leading().0;
    bench.now = bench.now + secs(20);
    bench.turn();
    let [lost] = bench.losses()[..] else {
        panic!("one loss");
    };
    assert_says(
        lost,
        &["no renewal was sent for 2", "is the executor blocked"],
    );
}

#[test]
fn a_prefix_that_shows_nothing_may_be_hidden() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    for error in [
        world.run(semaphore.inspect()).map(drop),
        world.run(semaphore.resize(2)),
        world.run(semaphore.destroy()),
    ] {
        let error = error.expect_err("there is none");
        assert_begins_here(&error);
        let parts = [
            "there is no semaphore under this prefix: nobody has used it yet, or the token may not read it",
            "key_prefix read",
        ];
        assert_says(&error, &parts);
    }
}

#[test]
fn what_is_hidden_in_part_says_which_permission_shows_it() {
    let world = MockConsul::new(1);
    let text = "[]";
    let filtered = Response::new(200, text)
        .with_header("X-Consul-Index", "7")
        .with_header("X-Consul-Results-Filtered-By-ACLs", "true");
    world.inject(Rule::new(Fault::Answer(filtered)).always());
    let error = world
        .run(semaphore(&world, "a", 1).inspect())
        .expect_err("hidden");
    assert_begins_here(&error);
    assert_says(&error, &["incomplete", "key_prefix \"service/db/\" write"]);
}

#[test]
fn a_key_of_something_else_says_what_was_found_and_that_it_was_left_alone() {
    let world = MockConsul::new(1);
    let mutex = CasKey {
        key: "service/db/.lock",
        index: Index::ZERO,
        value: b"x",
        flags: LOCK_FLAGS,
    };
    let written = world.run(world.client("b").send(mutex.request(&Scope::default())));
    assert_eq!(written.expect("an answer").status(), 200);
    let error = world
        .run(semaphore(&world, "a", 1).acquire())
        .expect_err("another tool's");
    assert_begins_here(&error);
    let parts = [
        "the key \"service/db/.lock\" is not a semaphore's: its flags 0x2ddc",
        "it was not touched: use another prefix, or remove the key",
    ];
    assert_says(&error, &parts);
}

#[test]
fn what_is_in_use_says_by_how_many() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    let error = world.run(semaphore.destroy()).expect_err("it is in use");
    assert_begins_here(&error);
    assert_says(&error, &["in use: 1 hold a slot, 0 wait"]);
    world.run(permit.release()).expect("released");
}

#[test]
fn what_is_closed_says_by_whom() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    semaphore.close();
    let error = world.run(semaphore.acquire()).expect_err("closed");
    assert_begins_here(&error);
    assert_says(
        &error,
        &["was closed: close or shutdown was called", "connect again"],
    );
    let by = |error: &Error| match error {
        Error::Closed { by, .. } => *by,
        other => panic!("{other:?}"),
    };
    assert_eq!(by(&error), ClosedBy::Owner);
    // It stays so if the runtime ends afterwards.
    drop(world);
    let error = at_once(semaphore.acquire());
    assert_eq!(by(&error), ClosedBy::Owner);
}

#[test]
fn after_the_end_of_the_runtime_each_handle_says_so() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    let signal = permit.lost_signal();
    drop(world);
    let error = at_once(semaphore.acquire());
    assert_begins_here(&error);
    assert_says(
        &error,
        &["the runtime that it was connected on has ended", "a static"],
    );
    assert!(matches!(
        error,
        Error::Closed {
            by: ClosedBy::RuntimeEnded,
            ..
        }
    ));
    let released = at_once(permit.release());
    assert!(
        matches!(released, Error::Lost(Lost::RuntimeEnded { .. })),
        "{released:?}"
    );
    assert_begins_here(&released);
    assert_says(
        &released,
        &[
            "lost: the runtime has ended, and with it the task",
            "keep the runtime until the work is done",
        ],
    );
    let told = signal.now_or_never().expect("at once").to_string();
    assert!(told.starts_with(HERE), "{told}");
}

#[test]
fn what_a_fork_left_behind_says_of_which_semaphore_it_was() {
    let world = MockConsul::new(1);
    let runtime = Forking::new(world.client("a"));
    let semaphore = builder(1).connect(runtime.clone()).expect("valid");
    let permit = world.run(semaphore.acquire()).expect("a slot");
    let signal = permit.lost_signal();

    runtime.fork();
    assert_begins_here(&at_once(semaphore.acquire()));
    let lost = permit.lost().now_or_never().expect("at once").to_string();
    assert!(lost.starts_with(HERE), "{lost}");
    assert!(
        lost.ends_with("connect again after the fork"),
        "what to do: {lost}"
    );
    assert_eq!(signal.now_or_never().expect("at once").to_string(), lost);
    let released = at_once(permit.release());
    assert_begins_here(&released);
    assert_eq!(
        released.to_string(),
        lost,
        "the child has given nothing back"
    );
}

#[test]
fn a_leadership_that_ends_with_its_runtime_says_of_which_election_it_was() {
    let world = MockConsul::new(1);
    let election = elect_with(builder_for("service/db/leader"), &world.client("a"));
    let leadership = world.run(election.campaign()).expect("elected");
    drop(world);
    for error in [
        at_once(leadership.set_value(b"b")),
        at_once(leadership.resign()),
        at_once(election.campaign()),
    ] {
        assert_says(
            &error,
            &[
                "election \"service/db/leader\" at mock://a: ",
                "the runtime",
            ],
        );
    }
}

/// The error of a future that must not wait.
fn at_once<T>(future: impl Future<Output = Result<T, Error>>) -> Error {
    use std::task::{Context, Poll, Waker};
    let polled = std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop()));
    match polled {
        Poll::Ready(Err(error)) => error,
        Poll::Ready(Ok(_)) => panic!("it succeeds"),
        Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn a_machine_that_is_driven_by_hand_tells_what_it_knows() {
    let mut bench = Bench::new(1, 1);
    bench.participant.close(bench.now);
    let error = bench
        .participant
        .acquire(bench.now, 1, None)
        .expect_err("closed");
    assert!(error.subject().is_none());
    assert!(error.to_string().starts_with("the handle was closed"));
}
