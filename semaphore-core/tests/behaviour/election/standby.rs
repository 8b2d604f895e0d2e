//! Candidates that follow before they campaign end as others do, and are told the same: with the
//! end of their host, by a refusal, and while Consul is silent.

use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use semaphore_core::sans_io::{Method, Response};
use semaphore_core::terms::{TermLimit, Terms};
use semaphore_core::{Client, Election, Error, RequestError, blocking};
use transport_mock::{Fault, MockConsul, RequestKind, Rule, Task};

use crate::support::election::*;
use crate::support::onlooker::Onlooker;
use crate::support::stranger::operate;
use crate::support::*;

type Options = fn(Terms<'static>) -> Terms<'static>;

fn eight() -> TermLimit {
    TermLimit::new(NonZeroUsize::new(8).expect("some"))
}

/// The options of a loop, and their names.
const ALL: [(&str, Options); 5] = [
    ("none", |terms| terms),
    ("hold back", |terms| terms.hold_back(secs(3))),
    ("at most", |terms| terms.at_most(&eight())),
    ("both", |terms| {
        terms.hold_back(secs(3)).at_most(&eight()).longest(secs(60))
    }),
    ("callback", |terms| terms.on_new_leader(|_| ())),
];

/// How long a scene may take, in real time.
const GENEROUS: Duration = Duration::from_secs(60);

/// Fails if the scene does not end. A future that never returns from one poll stops its world, and
/// every time limit in it.
#[expect(
    clippy::disallowed_methods,
    reason = "the test's thread watches the world's"
)]
fn ends(name: &str, scene: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let running = thread::spawn(move || {
        scene();
        let _ = done.send(());
    });
    let waited = is_done.recv_timeout(GENEROUS);
    assert_ne!(waited, Err(RecvTimeoutError::Timeout), "{name}: it spins");
    if let Err(panic) = running.join() {
        resume_unwind(panic);
    }
}

fn client(world: &MockConsul, host: &str) -> Client {
    let builder = Client::builder();
    builder.connect(world.client(host)).expect("valid options")
}

fn serve(
    world: &MockConsul,
    election: &Election,
    options: impl FnOnce(Terms<'static>) -> Terms<'static>,
) -> Task<Result<(), Error>> {
    let terms = options(election.terms());
    world.start(terms.run(|_| std::future::pending()))
}

#[test]
fn a_loop_ends_with_its_host_whatever_its_options_and_whoever_leads() {
    for (name, options) in ALL {
        for leads_elsewhere in [true, false] {
            ends(name, move || {
                let world = MockConsul::new(1);
                let other = election(&world, "b");
                let leads = leads_elsewhere.then(|| world.run(other.campaign()).expect("elected"));
                let client = client(&world, "a");
                let of_client = client.election(KEY).expect("valid settings");
                let alone = election(&world, "a");
                let loops = [&of_client, &alone].map(|it| serve(&world, it, options));
                world.advance(secs(10));
                world.kill("a");
                world.advance(secs(10));
                for mut running in loops {
                    let ended = running.try_take().expect(name);
                    ended.expect("told to stop");
                }
                drop(leads);
            });
        }
    }
}

#[test]
fn a_loop_on_threads_ends_with_its_host() {
    ends("on threads", || {
        let world = MockConsul::new(1);
        let (_other, _leads) = {
            let other = election(&world, "b");
            let leads = world.run(other.campaign()).expect("elected");
            (other, leads)
        };
        let builder = blocking::Client::builder();
        let client = builder.connect(world.client("a")).expect("valid options");
        let waits = client.election(KEY).expect("valid settings");
        let thread = world.spawn_thread(move || {
            let terms = waits.terms().hold_back(secs(3));
            terms.run(|_| unreachable!("another one leads"))
        });
        world.advance(secs(10));
        world.kill("a");
        world.advance(secs(10));
        thread.join().expect("no panic").expect("told to stop");
    });
}

/// Why a campaign may never succeed, and what is told of it.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    Token,
    Key,
}

#[test]
fn a_refusal_at_the_beginning_ends_the_loop_and_is_told_once_whatever_its_options() {
    for wrong in [Wrong::Token, Wrong::Key] {
        for (name, options) in ALL {
            let world = MockConsul::new(1);
            match wrong {
                Wrong::Token => {
                    let denied = Fault::Answer(Response::new(403, "Permission denied"));
                    world.inject(Rule::new(denied).always());
                }
                Wrong::Key => {
                    let target = format!("/v1/kv/{KEY}");
                    operate(&world, Method::Put, &target, "something else");
                }
            }
            let onlooker = Onlooker::default();
            let builder = builder_for(KEY).observer(onlooker.clone());
            let election = elect_with(builder, &world.client("a"));
            let mut running = serve(&world, &election, options);
            world.advance(secs(1));
            let end = running.try_take().expect(name);
            let told = onlooker.words();
            let said: Vec<_> = told
                .iter()
                .filter(|it| ["refused", "conflict"].contains(&it.as_str()))
                .collect();
            match wrong {
                Wrong::Token => {
                    let denied = matches!(end, Err(Error::Request(RequestError::Denied { .. })));
                    assert!(denied, "{name}: {end:?}");
                    assert_eq!(said, ["refused"], "{name}: {told:?}");
                }
                Wrong::Key => {
                    let is_told = matches!(end, Err(Error::NotAnElection { .. }));
                    assert!(is_told, "{name}: {end:?}");
                    assert_eq!(said, ["conflict"], "{name}: {told:?}");
                }
            }
        }
    }
}

#[test]
fn who_is_refused_while_another_one_leads_goes_on_and_a_standby_tells_it_once() {
    for (name, options) in ALL {
        let expected = match name {
            "none" | "callback" => 2..=40,
            _ => 1..=1,
        };
        let world = MockConsul::new(1);
        let (_a, leads) = leader(&world);
        let onlooker = Onlooker::default();
        let builder = builder_for(KEY).value("b").observer(onlooker.clone());
        let b = elect_with(builder, &world.client("b"));
        let mut running = serve(&world, &b, options);
        world.advance(secs(10));
        onlooker.take();
        let denied = Fault::Answer(Response::new(403, "Permission denied"));
        world.inject(Rule::new(denied).host("b").always());
        // A refusal of what was allowed is tried again for a while.
        world.advance(secs(180));
        assert!(running.try_take().is_none(), "{name}");
        let told = onlooker.words();
        let refused = told.iter().filter(|it| *it == "refused").count();
        assert!(expected.contains(&refused), "{name}: {refused} of {told:?}");
        world.clear_faults();
        world.run(leads.resign()).expect("resigned");
        world.advance(secs(30));
        assert_eq!(world.leader(KEY).as_deref(), Some("b"), "{name}");
    }
}

#[test]
fn who_was_refused_leads_when_it_may_again_even_beside_a_follower_that_nobody_asks() {
    for (name, options) in ALL {
        for has_idle_follower in [false, true] {
            let world = MockConsul::new(1);
            let (_a, leads) = leader(&world);
            let onlooker = Onlooker::default();
            let builder = builder_for(KEY).value("b").observer(onlooker.clone());
            let b = elect_with(builder, &world.client("b"));
            let mut idle = has_idle_follower.then(|| b.leaders());
            if let Some(idle) = &mut idle {
                world.run(idle.next()).expect("an event").expect(name);
            }
            let mut running = serve(&world, &b, options);
            world.advance(secs(10));
            let denied = Fault::Answer(Response::new(403, "Permission denied"));
            world.inject(Rule::new(denied).host("b").always());
            world.advance(secs(90));
            assert!(onlooker.words().contains(&"refused".to_owned()), "{name}");
            world.clear_faults();
            world.advance(secs(10));
            onlooker.take();
            world.advance(secs(30));
            let told = onlooker.words();
            assert!(!told.contains(&"refused".to_owned()), "{name}: {told:?}");
            world.run(leads.resign()).expect("resigned");
            world.advance(secs(10));
            assert!(running.try_take().is_none(), "{name}");
            assert_eq!(world.leader(KEY).as_deref(), Some("b"), "{name}");
        }
    }
}

#[test]
fn a_refusal_is_not_asked_about_all_the_time_even_without_a_pause() {
    for (name, options) in ALL {
        ends(name, move || {
            let world = MockConsul::new(1);
            let (_a, _leads) = leader(&world);
            let b = election(&world, "b");
            let mut running = serve(&world, &b, |terms| {
                options(terms).pause_after_refusal(Duration::ZERO)
            });
            world.advance(secs(10));
            let denied = Fault::Answer(Response::new(403, "Permission denied"));
            world.inject(Rule::new(denied).host("b").always());
            // What was allowed is tried again for a while, before a refusal is believed.
            world.advance(secs(90));
            let before = world.stats().total_requests();
            world.advance(secs(10));
            let sent = world.stats().total_requests() - before;
            assert!((10..=250).contains(&sent), "{name}: {sent} requests");
            assert!(running.try_take().is_none(), "{name}");
            world.run(b.shutdown());
            world.run(running).expect("told to stop");
        });
    }
}

#[test]
fn a_silent_consul_is_told_once_and_so_is_its_end_whatever_the_options() {
    for (name, options) in ALL {
        let world = MockConsul::new(1);
        let onlooker = Onlooker::default();
        let builder = builder_for(KEY).value("a").observer(onlooker.clone());
        let election = elect_with(builder, &world.client("a"));
        world.inject(Rule::new(Fault::Refuse).always());
        let mut running = serve(&world, &election, options);
        world.advance(secs(15));
        let told = |onlooker: &Onlooker| {
            let mut words = onlooker.words();
            words.retain(|it| ["retrying", "recovered"].contains(&it.as_str()));
            words
        };
        assert_eq!(told(&onlooker), ["retrying"], "{name}");
        let trouble = election.status().trouble.expect(name);
        assert!(trouble.lasts >= secs(14), "{name}: {trouble:?}");
        assert!(running.try_take().is_none(), "{name}: it waits");
        world.clear_faults();
        world.advance(secs(20));
        assert_eq!(told(&onlooker), ["recovered"], "{name}");
        assert!(election.status().trouble.is_none(), "{name}");
        assert_eq!(world.leader(KEY).as_deref(), Some("a"), "{name}");
    }
}

#[test]
fn a_standby_without_news_makes_no_outage_of_the_brief_failure_of_another() {
    for ((name, options), is_refused) in ALL.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        if ["none", "callback"].contains(&name) {
            continue; // these campaign
        }
        let world = MockConsul::new(1);
        let (_a, _leads) = leader(&world);
        let onlooker = Onlooker::default();
        let builder = Client::builder().observer(onlooker.clone());
        let client = builder.connect(world.client("b")).expect("valid options");
        let election = client.election(KEY).expect("valid settings");
        let mut running = serve(&world, &election, options);
        world.advance(secs(10));
        if is_refused {
            let denied = Fault::Answer(Response::new(403, "Permission denied"));
            world.inject(Rule::new(denied).host("b").target(KEY).always());
            world.advance(secs(90));
        }
        onlooker.take();
        let writes = Rule::new(Fault::Refuse).host("b");
        world.inject(writes.kind(RequestKind::SessionCreate).always());
        let other = client.semaphore("service/jobs", 1).expect(name);
        world
            .run(other.acquire_timeout(millis(500)))
            .expect_err(name);
        // The next reads don't come before it has been told for long.
        world.advance(secs(4));
        let told = onlooker.words();
        assert!(!told.contains(&"retrying".to_owned()), "{name}: {told:?}");
        assert!(running.try_take().is_none(), "{name}: it waits");
    }
}
