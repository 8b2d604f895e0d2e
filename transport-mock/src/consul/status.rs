//! `/v1/status/…` and `/v1/agent/self`, by which clients find out whether an agent is ready.

use semaphore_core::adapter::Response;
use serde_json::json;

use super::Consul;
use super::acl;
use super::answer;
use super::call::{Call, Outcome};

/// The only server's address, as it reports it.
const SERVER: &str = "127.0.0.1:8300";

/// `GET /v1/status/leader`: the leader's address, or an empty text without one.
pub(super) fn leader(consul: &Consul, call: &Call) -> Result<Outcome, Response> {
    call.check_datacenter()?;
    let leader = if consul.has_leader() { SERVER } else { "" };
    Ok(Outcome::Ready(answer::json(&leader, call.pretty)))
}

/// `GET /v1/status/peers`
pub(super) fn peers(call: &Call) -> Result<Outcome, Response> {
    call.check_datacenter()?;
    Ok(Outcome::Ready(answer::json(&[SERVER], call.pretty)))
}

/// `GET /v1/agent/self`: the part from which clients learn the node and the version.
pub(super) fn agent_self(consul: &Consul, call: &Call) -> Result<Outcome, Response> {
    let authority = consul.authorize(call)?;
    if !authority.reads_agent(call.node) {
        return Err(acl::denied("agent:read", call.node));
    }
    let node = call.node;
    let described = json!({
        "Config": {
            "Datacenter": super::DATACENTER,
            "NodeName": node,
            "Server": true,
            "Version": call.release().version,
        },
        "Member": { "Name": node, "Addr": "127.0.0.1", "Status": 1 },
    });
    Ok(Outcome::Ready(answer::json(&described, call.pretty)))
}
