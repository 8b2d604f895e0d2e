//! The Consul in memory answers as a real agent does: one table of request scripts, run on both.
//!
//! Status, headers, body and index behaviour of every step are compared. A script is data under a
//! name that says what it shows; all are in `table/`. The real agent comes from `scripts/consul`,
//! and where there is none these tests fail.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod compare;
mod memory;
mod random;
mod real;
mod run;
mod script;
mod table;

use std::thread;

use real_agent::Agent;
use transport_mock::consul::NODE;

use memory::Memory;
use real::Real;

#[test]
fn both_give_the_same_answers_to_every_script() {
    let agent = agent();
    let differences: Vec<String> = (0..)
        .zip(table::quick())
        .flat_map(|(number, script)| {
            let prefix = prefix(number);
            run::compare(&script, &prefix, &mut Memory::new(), &mut Real::new(&agent))
        })
        .collect();
    judge(&differences);
}

/// What nobody thought of. A failure names the seed that repeats it.
#[test]
fn both_give_the_same_answers_to_random_scripts() {
    let agent = agent();
    let differences: Vec<String> = (0..random::SEEDS)
        .flat_map(|seed: u32| {
            let prefix = prefix(1000 + seed);
            let script = random::script_of(seed);
            run::compare(&script, &prefix, &mut Memory::new(), &mut Real::new(&agent))
        })
        .collect();
    judge(&differences);
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
            run::compare(&script, &prefix, &mut Memory::with_acl(), &mut real)
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
                    run::compare(script, &prefix, &mut Memory::new(), &mut Real::new(&agent))
                })
            })
            .collect();
        runs.into_iter()
            .flat_map(|run| run.join().expect("the script runs to its end"))
            .collect::<Vec<_>>()
    });
    judge(&differences);
}

#[test]
fn the_table_has_scripts_enough_and_no_name_twice() {
    let mut names: Vec<_> = table::quick()
        .iter()
        .chain(&table::acl())
        .chain(&table::slow())
        .map(|script| script.name)
        .collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(count >= 80, "{count} scripts");
}

/// An agent whose node has the name that the one in memory has.
fn agent() -> Agent {
    Agent::builder()
        .node(NODE)
        .start()
        .expect("a real agent starts")
}

/// A key prefix for one script alone, without digits that could be taken for an index.
fn prefix(number: u32) -> String {
    let digits = number.to_string().into_bytes().into_iter();
    digits
        .map(|digit| char::from(digit - b'0' + b'a'))
        .collect()
}

fn judge(differences: &[String]) {
    assert!(
        differences.is_empty(),
        "{} steps differ\n\n{}\n",
        differences.len(),
        differences.join("\n\n")
    );
}
