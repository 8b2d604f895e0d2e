//! An observed service, and its recording.

use std::process::Command;

use crate::support::{Consul, run};
use real_agent::Agent;

#[test]
fn what_it_records_on_a_real_agent_is_replayed() {
    let agent = Agent::start().expect("an agent");
    let folder = tempfile::tempdir().expect("a folder");
    let recording = folder.path().join("recording");
    let path = recording.to_str().expect("a name in UTF-8");
    let arguments = ["--seconds", "3", "--record", path];
    let watched = env!("CARGO_BIN_EXE_watched");
    let shown = run(watched, Consul::At(&agent.url()), &arguments).success();
    for figure in [
        "semaphore_held{name=\"examples/watched\"} 0",
        "semaphore_waiting{name=\"examples/watched\"} 0",
        "semaphore_requests_total{kind=\"txn\",status=\"200\"}",
    ] {
        assert!(shown.contains(figure), "{shown}");
    }
    assert!(!shown.contains("WARN"), "{shown}");
    let replay = |arguments: &[&str]| {
        let replayed = Command::new(env!("CARGO_BIN_EXE_replay"))
            .args(arguments)
            .output()
            .expect("it runs");
        let error = String::from_utf8_lossy(&replayed.stderr).into_owned();
        let story = String::from_utf8_lossy(&replayed.stdout).into_owned();
        (replayed.status.success(), story, error)
    };
    let (is_told, story, error) = replay(&[path]);
    assert!(is_told, "{error}");
    assert!(story.contains("is granted"), "{story}");
    assert_eq!(replay(&[path]).1, story, "byte for byte");
    let text = std::fs::read_to_string(&recording).expect("a recording");
    std::fs::write(&recording, &text[..text.len() / 2]).expect("written");
    let (is_told, _, error) = replay(&[path]);
    assert!(!is_told);
    assert!(error.contains("is the file cut off?"), "{error}");
    agent.assert_nothing_left("examples/watched");
}
