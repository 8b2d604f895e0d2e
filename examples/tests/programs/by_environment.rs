//! Each program runs on an agent that denies by default, with nothing but the environment of a user
//! of the `consul` command.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use std::{fs, thread};

use real_agent::Agent;

use crate::support::{Consul, Running, run, run_with};

const MANAGEMENT: &str = "5f0d1b8e-6a3c-4a51-9a70-27d0c2b8f333";

/// What the guide to ACLs says, for all programs.
const POLICY: &str = r#"
    key_prefix "examples/" { policy = "write" }
    session_prefix "" { policy = "write" }
"#;

/// The programs that run on an agent and end, with their arguments.
const ENDING: [(&str, &str, &[&str]); 10] = [
    ("by_hand", env!("CARGO_BIN_EXE_by_hand"), &[]),
    ("guide", env!("CARGO_BIN_EXE_guide"), &[]),
    (
        "contend",
        env!("CARGO_BIN_EXE_contend"),
        &["--hold-ms", "5"],
    ),
    (
        "discover",
        env!("CARGO_BIN_EXE_discover"),
        &["--changes", "1"],
    ),
    ("leader", env!("CARGO_BIN_EXE_leader"), &["--hold-ms", "5"]),
    ("on_smol", env!("CARGO_BIN_EXE_on_smol"), &[]),
    ("on_threads", env!("CARGO_BIN_EXE_on_threads"), &[]),
    ("on_tokio", env!("CARGO_BIN_EXE_on_tokio"), &[]),
    ("resource", env!("CARGO_BIN_EXE_resource"), &[]),
    (
        "watched",
        env!("CARGO_BIN_EXE_watched"),
        &["--seconds", "1"],
    ),
];

/// Those that are ended.
const ONE_LEADER: &str = env!("CARGO_BIN_EXE_one_leader");
const SERVICE: &str = env!("CARGO_BIN_EXE_service");

/// Those that use no agent.
const WITHOUT_AGENT: [&str; 1] = ["testing"];

/// An agent, and the token that the programs need.
fn guarded() -> (Agent, String) {
    let agent = Agent::builder().acl(MANAGEMENT).start().expect("an agent");
    let token = agent.client().create_token("examples", POLICY);
    (agent, token.expect("a token"))
}

#[test]
fn each_program_that_ends_runs_on_an_agent_with_acls_by_its_environment_alone() {
    let (agent, token) = guarded();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    fs::write(&file, format!("{token}\n")).expect("written");
    let file = file.to_str().expect("text");
    let url = agent.url();
    for (name, path, arguments) in ENDING {
        for variable in [
            ("CONSUL_HTTP_TOKEN_FILE", file),
            ("CONSUL_HTTP_TOKEN", &token),
        ] {
            let ran = run_with(path, Consul::At(&url), &[variable], arguments);
            assert_eq!(ran.code, Some(0), "{name}: {}{}", ran.stdout, ran.stderr);
            assert!(!ran.stdout.contains("WARN"), "{name}: {}", ran.stdout);
        }
    }
    let refused = run(ENDING[6].1, Consul::At(&url), &[]);
    assert_ne!(refused.code, Some(0), "the agent does not ask for a token");
    // Records and keys of elections stay.
    assert!(agent.client().sessions().expect("an answer").is_empty());
}

#[test]
fn a_service_leads_and_another_one_serves_on_an_agent_with_acls_by_their_environment_alone() {
    let (agent, token) = guarded();
    let url = agent.url();
    let start = |path| {
        let variables = [("CONSUL_HTTP_TOKEN", token.as_str())];
        Running::start_with(path, Consul::At(&url), &variables, &[])
    };
    let mut leader = start(ONE_LEADER);
    leader.line();
    assert!(leader.line().starts_with("leads, with token "));
    leader.terminate();

    // It would serve for half a minute.
    let service = start(SERVICE);
    let holds_both = || {
        let path = "/v1/kv/examples/service/.lock?raw";
        let record = agent.client().get(path).expect("an answer");
        let holders = (record.status == 200).then(|| record.json().expect("a record"));
        holders.is_some_and(|it| it["Holders"].as_object().is_some_and(|it| it.len() == 2))
    };
    let patience = Instant::now() + Duration::from_secs(30);
    while !holds_both() {
        assert!(Instant::now() < patience, "it does not serve");
        thread::sleep(Duration::from_millis(20));
    }
    drop(service);
}

#[test]
fn each_program_is_one_that_ends_one_that_is_ended_or_one_without_an_agent() {
    let names = ENDING.iter().map(|(name, _, _)| (*name).to_owned());
    let mut known: BTreeSet<_> = names.collect();
    known.extend(["one_leader", "service"].map(str::to_owned));
    known.extend(WITHOUT_AGENT.map(str::to_owned));
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin");
    let entries = fs::read_dir(folder).expect("a folder");
    let there: BTreeSet<_> = entries
        .map(|entry| {
            let path = entry.expect("an entry").path();
            path.file_stem()
                .and_then(|it| it.to_str())
                .expect("text")
                .to_owned()
        })
        .collect();
    assert_eq!(known, there);
}
