//! Runs the examples that need an agent, as `build.rs` has found them.
#![expect(clippy::expect_used, reason = "these are tests")]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::{env, thread};

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

const CHILD: &str = "DOCUMENTATION_CHILD";

const MANAGEMENT: &str = "5f0d1b8e-6a3c-4a51-9a70-27d0c2b8f555";

/// What any reader's token has for these examples.
const POLICY: &str = r#"
    key_prefix "service/" { policy = "write" }
    session_prefix "" { policy = "write" }
"#;

/// Runs the calling test again as a program, whose environment names an agent with ACLs and a
/// token. The program is told to end when it says that it works.
fn in_child(program: impl FnOnce()) {
    if env::var_os(CHILD).is_some() {
        return program();
    }
    let agent = Agent::builder().acl(MANAGEMENT).start();
    let agent = agent.expect("an agent");
    let token = agent.client().create_token("reader", POLICY);
    let test = thread::current().name().expect("a test").to_owned();
    let mut child = Command::new(env::current_exe().expect("this program"))
        .args(["--exact", "--nocapture", &test])
        .env(CHILD, "1")
        .env("CONSUL_HTTP_ADDR", agent.url())
        .env("CONSUL_HTTP_TOKEN", token.expect("a token"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let said = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut lines = said.lines().map(|line| line.expect("text"));
    let works = lines.find(|line| line.contains("one step"));
    let told = Command::new("kill").arg(child.id().to_string()).status();
    let rest: Vec<_> = lines.collect();
    assert!(child.wait().expect("an end").success(), "{rest:?}");
    assert!(works.is_some(), "{rest:?}");
    assert!(told.expect("it runs").success());
    assert!(agent.client().sessions().expect("an answer").is_empty());
}
