//! The parts of a script.
//!
//! In a target or body, `{p}` is the script's own key prefix. Any other `{name}` is something that
//! an earlier step saved.

use std::time::Duration;

use semaphore_core::adapter::Method;
use transport_mock::consul::Access;

/// A sequence of steps, with a name that says what they show.
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

/// One step. Its observation is compared.
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
    /// The query may be answered now or not. If it was answered before, nothing is observed.
    Peek(&'static str),
    /// As `Peek`, but without waiting for an answer that should not come. A `Peek` must follow.
    Glance(&'static str),
    /// The query is answered when its wait is over.
    WaitEnds(&'static str),
    /// Time passes.
    Pass(Duration),
    /// Time passes until this long after the script's start.
    Until(Duration),
    /// Something happens to the cluster.
    Lever(Lever),
}

/// An event in the cluster. Like keys, the names of nodes belong to the script.
#[derive(Clone, Debug)]
pub(crate) enum Lever {
    RegisterNode(&'static str),
    /// Adds a node without the check `serfHealth`. With that check, the agent would remove the node
    /// within a minute, as it is not a member of the cluster.
    RegisterStranger(&'static str),
    DeregisterNode(&'static str),
    PassCheck(&'static str, &'static str),
    FailCheck(&'static str, &'static str),
    RemoveCheck(&'static str, &'static str),
    /// Creates a token with these rules. The script then knows its secret by this name.
    AddToken(&'static str, &'static [Rule]),
}

/// A permission of a token. The names of keys and nodes begin with the script's prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    Key(&'static str, Access),
    KeyPrefix(&'static str, Access),
    /// To the sessions of all nodes.
    Sessions(Access),
    Nodes(Access),
}

/// A token's secret, which is the same on both backends.
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

/// A request, and what to save from its answer.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    pub(crate) method: Method,
    pub(crate) target: String,
    pub(crate) body: Vec<u8>,
    pub(crate) token: Option<&'static str>,
    pub(crate) saves: Vec<(&'static str, Save)>,
    pub(crate) compare: Compare,
}

/// The part of an answer that is saved.
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
    /// JSON by its meaning, refusals by their class, other text by its letters, and indexes by
    /// their relations.
    Meaning,
    /// As `Meaning`, but without the header `X-Consul-Index`, which counts other scripts' writes.
    WithoutIndex,
    /// Only the status is compared. The rest shows the machine, or is JSON that hardly anyone
    /// sends.
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

/// Creates a session without a lock delay. Only its TTL or an operator ends it.
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
