//! Many seeds: a failure is made smaller, shown, and repeated by its seed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use transport_mock::adapter::{Method, Request, Transport as _};
use transport_mock::{MockClient, MockConsul, Seeds};

/// Set in the process in which the test below must fail.
const FAILS: &str = "CONSUL_MOCK_TEST_FAILS";

async fn writes(node: &MockClient) {
    for _ in 0..20 {
        let write = Request::new(Method::Put, "/v1/kv/greeting").with_body("hello");
        let _ = node.send(write).await;
    }
}

/// The faults that a world was given.
fn faults(world: &MockConsul) -> String {
    let trace = world.trace();
    let first = trace.lines().next().unwrap_or_default();
    first.trim_start_matches([' ', '.', '0']).to_owned()
}

#[test]
fn of_a_failure_the_fewest_faults_are_left() {
    let mut worlds = Vec::new();
    let run = catch_unwind(AssertUnwindSafe(|| {
        Seeds::new(20).with_faults(0.2).run(|world| {
            world.run(writes(&world.client("a")));
            worlds.push((world.seed(), faults(&world)));
            assert!(!world.trace().contains("! answer lost"), "on purpose");
        });
    }));
    assert!(run.is_err());
    let (seed, smallest) = worlds.last().unwrap();
    assert!(
        smallest.starts_with("Faults { lose_answer: ")
            && smallest.ends_with(", at_most: Some(1), ..Faults::none() }"),
        "{smallest}"
    );
    let whole = worlds.iter().find(|(it, _)| it == seed);
    let (_, whole) = whole.unwrap();
    assert!(whole.split(", ").count() > 4, "{whole}");
}

#[test]
fn what_passes_is_run_once_for_each_seed() {
    let mut seeds = Vec::new();
    Seeds::new(5).with_faults(0.2).run(|world| {
        world.run(writes(&world.client("a")));
        seeds.push(world.seed());
    });
    assert_eq!(seeds, [0, 1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "an answer was lost")]
async fn on_tokio_too() {
    let test = async |world: MockConsul| {
        writes(&world.client("a")).await;
        let lost = world.trace().contains("! answer lost");
        let alone = faults(&world).contains("lose_answer") && faults(&world).contains("Some(1)");
        assert!(!lost || !alone, "an answer was lost");
        assert!(
            !lost,
            "a larger failure, which is not the one that is shown"
        );
    };
    Seeds::new(20).with_faults(0.2).run_on_tokio(test).await;
}

/// Fails only when another test runs it in a separate process.
#[test]
fn the_test_that_fails() {
    if env::var_os(FAILS).is_none() {
        return;
    }
    Seeds::new(20).with_faults(0.2).run(|world| {
        world.run(writes(&world.client("a")));
        println!("ran {}", world.seed());
        assert!(!world.trace().contains("! answer lost"), "on purpose");
    });
}

fn failing(seed: Option<&str>) -> (String, String) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "seeds::the_test_that_fails", "--nocapture"]);
    command.env(FAILS, "1").env_remove("CONSUL_MOCK_SEED");
    command.envs(seed.map(|seed| ("CONSUL_MOCK_SEED", seed)));
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_failure_is_shown_once_with_its_seed_its_faults_and_the_end_of_its_trace() {
    let (_, said) = failing(None);
    assert_eq!(said.matches("on purpose").count(), 1, "{said}");
    let shown = "the fewest faults with which it still fails: Faults { lose_answer: ";
    assert!(said.contains(shown), "{said}");
    let end = said.split("its trace ended so:").nth(1).unwrap();
    assert!(end.contains("! answer lost"), "{said}");

    let (_, seed) = said.split_once("CONSUL_MOCK_SEED=").unwrap();
    let (seed, _) = seed.split_once(" repeats it alone").unwrap();
    let (ran, again) = failing(Some(seed));
    let ran = ran.lines().filter_map(|line| line.split("ran ").nth(1));
    assert!(ran.clone().count() > 0 && ran.clone().all(|it| it == seed));
    assert!(again.contains(shown), "{again}");
}
