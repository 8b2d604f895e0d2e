//! The real agent.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use real_agent::Agent;
use semaphore_core::Token;
use semaphore_core::adapter::{Method, Request, Response};
use serde_json::{Value, json};
use transport_mock::consul::{Access, NODE, Profile, Version};

use crate::http::{Connections, NO_ANSWER, PATIENCE, Query};
use crate::meaning::Redirects;
use crate::memory::Memory;
use crate::parked::{self, Goroutine};
use crate::run::Backend;
use crate::script::{Lever, Rule, secret};

/// The pause between two checks whether the agent holds a query.
const LOOK: Duration = Duration::from_millis(5);

const IMPATIENCE: Duration = Duration::from_secs(1);

pub(crate) struct Real {
    profile: Profile,
    redirects: Redirects,
    connections: Connections,
    queries: BTreeMap<&'static str, Started>,
    management_token: Option<Token>,
    /// How long to wait for the answer of a query that should be answered.
    patience: Duration,
    started: Instant,
}

/// A blocking query, and the goroutine that holds it in the agent. There is none if the query was
/// answered at once.
struct Started {
    query: Query,
    held_by: Option<Goroutine>,
}

impl Real {
    pub(crate) fn new(agent: &Agent) -> Self {
        let profile = Profile::nearest(agent.version());
        let is_known =
            profile.version == Version::V1_8 && profile.version.release() == agent.version();
        Self {
            profile,
            redirects: if is_known {
                Redirects::TheSame
            } else {
                Redirects::OfAnyStatus
            },
            connections: Connections::new(agent.addr()),
            queries: BTreeMap::new(),
            management_token: None,
            patience: PATIENCE,
            started: Instant::now(),
        }
    }

    /// An agent with access control, in which this token may do everything.
    pub(crate) fn with_acl(agent: &Agent, management_token: &str) -> Self {
        Self {
            management_token: Some(Token::new(management_token).unwrap()),
            ..Self::new(agent)
        }
    }

    /// Waits less long for answers, since again there may be none.
    pub(crate) fn impatient(self) -> Self {
        Self {
            patience: IMPATIENCE,
            ..self
        }
    }

    /// A Consul in memory with the agent's profile.
    pub(crate) fn memory(&self) -> Memory {
        let memory = Memory::of(self.profile);
        match self.management_token {
            Some(_) => memory.with_acl(),
            None => memory,
        }
    }

    /// How closely redirects are compared.
    pub(crate) fn redirects(&self) -> Redirects {
        self.redirects
    }

    /// Whether the agent answers at all.
    pub(crate) fn is_alive(&mut self) -> bool {
        let request = Request::new(Method::Get, "/v1/status/leader");
        self.send(&request).status() == 200
    }

    /// Removes all sessions, keys and nodes that a script left. For an agent that runs one script
    /// after the other.
    pub(crate) fn clean_up(&mut self) {
        self.queries.clear();
        for session in self.list("/v1/session/list") {
            let id = session["ID"].as_str().expect("an id");
            self.operate(&format!("session/destroy/{id}"), &Value::Null);
        }
        for node in self.list("/v1/catalog/nodes") {
            if node["Node"] != NODE {
                self.operate("catalog/deregister", &json!({ "Node": node["Node"] }));
            }
        }
        self.send(&Request::new(Method::Delete, "/v1/kv/?recurse"));
    }

    fn list(&mut self, path: &str) -> Vec<Value> {
        let answer = self.send(&Request::new(Method::Get, path));
        serde_json::from_slice(answer.body()).expect("a list")
    }

    /// The goroutines that hold a query in the agent.
    fn held(&mut self) -> BTreeSet<Goroutine> {
        parked::goroutines(&mut self.connections, self.management_token.as_ref())
    }

    /// When the script began.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    fn operate(&mut self, path: &str, body: &Value) {
        let request = Request::new(Method::Put, format!("/v1/{path}"))
            .with_token(self.management_token.clone())
            .with_body(body.to_string());
        let response = self.send(&request);
        // If an earlier step has killed the agent, the comparison will show it.
        assert!(
            matches!(response.status(), 200 | NO_ANSWER),
            "{path}: {}",
            String::from_utf8_lossy(response.body())
        );
    }
}

impl Backend for Real {
    fn send(&mut self, request: &Request) -> Response {
        self.connections.exchange(request)
    }

    /// A query that must not wake has to be there before the write that follows. The agent says
    /// when it is.
    fn start(&mut self, name: &'static str, request: &Request) {
        let _turn = parked::turn();
        let before = self.held();
        let query = self.connections.query(request);
        let deadline = Instant::now() + PATIENCE;
        let mut held_by = None;
        while held_by.is_none() && query.is_quiet_for(LOOK) {
            held_by = self.held().difference(&before).next().copied();
            assert!(
                Instant::now() < deadline,
                "neither held nor answered: {name}"
            );
        }
        self.queries.insert(name, Started { query, held_by });
    }

    fn answered(&mut self, name: &'static str) -> Option<Response> {
        self.queries[name].query.answer_within(self.patience)
    }

    /// A query still waits if the agent says so. Silence alone could mean a late answer.
    fn still_waits(&mut self, name: &'static str) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while self.queries[name].query.is_quiet_for(LOOK) {
            let held_by = self.queries[name].held_by;
            if held_by.is_some_and(|it| self.held().contains(&it)) {
                return true;
            }
            assert!(
                Instant::now() < deadline,
                "neither held nor answered: {name}"
            );
        }
        false
    }

    fn wait_ends(&mut self, name: &'static str) -> Response {
        self.answered(name).expect("the wait ends")
    }

    fn pass(&mut self, time: Duration) {
        thread::sleep(time);
    }

    fn until(&mut self, moment: Duration) {
        thread::sleep(moment.saturating_sub(self.elapsed()));
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn lever(&mut self, lever: &Lever, prefix: &str) {
        let name = |node| format!("{prefix}-{node}");
        let check = |node, check: &str, status: &str| {
            json!({
                "Node": name(node),
                "Address": "127.0.0.1",
                "Check": { "CheckID": check, "Name": check, "Status": status },
            })
        };
        match lever {
            Lever::RegisterNode(node) => {
                self.operate("catalog/register", &check(node, "serfHealth", "passing"));
            }
            Lever::RegisterStranger(node) => {
                let body = json!({ "Node": name(node), "Address": "127.0.0.1" });
                self.operate("catalog/register", &body);
            }
            Lever::DeregisterNode(node) => {
                self.operate("catalog/deregister", &json!({ "Node": name(node) }));
            }
            Lever::PassCheck(node, id) => {
                self.operate("catalog/register", &check(node, id, "passing"));
            }
            Lever::FailCheck(node, id) => {
                self.operate("catalog/register", &check(node, id, "critical"));
            }
            Lever::RemoveCheck(node, id) => {
                let body = json!({ "Node": name(node), "CheckID": id });
                self.operate("catalog/deregister", &body);
            }
            Lever::AddToken(name, rules) => {
                let policy = format!("{prefix}-{name}");
                let body = json!({ "Name": policy, "Rules": policy_of(prefix, rules) });
                self.operate("acl/policy", &body);
                let body = json!({
                    "SecretID": secret(prefix, name),
                    "Policies": [{ "Name": policy }],
                });
                self.operate("acl/token", &body);
            }
        }
    }
}

fn policy_of(prefix: &str, rules: &[Rule]) -> String {
    let rule = |kind: &str, name: &str, access: Access| {
        let access = match access {
            Access::Deny => "deny",
            Access::Read => "read",
            Access::Write => "write",
        };
        format!("{kind} \"{name}\" {{ policy = \"{access}\" }}\n")
    };
    let rules = rules.iter().map(|described| match described {
        Rule::Key(key, access) => rule("key", &format!("{prefix}{key}"), *access),
        Rule::KeyPrefix(key, access) => rule("key_prefix", &format!("{prefix}{key}"), *access),
        Rule::Sessions(access) => rule("session_prefix", "", *access),
        Rule::Nodes(access) => rule("node_prefix", "", *access),
    });
    rules.collect()
}
