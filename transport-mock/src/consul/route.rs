//! Finds a request's endpoint: Go's path cleaning and redirects, the endpoints, and the methods
//! that each allows.

use semaphore_core::adapter::{Instant, Request, Response};

use super::Consul;
use super::answer;
use super::call::{Call, Outcome};
use super::target::Target;
use super::{kv, session, status, txn};

/// Answers a request, unless it has to wait.
pub(super) fn serve(
    consul: &mut Consul,
    now: Instant,
    node: &str,
    request: &Request,
) -> Result<Outcome, Response> {
    let release = consul.profile.rules();
    let target = Target::parse(request.target(), release.semicolon_parts);
    let target = target.ok_or_else(|| answer::bad_request("400 Bad Request"))?;
    if !target.is_printable() {
        return Err(Response::new(400, ""));
    }
    let cleaned = target.cleaned(release.unclean);
    let path = cleaned.as_ref().unwrap_or(&target.path).clone();
    let with_slash = [path.as_slice(), b"/"].concat();
    let moved = match (find(&path), find(&with_slash)) {
        (None, Some((_, b""))) => Some(&with_slash),
        _ => cleaned.as_ref(),
    };
    if let Some(path) = moved {
        let location = target.location(path);
        return Err(answer::redirect(release.redirect, &location));
    }
    let leads_there = |(_, rest): &(Endpoint, &[u8])| {
        let endpoint = &path[..path.len() - rest.len()];
        target.leads_to(endpoint, release.unclean)
    };
    let Some((endpoint, rest)) = find(&path).filter(leads_there) else {
        return Err(answer::text(
            404,
            "Invalid URL path: not an endpoint of the HTTP API",
        ));
    };
    let rest = rest.to_vec();
    match enter(consul, now, node, request, target, endpoint, &rest) {
        Ok(Outcome::Ready(response)) => Ok(Outcome::Ready(consul.stamped(response))),
        Ok(read) => Ok(read),
        Err(response) => Err(consul.stamped(response)),
    }
}

/// Answers a request at its endpoint.
fn enter(
    consul: &mut Consul,
    now: Instant,
    node: &str,
    request: &Request,
    target: Target,
    endpoint: Endpoint,
    rest: &[u8],
) -> Result<Outcome, Response> {
    let method = request.method();
    if target.query.is_malformed() {
        return Err(Response::new(500, ""));
    }
    let allowed = endpoint.allowed();
    if !allowed.contains(&method.as_str()) {
        return Err(answer::method_not_allowed(method.as_str(), allowed));
    }
    let header = request
        .headers()
        .find(|(name, _)| *name == "X-Consul-Token");
    let token = target.query.filled("token").map(str::to_owned);
    let call = Call {
        now,
        node,
        method,
        body: request.body(),
        token: token.or_else(|| header.map(|(_, token)| token.to_owned())),
        pretty: target.query.has("pretty"),
        profile: consul.profile,
        target,
    };
    let name = String::from_utf8_lossy(rest);
    match endpoint {
        Endpoint::Kv => kv::serve(consul, &call, rest),
        Endpoint::Txn => txn::serve(consul, &call),
        Endpoint::SessionCreate => session::create(consul, &call),
        Endpoint::SessionRenew => session::renew(consul, &call, &name),
        Endpoint::SessionDestroy => session::destroy(consul, &call, &name),
        Endpoint::SessionInfo => session::info(consul, &call, &name),
        Endpoint::SessionNode => session::of_node(consul, &call, &name),
        Endpoint::SessionList => session::list(consul, &call),
        Endpoint::StatusLeader => status::leader(consul, &call),
        Endpoint::StatusPeers => status::peers(&call),
        Endpoint::AgentSelf => status::agent_self(consul, &call),
    }
}

#[derive(Clone, Copy)]
enum Endpoint {
    Kv,
    Txn,
    SessionCreate,
    SessionRenew,
    SessionDestroy,
    SessionInfo,
    SessionNode,
    SessionList,
    StatusLeader,
    StatusPeers,
    AgentSelf,
}

/// A path that ends in a slash also covers everything below it.
const ENDPOINTS: &[(&str, Endpoint)] = &[
    ("/v1/kv/", Endpoint::Kv),
    ("/v1/txn", Endpoint::Txn),
    ("/v1/session/create", Endpoint::SessionCreate),
    ("/v1/session/renew/", Endpoint::SessionRenew),
    ("/v1/session/destroy/", Endpoint::SessionDestroy),
    ("/v1/session/info/", Endpoint::SessionInfo),
    ("/v1/session/node/", Endpoint::SessionNode),
    ("/v1/session/list", Endpoint::SessionList),
    ("/v1/status/leader", Endpoint::StatusLeader),
    ("/v1/status/peers", Endpoint::StatusPeers),
    ("/v1/agent/self", Endpoint::AgentSelf),
];

impl Endpoint {
    fn allowed(self) -> &'static [&'static str] {
        match self {
            Self::Kv => &["GET", "PUT", "DELETE"],
            Self::Txn | Self::SessionCreate | Self::SessionRenew | Self::SessionDestroy => &["PUT"],
            Self::SessionInfo
            | Self::SessionNode
            | Self::SessionList
            | Self::StatusLeader
            | Self::StatusPeers
            | Self::AgentSelf => &["GET"],
        }
    }
}

/// The endpoint of a path, and the rest of the path.
fn find(path: &[u8]) -> Option<(Endpoint, &[u8])> {
    ENDPOINTS.iter().find_map(|(pattern, endpoint)| {
        let rest = path.strip_prefix(pattern.as_bytes())?;
        (rest.is_empty() || pattern.ends_with('/')).then_some((*endpoint, rest))
    })
}
