//! Each policy of the guide to ACLs is enough for what the guide says, on a real agent that denies by default.
#![expect(clippy::expect_used, reason = "these are tests")]

use real_agent::Agent;
use transport_ureq::blocking::{Discovery, Election, Semaphore};
use transport_ureq::{Error, RequestError, UreqTransport};

const MANAGEMENT: &str = "5f0d1b8e-6a3c-4a51-9a70-27d0c2b8f222";
const GUIDE: &str = include_str!("../guides/ACLS.md");

/// The policies, in the order of the guide.
fn policies() -> Vec<&'static str> {
    let blocks = GUIDE.split("```hcl\n").skip(1);
    blocks.filter_map(|it| it.split("```").next()).collect()
}

struct Scene {
    agent: Agent,
    transport: UreqTransport,
}

impl Scene {
    fn new() -> Self {
        let agent = Agent::builder().acl(MANAGEMENT).start();
        let agent = agent.expect("an agent");
        let transport = UreqTransport::new(agent.url()).expect("an address");
        Self { agent, transport }
    }

    /// A token with this policy.
    fn token(&self, name: &str, rules: &str) -> String {
        let made = self.agent.client().create_token(name, rules);
        made.expect(rules)
    }
}

#[test]
fn each_policy_is_enough_for_what_the_guide_says() {
    let [any_node, one_node, election, own_node, follower] = policies()[..] else {
        panic!("other policies: {:?}", policies());
    };
    let scene = Scene::new();
    let node = scene.agent.node();
    let semaphores = [
        ("any-node", any_node.to_owned()),
        ("one-node", one_node.replace("node-1", node)),
        ("own-node", own_node.to_owned()),
    ];
    for (name, rules) in semaphores {
        let builder = Semaphore::builder("service/db", 3).token(scene.token(name, &rules));
        let builder = if name == "own-node" {
            builder.own_node("semaphores")
        } else {
            builder
        };
        let semaphore = builder.connect(scene.transport.clone()).expect(name);
        let permit = semaphore
            .acquire()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        permit.release().expect(name);
        semaphore.shutdown();
    }

    let leader = Election::builder("service/db/leader").token(scene.token("election", election));
    let leader = leader.value("here").connect(scene.transport.clone());
    let leader = leader.expect("an election");
    let leadership = leader.campaign().expect("a leadership");

    let follower = Discovery::builder("service/db/leader").token(scene.token("follower", follower));
    let follower = follower
        .connect(scene.transport.clone())
        .expect("a follower");
    let found = follower.leader().expect("an answer").expect("a leader");
    assert_eq!(found.text(), Some("here"));
    leadership.resign().expect("it resigns");
    leader.shutdown();
}

#[test]
fn without_the_line_for_sessions_a_policy_is_not_enough() {
    let scene = Scene::new();
    let keys = policies()[0].lines().next().expect("a line");
    let semaphore = Semaphore::builder("service/db", 3).token(scene.token("keys", keys));
    let semaphore = semaphore
        .connect(scene.transport.clone())
        .expect("a semaphore");
    let refused = semaphore.acquire().map(drop);
    let is_denied = matches!(refused, Err(Error::Request(RequestError::Denied { .. })));
    assert!(is_denied, "{refused:?}");
}
