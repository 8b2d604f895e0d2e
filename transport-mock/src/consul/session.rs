//! `/v1/session/…`: creating, renewing, ending and showing sessions.

use semaphore_core::Behavior;
use semaphore_core::adapter::Response;
use serde::Serialize;

use super::Consul;
use super::acl::{self, Authority};
use super::answer::{self, Freshness};
use super::blocking::{Read, View, Watch};
use super::call::{Asked, Call, Outcome};
use super::go;
use super::limits::Errand;
use super::options::Options;
use super::session_body;
use super::sessions::Session;
use super::state::{State, Tables};
use super::tenancy::Tenancy;

pub(super) const MIN_TTL_NANOS: i64 = 10_000_000_000;
const MAX_TTL_NANOS: i64 = 24 * 3_600_000_000_000;

/// `PUT /v1/session/create`
pub(super) fn create(consul: &mut Consul, call: &Call) -> Result<Outcome, Response> {
    #[derive(Serialize)]
    struct Created<'a> {
        #[serde(rename = "ID")]
        id: &'a str,
    }

    let tenancy = call.tenancy()?;
    let mut wanted = session_body::Wanted::of_node(call.node);
    if !call.body.is_empty() {
        wanted
            .read(call.body)
            .map_err(|fault| answer::bad_request(format!("Request decode failed: {fault}")))?;
    }
    consul.forward(call, Errand::Write)?;
    if wanted.node.is_empty() {
        return Err(answer::failure("Must provide Node"));
    }
    let authority = consul.authorize(call)?;
    if !authority.writes_sessions_of(&wanted.node) {
        return Err(acl::denied("session:write", &wanted.node));
    }
    let behavior = parse_behavior(&wanted.behavior)?;
    let ttl_length = parse_ttl(&wanted.ttl, consul.least_ttl)?;
    let id = consul.new_session_id();
    let index = consul.state.next_index();
    validate_checks(&consul.state, &wanted).map_err(|fault| {
        let before = call.release().before_session_fault;
        answer::failure(format!("{before}{fault}"))
    })?;
    let session = Session {
        id: id.clone(),
        name: wanted.name,
        node: wanted.node,
        lock_delay: wanted.lock_delay,
        behavior,
        ttl: wanted.ttl,
        node_checks: wanted.node_checks,
        service_checks: wanted.service_checks,
        legacy_checks: wanted.legacy_checks,
        create_index: index,
        modify_index: index,
        ttl_length,
    };
    let sessions = &mut consul.state.tables_mut(&tenancy).sessions;
    let key = sessions.key_of(&id).map_err(answer::failure)?;
    sessions.insert(call.now, &key, session);
    Ok(Outcome::Ready(answer::json(
        &Created { id: &id },
        call.pretty,
    )))
}

/// `PUT /v1/session/renew/<id>`
pub(super) fn renew(consul: &mut Consul, call: &Call, id: &str) -> Result<Outcome, Response> {
    Options::parse(&call.target.query)?;
    let (tenancy, key) = required_id(consul, call, id)?;
    consul.forward(call, Errand::Write)?;
    let authority = consul.authorize(call)?;
    let key = key.map_err(answer::failure)?;
    let sessions = &mut consul.state.tables_mut(&tenancy).sessions;
    let Some(session) = sessions.get(&key).cloned() else {
        return Err(answer::text(404, format!("Session id '{id}' not found")));
    };
    if !authority.writes_sessions_of(&session.node) {
        return Err(acl::denied("session:write", &session.node));
    }
    sessions.restart_timer(call.now, &key);
    Ok(Outcome::Ready(answer::json(&[session], call.pretty)))
}

/// `PUT /v1/session/destroy/<id>`
pub(super) fn destroy(consul: &mut Consul, call: &Call, id: &str) -> Result<Outcome, Response> {
    let (tenancy, key) = required_id(consul, call, id)?;
    consul.forward(call, Errand::Write)?;
    let authority = consul.authorize(call)?;
    if authority.is_enforced() {
        let key = key
            .as_ref()
            .map_err(|fault| answer::failure(format!("Session lookup failed: {fault}")))?;
        let session = consul.state.tables(&tenancy).sessions.get(key);
        let hidden = session.filter(|session| !authority.writes_sessions_of(&session.node));
        if let Some(session) = hidden {
            return Err(acl::denied("session:write", &session.node));
        }
    }
    let key = key.map_err(answer::failure)?;
    consul.state.end_session(call.now, &tenancy, &key);
    Ok(Outcome::Ready(answer::json(&true, call.pretty)))
}

/// `GET /v1/session/info/<id>`
pub(super) fn info(consul: &mut Consul, call: &Call, id: &str) -> Result<Outcome, Response> {
    let options = Options::parse(&call.target.query)?;
    let (tenancy, key) = required_id(consul, call, id)?;
    let wanted = key.map(|id| Read::Session { id });
    read(consul, call, tenancy, options, wanted)
}

/// `GET /v1/session/list`
pub(super) fn list(consul: &mut Consul, call: &Call) -> Result<Outcome, Response> {
    let options = Options::parse(&call.target.query)?;
    let tenancy = call.tenancy()?;
    read(consul, call, tenancy, options, Ok(Read::Sessions))
}

/// `GET /v1/session/node/<name>`
pub(super) fn of_node(consul: &mut Consul, call: &Call, node: &str) -> Result<Outcome, Response> {
    let options = Options::parse(&call.target.query)?;
    let tenancy = call.tenancy()?;
    if node.is_empty() {
        return Err(answer::bad_request("Missing node name"));
    }
    let node = node.to_owned();
    read(
        consul,
        call,
        tenancy,
        options,
        Ok(Read::NodeSessions { node }),
    )
}

/// One session in its present state.
pub(super) fn view_one(tables: &Tables, authority: &Authority, id: &[u8], pretty: bool) -> View {
    let found = tables.sessions.get(id);
    let seen = found.filter(|session| authority.reads_sessions_of(&session.node));
    View {
        index: tables.sessions.table_index(),
        watch: match found {
            Some(_) => Watch::Session,
            None => Watch::MissingSession(tables.sessions.node_of_id(id)),
        },
        response: answer::json(&seen.into_iter().collect::<Vec<_>>(), pretty),
        filtered: found.is_some() && seen.is_none(),
    }
}

/// All sessions, or those of one node, in their present state.
pub(super) fn view_all(
    tables: &Tables,
    authority: &Authority,
    node: Option<&str>,
    pretty: bool,
) -> View {
    let (seen, hidden): (Vec<_>, Vec<_>) = tables
        .sessions
        .iter()
        .filter(|session| node.is_none_or(|node| session.is_on(node)))
        .partition(|session| authority.reads_sessions_of(&session.node));
    View {
        index: tables.sessions.table_index(),
        watch: Watch::Sessions,
        response: answer::json(&seen, pretty),
        filtered: !hidden.is_empty(),
    }
}

/// Errors of session reads have headers of freshness, too, with values as if nothing had been
/// looked up.
fn read(
    consul: &mut Consul,
    call: &Call,
    tenancy: Tenancy,
    options: Options,
    read: Result<Read, String>,
) -> Result<Outcome, Response> {
    let unfresh = |response| {
        let freshness = Freshness {
            tells_backend: call.release().query_backend_header,
            known_leader: false,
            last_contact: core::time::Duration::ZERO,
        };
        freshness.stamp_at(0, response)
    };
    consul.forward(call, options.errand()).map_err(unfresh)?;
    let authority = consul.authorize(call).map_err(unfresh)?;
    let read = read.map_err(answer::failure).map_err(unfresh)?;
    Ok(Outcome::Read(Asked {
        tenancy,
        read,
        options,
        authority,
        pretty: call.pretty,
    }))
}

/// The id from a path, and its tenancy. Only the leader checks whether it is a valid id.
fn required_id(
    consul: &Consul,
    call: &Call,
    id: &str,
) -> Result<(Tenancy, Result<Vec<u8>, String>), Response> {
    let tenancy = call.tenancy()?;
    if id.is_empty() {
        return Err(answer::bad_request("Missing session"));
    }
    let key = consul.state.tables(&tenancy).sessions.key_of(id);
    Ok((tenancy, key))
}

fn parse_behavior(behavior: &str) -> Result<Behavior, Response> {
    match behavior {
        "" | "release" => Ok(Behavior::Release),
        "delete" => Ok(Behavior::Delete),
        other => Err(answer::failure(format!(
            "Invalid Behavior setting '{other}'"
        ))),
    }
}

fn parse_ttl(ttl: &str, least: i64) -> Result<core::time::Duration, Response> {
    if ttl.is_empty() {
        return Ok(core::time::Duration::ZERO);
    }
    let nanos = go::parse_duration(ttl)
        .map_err(|fault| answer::failure(format!("Session TTL '{ttl}' invalid: {fault}")))?;
    if nanos != 0 && !(least..=MAX_TTL_NANOS).contains(&nanos) {
        return Err(answer::failure(format!(
            "Invalid Session TTL '{nanos}', must be between [{}=24h0m0s]",
            go::show_duration(least)
        )));
    }
    Ok(core::time::Duration::from_nanos(nanos.unsigned_abs()))
}

fn validate_checks(state: &State, wanted: &session_body::Wanted) -> Result<(), String> {
    if !state.catalog.has(&wanted.node) {
        return Err("Missing node registration".to_owned());
    }
    for check in wanted.checks() {
        match state.catalog.check(&wanted.node, check) {
            None => return Err(format!("Missing check '{check}' registration")),
            Some(false) => return Err(format!("Check '{check}' is in critical state")),
            Some(true) => {}
        }
    }
    Ok(())
}
