//! Which release of Consul an agent runs.

use real_agent::{Agent, StartError};

#[test]
fn an_agent_of_a_release_runs_it_and_one_that_is_not_found_is_named() {
    let (major, minor) = Agent::start().unwrap().version();
    let agent = Agent::builder().release(major, minor).start().unwrap();
    assert_eq!(agent.version(), (major, minor));
    let error = Agent::builder().release(0, 1).start().unwrap_err();
    assert!(matches!(error, StartError::NoBinary(_)), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("Consul 0.1 ") && text.contains("CONSUL_0_1_BIN"),
        "{text}"
    );
}
