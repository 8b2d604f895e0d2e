//! What a script is made of.
//!
//! `{p}` in a target or body is the script's own key prefix; any other `{name}` is something that
//! an earlier step saved.

use std::time::Duration;

use semaphore_core::adapter::Method;
use transport_mock::consul::Access;

/// A sequence of steps under a name that says what they show.
#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
}

pub(crate) fn script(name: impl Into<String>, steps: impl Into<Vec<Step>>) -> Script {
    Script {
        name: name.into(),
        steps: steps.into(),
    }
}

/// One step. What it observes is compared.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Sends a request and waits for its answer.
    Send(Wire),
    /// Sends a blocking query and goes on.
    Start(&'static str, Wire),
    /// The query is answered now, before its wait is over.
    Wakes(&'static str),
    /// The query is not answered yet.
    StillWaits(&'static str),
    /// The query is answered now or not, whatever it may be. Nothing when it already was.
    Peek(&'static str),
    /// As `Peek`, but a query that ought to wait is not given the time to show that it does not: a
    /// `Peek` has to follow.
    Glance(&'static str),
    /// The query is answered when its wait is over.
    WaitEnds(&'static str),
    /// Time passes.
    Pass(Duration),
    /// Time passes until so long after the script's start.
    Until(Duration),
    /// Something happens to the cluster.
    Lever(Lever),
}

/// What happens to the cluster. The names of nodes are script-owned like keys.
#[derive(Clone, Debug)]
pub(crate) enum Lever {
    RegisterNode(&'static str),
    /// Adds a node without the check `serfHealth`: one with it that is no member of the cluster is
    /// removed by the agent within a minute.
    RegisterStranger(&'static str),
    DeregisterNode(&'static str),
    PassCheck(&'static str, &'static str),
    FailCheck(&'static str, &'static str),
    RemoveCheck(&'static str, &'static str),
    /// Makes a token with these rules, whose secret the script then knows by the name.
    AddToken(&'static str, &'static [Rule]),
}

/// What a token may do. The names of keys and nodes begin with the script's prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    Key(&'static str, Access),
    KeyPrefix(&'static str, Access),
    /// To the sessions of all nodes.
    Sessions(Access),
    Nodes(Access),
}

/// A token's secret, the same on both backends.
pub(crate) fn secret(prefix: &str, name: &str) -> String {
    let digits = |text: &str| {
        let bytes = text.bytes();
        bytes.fold(0_u128, |number, byte| number << 8 | u128::from(byte))
    };
    format!(
        "{:08x}-0000-4000-8000-{:012x}",
        digits(prefix),
        digits(name)
    )
}

/// A request, and what to remember of its answer.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    pub(crate) method: Method,
    pub(crate) target: String,
    pub(crate) body: Vec<u8>,
    pub(crate) token: Option<&'static str>,
    pub(crate) saves: Vec<(&'static str, Save)>,
    pub(crate) compare: Compare,
}

/// What of an answer is remembered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Save {
    /// `ID` in the JSON of the body.
    SessionId,
    /// `X-Consul-Index`.
    Index,
    /// `ModifyIndex` of the first entry of the body.
    ModifyIndex,
}

/// How closely answers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    /// JSON by its meaning, refusals by what a client makes of them, other text by its letters, indexes by their
    /// relations.
    Meaning,
    /// As by meaning, without the header `X-Consul-Index`: it counts other scripts' writes.
    WithoutIndex,
    /// Only that the status is the same: the rest shows the machine, or is JSON that hardly anyone sends.
    StatusOnly,
}

pub(crate) fn get(target: &str) -> Step {
    Step::Send(wire(Method::Get, target, ""))
}

pub(crate) fn put(target: &str, body: impl AsRef<[u8]>) -> Step {
    Step::Send(wire(Method::Put, target, body))
}

pub(crate) fn delete(target: &str) -> Step {
    Step::Send(wire(Method::Delete, target, ""))
}

/// `PUT /v1/txn`
pub(crate) fn txn(body: &str) -> Step {
    put("/v1/txn", body)
}

/// Creates a session and saves its id as `name`.
pub(crate) fn session(name: &'static str, body: &str) -> Step {
    put("/v1/session/create", body).saving(name, Save::SessionId)
}

/// Creates a session that only its TTL or an operator ends, without lock delay.
pub(crate) fn plain_session(name: &'static str) -> Step {
    session(name, r#"{"NodeChecks":[],"LockDelay":"0s"}"#)
}

/// Starts a blocking query.
pub(crate) fn start(name: &'static str, target: &str) -> Step {
    Step::Start(name, wire(Method::Get, target, ""))
}

pub(crate) fn wakes(name: &'static str) -> Step {
    Step::Wakes(name)
}

pub(crate) fn still_waits(name: &'static str) -> Step {
    Step::StillWaits(name)
}

pub(crate) fn peek(name: &'static str) -> Step {
    Step::Peek(name)
}

pub(crate) fn glance(name: &'static str) -> Step {
    Step::Glance(name)
}

pub(crate) fn wait_ends(name: &'static str) -> Step {
    Step::WaitEnds(name)
}

pub(crate) fn pass(seconds: f64) -> Step {
    Step::Pass(Duration::from_secs_f64(seconds))
}

pub(crate) fn lever(lever: Lever) -> Step {
    Step::Lever(lever)
}

impl Step {
    pub(crate) fn saving(self, name: &'static str, save: Save) -> Self {
        self.change(|wire| wire.saves.push((name, save)))
    }

    pub(crate) fn saving_index(self, name: &'static str) -> Self {
        self.saving(name, Save::Index)
    }

    pub(crate) fn saving_modify_index(self, name: &'static str) -> Self {
        self.saving(name, Save::ModifyIndex)
    }

    pub(crate) fn without_index(self) -> Self {
        self.change(|wire| wire.compare = Compare::WithoutIndex)
    }

    pub(crate) fn by_status(self) -> Self {
        self.change(|wire| wire.compare = Compare::StatusOnly)
    }

    pub(crate) fn with_token(self, token: &'static str) -> Self {
        self.change(|wire| wire.token = Some(token))
    }

    fn change(mut self, change: impl FnOnce(&mut Wire)) -> Self {
        match &mut self {
            Self::Send(wire) | Self::Start(_, wire) => change(wire),
            _ => panic!("only requests can be changed"),
        }
        self
    }
}

fn wire(method: Method, target: &str, body: impl AsRef<[u8]>) -> Wire {
    Wire {
        method,
        target: target.to_owned(),
        body: body.as_ref().to_vec(),
        token: None,
        saves: Vec::new(),
        compare: Compare::Meaning,
    }
}
