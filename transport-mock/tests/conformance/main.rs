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
mod real;
mod run;
mod script;
mod table;

use std::thread;

use real_agent::Agent;
use transport_mock::consul::NODE;

use memory::Memory;
use real::Real;
use script::Script;

#[test]
fn both_give_the_same_answers_to_every_script() {
    let agent = agent();
    let differences: Vec<String> = (0..)
        .zip(table::quick())
        .flat_map(|(number, script)| compare(number, &script, &agent))
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
            .map(|(number, script)| scope.spawn(|| compare(*number, script, &agent)))
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

fn compare(number: usize, script: &Script, agent: &Agent) -> Vec<String> {
    let prefix = format!("c{number:03}");
    let memory = run::run(script, &prefix, &mut Memory::new());
    let real = run::run(script, &prefix, &mut Real::new(agent));
    compare::differences(script, &memory, &real)
}

fn judge(differences: &[String]) {
    assert!(
        differences.is_empty(),
        "{} steps differ\n\n{}\n",
        differences.len(),
        differences.join("\n\n")
    );
}
