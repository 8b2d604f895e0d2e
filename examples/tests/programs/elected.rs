//! `leader`, on the Consul in memory and on a real agent.

use crate::candidate::{
    Candidate, KEY, LEADER, STOPPED, next_leader, shown, term_and_token, wait_for_sessions,
};
use crate::support::{Consul, run};
use real_agent::Agent;

#[test]
fn alone_it_leads_a_consul_in_memory_and_resigns() {
    let shown = run(
        LEADER,
        Consul::InMemory,
        &["--value", "me", "--hold-ms", "20"],
    )
    .success();
    let lines: Vec<_> = shown.lines().collect();
    let [head, leads, end] = lines[..] else {
        panic!("{shown}");
    };
    let campaigns = "\"me\" campaigns for examples/discover/leader on a Consul in memory";
    assert_eq!(head, campaigns);
    let (term, token) = term_and_token(leads);
    assert!(term == 1 && token > 0, "{leads}");
    assert_eq!(end, STOPPED[1]);
}

#[test]
fn flags_that_make_no_election_are_refused() {
    let cases: [(&[&str], &str); 5] = [
        (&[""], "the key \"\""),
        (&["a/../leader"], "the key \"a/../leader\""),
        (&["--lock-delay", "61"], "61 is not in 0..=60"),
        (&["--ttl", "9"], "9 is not in 10..=86400"),
        (&["--lock-delay", "soon"], "--lock-delay"),
    ];
    for (args, reason) in cases {
        run(LEADER, Consul::InMemory, args).assert_refused(2, reason);
    }
    run(LEADER, Consul::At("ftp://127.0.0.1"), &[])
        .assert_refused(2, "CONSUL_HTTP_ADDR is not the address of an agent: ");
}

#[test]
fn a_key_of_something_else_is_told() {
    let agent = Agent::start().expect("an agent");
    let path = format!("/v1/kv/{KEY}?flags=7");
    let written = agent.client().put(&path, b"configuration");
    assert!(written.expect("an answer").is_true());
    let ran = run(LEADER, Consul::At(&agent.url()), &[KEY]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.stdout, ran.stderr);
    let told = "error: the election failed: election \"examples/elected/leader\" at ";
    assert!(ran.stderr.starts_with(told), "{}", ran.stderr);
    let why = "the key \"examples/elected/leader\" is not an election's: ";
    assert!(ran.stderr.contains(why), "{}", ran.stderr);
    assert_eq!(shown(&agent), ("configuration".to_owned(), None));
}

#[test]
fn of_three_one_leads_and_a_clean_stop_makes_another_one_the_leader() {
    let agent = Agent::start().expect("an agent");
    let url = agent.url();
    let mut first = Candidate::start(&url, "first");
    let before = first.leads();
    assert_eq!(before.0, 1);
    let others = ["second", "third"].map(|name| Candidate::start(&url, name));
    // Each candidate has a session.
    wait_for_sessions(&agent, 3);
    let (value, session) = shown(&agent);
    assert_eq!(value, "first");

    assert_eq!(first.interrupt(), STOPPED);
    let (mut leader, other) = next_leader(&agent, session.as_deref(), others);
    let next = leader.name();
    let after = leader.leads();
    assert_eq!(after.0, 2);
    assert!(after.1 > before.1, "{before:?} {after:?}");
    assert_eq!(other.interrupt(), STOPPED, "two lead");
    assert_eq!(leader.interrupt(), STOPPED);
    assert_eq!(shown(&agent), (next.to_owned(), None));
    assert!(agent.client().sessions().expect("an answer").is_empty());
}
