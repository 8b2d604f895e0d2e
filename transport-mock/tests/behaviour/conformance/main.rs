//! The Consul in memory must answer as a real agent does. A table of request scripts and any number
//! of random scripts run on both.
//!
//! Each step's status, index and headers are compared. JSON is compared by its meaning, and a
//! refusal by the class that a client gives it, not by Go's wording.
//!
//! The scripts of the table are in `table/`. Each is data, under a name that says what it shows.
//! The scripts of `random/` are drawn from a seed, and a difference is reported as the shortest
//! script that shows it. Two variables say how much is run: `SEMAPHORE_CONFORMANCE_REQUESTS` random
//! requests from the seed `SEMAPHORE_CONFORMANCE_SEED`, and `SEMAPHORE_CONFORMANCE_TIMED` scripts
//! that wait for expiries. The documentation of [`transport_mock::consul`] lists the intended
//! differences.
//!
//! The real agent comes from `scripts/consul`. Without it, these tests fail. The agent may be of
//! any release: it is compared with the nearest [profile](transport_mock::consul::Profile) of the
//! Consul in memory. `recorded/` holds the answers of an agent of 1.23-dev to the table. They are
//! compared with the profile of 1.23 in the same way.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod campaign;
mod compare;
mod ends;
mod http;
mod meaning;
mod memory;
mod parked;
mod random;
mod real;
mod recorded;
mod run;
mod script;
mod shrink;
mod table;
mod timing;
mod told;

use std::{env, thread};

use real_agent::Agent;
use transport_mock::consul::{NODE, Version};

use real::Real;

#[test]
fn both_give_the_same_answers_to_every_script() {
    let agent = agent();
    let differences: Vec<String> = (0..)
        .zip(table::quick())
        .flat_map(|(number, script)| {
            let prefix = prefix(number);
            run::compare(&script, &prefix, &mut Real::new(&agent)).differences
        })
        .collect();
    judge(&differences);
}

/// Random scripts find what nobody thought of. Each run prints its seed, and a failure names its
/// script's seed.
#[test]
fn both_give_the_same_answers_to_random_scripts() {
    let requests = setting("REQUESTS").unwrap_or(4000);
    let seeds = match setting("SEED") {
        Some(seed) => vec![seed],
        None => vec![0, u64::from(fastrand::u32(..))],
    };
    for seed in &seeds {
        println!("from seed {seed}, which SEMAPHORE_CONFORMANCE_SEED={seed} repeats:");
        let tally = campaign::run(*seed, requests / seeds.len() as u64);
        println!("{tally}");
        assert_eq!(tally.complaint(), None);
    }
}

#[test]
fn both_keep_the_same_secrets() {
    const MANAGEMENT: &str = "00000000-1111-2222-3333-444444444444";
    let agent = Agent::builder().node(NODE).acl(MANAGEMENT).start();
    let agent = agent.expect("a real agent starts");
    let differences: Vec<String> = (700..)
        .zip(table::acl())
        .flat_map(|(number, script)| {
            let prefix = prefix(number);
            let mut real = Real::with_acl(&agent, MANAGEMENT);
            run::compare(&script, &prefix, &mut real).differences
        })
        .collect();
    judge(&differences);
}

#[test]
fn both_end_sessions_and_delays_at_the_same_time() {
    let agent = agent();
    let scripts: Vec<_> = (500..).zip(table::slow()).collect();
    let differences = thread::scope(|scope| {
        let runs: Vec<_> = scripts
            .iter()
            .map(|(number, script)| {
                scope.spawn(|| {
                    let prefix = prefix(*number);
                    run::compare(script, &prefix, &mut Real::new(&agent)).differences
                })
            })
            .collect();
        runs.into_iter()
            .flat_map(|run| run.join().expect("the script runs to its end"))
            .collect::<Vec<_>>()
    });
    judge(&differences);
}

/// The same with time, which is real on the agent. A difference counts, unless the measured times
/// leave open what came first, as `timing.rs` says: then the script is run again. The test prints how
/// often that happened, and fails if it happens to one script again and again.
#[test]
fn both_let_the_same_time_pass_in_timed_random_scripts() {
    let agent = agent();
    let first_seed = setting("SEED").unwrap_or_else(|| u64::from(fastrand::u32(..)));
    println!("from seed {first_seed}, which SEMAPHORE_CONFORMANCE_SEED={first_seed} repeats:");
    let count = setting("TIMED").unwrap_or(4);
    let tally = campaign::run_timed(first_seed, count, &agent);
    println!("{tally}");
    assert_eq!(tally.complaint(), None);
}

/// The agent is not here any more, only its answers. `recorded.rs` lists the steps that differ,
/// each with the reason.
#[test]
fn the_profile_of_1_23_gives_the_answers_that_were_recorded() {
    let findings = recorded::compare_all();
    assert!(findings.is_empty(), "{}", findings.join("\n\n"));
}

/// The comparison must not be too loose: the recordings can tell releases apart.
#[test]
fn the_profile_of_another_release_differs_from_the_recordings() {
    let differences = |version| recorded::differences_of(version);
    assert!(differences(Version::V1_8) > 1000, "all that has a header");
    assert!(differences(Version::V1_22) >= 20, "keys and redirects");
}

#[test]
fn the_table_has_scripts_enough_and_no_name_twice() {
    let mut names: Vec<_> = table::quick()
        .iter()
        .chain(&table::acl())
        .chain(&table::slow())
        .map(|script| script.name.clone())
        .collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(count >= 80, "{count} scripts");
}

/// The value of a variable for the random runs.
fn setting(name: &str) -> Option<u64> {
    let text = env::var(format!("SEMAPHORE_CONFORMANCE_{name}")).ok()?;
    Some(text.parse().expect("a number"))
}

/// An agent whose node has the same name as the one in memory.
fn agent() -> Agent {
    Agent::builder()
        .node(NODE)
        .start()
        .expect("a real agent starts")
}

/// A key prefix that only one script uses.
fn prefix(number: u64) -> String {
    campaign::name_of(number)
}

fn judge(differences: &[String]) {
    assert!(
        differences.is_empty(),
        "{} steps differ\n\n{}\n",
        differences.len(),
        differences.join("\n\n")
    );
}
