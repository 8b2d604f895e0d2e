//! Runs the examples that need an agent, as `build.rs` has found them.
#![expect(clippy::expect_used, reason = "these are tests")]

use std::sync::LazyLock;

use real_agent::Agent;

include!(concat!(env!("OUT_DIR"), "/examples.rs"));

/// The address of one agent for all of them. It ends with this process.
fn agent() -> &'static str {
    static AGENT: LazyLock<(Agent, String)> = LazyLock::new(|| {
        let agent = Agent::start().expect("an agent");
        let url = agent.url();
        (agent, url)
    });
    &AGENT.1
}
