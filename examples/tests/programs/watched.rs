//! An observed service.

use crate::support::{Consul, run};
use real_agent::Agent;

#[test]
fn its_figures_and_its_log_show_what_it_did() {
    let agent = Agent::start().expect("an agent");
    let watched = env!("CARGO_BIN_EXE_watched");
    let shown = run(watched, Consul::At(&agent.url()), &["--seconds", "3"]).success();
    for figure in [
        "semaphore_held{name=\"examples/watched\"} 0",
        "semaphore_waiting{name=\"examples/watched\"} 0",
        "semaphore_requests_total{kind=\"txn\",status=\"200\"}",
    ] {
        assert!(shown.contains(figure), "{shown}");
    }
    assert!(!shown.contains("WARN"), "{shown}");
    agent.assert_nothing_left("examples/watched");
}
