//! `/v1/kv/<key>`: reading, writing and deleting keys.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use semaphore_core::adapter::{Method, Response};
use serde::Serialize;

use super::Consul;
use super::acl::{self, Authority};
use super::answer;
use super::blocking::{Read, View, Watch};
use super::call::{Asked, Call, Outcome};
use super::go;
use super::keys;
use super::limits::Errand;
use super::options::Options;
use super::profile::Unclean;
use super::state::Tables;
use super::store::Entry;

/// The largest value, and the largest body of a transaction, in bytes.
pub(super) const MAX_VALUE: usize = 512 * 1024;

/// Answers a request for the key that follows `/v1/kv/` in its path.
pub(super) fn serve(consul: &mut Consul, call: &Call, key: &[u8]) -> Result<Outcome, Response> {
    let options = Options::parse(&call.target.query)?;
    let release = call.release();
    let key = match release.unclean {
        Unclean::Redirected => key.to_vec(),
        Unclean::EncodedCleaned => keys::cleaned(key),
    };
    if let Some(fault) = keys::fault(release.keys, &key) {
        return Err(answer::failure(format!("invalid key name, {fault}")));
    }
    let key = key.as_slice();
    match call.method {
        Method::Get => get(consul, call, options, key),
        Method::Put => put(consul, call, key).map(Outcome::Ready),
        Method::Delete => delete(consul, call, key).map(Outcome::Ready),
    }
}

fn get(
    consul: &mut Consul,
    call: &Call,
    options: Options,
    key: &[u8],
) -> Result<Outcome, Response> {
    let query = &call.target.query;
    let read = if query.has("keys") {
        let separator = query.get("separator").or_else(|| query.get("seperator"));
        Read::Keys {
            prefix: key.to_vec(),
            separator: separator.unwrap_or_default().as_bytes().to_vec(),
        }
    } else if query.has("recurse") {
        Read::Tree {
            prefix: key.to_vec(),
        }
    } else if key.is_empty() {
        return Err(answer::bad_request("Missing key name"));
    } else {
        Read::Key {
            key: key.to_vec(),
            raw: query.has("raw").then_some(call.release().raw_content_type),
        }
    };
    let tenancy = call.tenancy()?;
    consul.forward(call, options.errand())?;
    let authority = consul.authorize(call)?;
    Ok(Outcome::Read(Asked {
        tenancy,
        read,
        options,
        authority,
        pretty: call.pretty,
    }))
}

fn put(consul: &mut Consul, call: &Call, key: &[u8]) -> Result<Response, Response> {
    let query = &call.target.query;
    let tenancy = call.tenancy()?;
    if key.is_empty() {
        return Err(answer::bad_request("Missing key name"));
    }
    call.refuse_conflicting(&["cas", "acquire", "release"])?;
    let number = |name| query.get(name).map(parse_number).transpose();
    let flags = number("flags")?.unwrap_or(0);
    let cas = number("cas")?;
    if call.body.len() > MAX_VALUE {
        return Err(answer::text(
            413,
            format!(
                "Request body({} bytes) too large, max size: {MAX_VALUE} bytes",
                call.body.len()
            ),
        ));
    }
    consul.forward(call, Errand::Write)?;
    let authority = consul.authorize(call)?;
    if !authority.writes_key(key) {
        return Err(acl::denied("key:write", key));
    }
    let mut entry = Entry::new(key, call.body.to_vec(), flags);
    let before_fault = call.release().before_key_fault;
    let failure = |fault: String| answer::failure(format!("{before_fault}{fault}"));
    let delayed = || {
        let tables = consul.state.tables(&tenancy);
        tables.sessions.is_delayed(call.now, key)
    };
    if !query.has("release") && query.has("acquire") && delayed() {
        return Ok(answer::json(&false, call.pretty));
    }
    let index = consul.state.next_index();
    let tables = consul.state.tables_mut(&tenancy);
    let written = if let Some(session) = query.get("release") {
        entry.session = session.into();
        unlock(tables, index, entry).map_err(failure)?.is_some()
    } else if let Some(session) = query.get("acquire") {
        entry.session = session.into();
        lock(tables, index, entry).map_err(failure)?.is_some()
    } else if let Some(cas) = cas {
        tables.store.set_cas(index, cas, entry).is_some()
    } else {
        tables.store.set(index, entry, false);
        true
    };
    Ok(answer::json(&written, call.pretty))
}

fn delete(consul: &mut Consul, call: &Call, key: &[u8]) -> Result<Response, Response> {
    let query = &call.target.query;
    let tenancy = call.tenancy()?;
    call.refuse_conflicting(&["recurse", "cas"])?;
    let recurse = query.has("recurse");
    if key.is_empty() && !recurse {
        return Err(answer::bad_request("Missing key name"));
    }
    let cas = query.get("cas").map(parse_number).transpose()?;
    consul.forward(call, Errand::Write)?;
    let authority = consul.authorize(call)?;
    let permitted = if recurse {
        authority.writes_tree(key)
    } else {
        authority.writes_key(key)
    };
    if !permitted {
        return Err(acl::denied("key:write", key));
    }
    let index = consul.state.next_index();
    let store = &mut consul.state.tables_mut(&tenancy).store;
    let deleted = match cas {
        Some(cas) => store.delete_cas(call.now, index, cas, key),
        None if recurse => {
            store.delete_tree(call.now, index, key);
            true
        }
        None => {
            store.delete(call.now, index, key);
            true
        }
    };
    Ok(answer::json(&deleted, call.pretty))
}

/// Acquires a key. The error is the agent's text about an unsuitable session.
pub(super) fn lock(tables: &mut Tables, index: u64, entry: Entry) -> Result<Option<Entry>, String> {
    if entry.session.is_empty() {
        return Err("missing session".into());
    }
    let id = tables.sessions.key_of(&entry.session)?;
    if tables.sessions.get(&id).is_none() {
        return Err(format!("invalid session {:?}", entry.session));
    }
    Ok(tables.store.lock(index, entry))
}

/// Releases a key. The error is the agent's text.
pub(super) fn unlock(
    tables: &mut Tables,
    index: u64,
    entry: Entry,
) -> Result<Option<Entry>, String> {
    if entry.session.is_empty() {
        return Err("missing session".into());
    }
    Ok(tables.store.unlock(index, entry))
}

/// One key in its present state.
pub(super) fn view_key(
    tables: &Tables,
    authority: &Authority,
    key: &[u8],
    raw: Option<&'static str>,
    pretty: bool,
) -> Result<View, Response> {
    if !authority.reads_key(key) {
        return Err(acl::denied("key:read", key));
    }
    let Some(entry) = tables.store.get(key) else {
        return Ok(View {
            index: tables.store.table_index(),
            watch: Watch::MissingKey(tables.store.node_of_key(key)),
            response: answer::not_found(),
            filtered: false,
        });
    };
    let response = if let Some(content_type) = raw {
        Response::new(200, entry.value())
            .with_header("Content-Type", content_type)
            .with_header("X-Content-Type-Options", "nosniff")
            .with_header("Content-Security-Policy", "sandbox")
    } else {
        answer::json(&[Shown::new(entry)], pretty)
    };
    Ok(View {
        index: entry.modify_index,
        watch: Watch::Key,
        response,
        filtered: false,
    })
}

/// All keys below a prefix, or only their names up to a separator, in their present state.
pub(super) fn view_tree(
    tables: &Tables,
    authority: &Authority,
    prefix: &[u8],
    shape: TreeShape<'_>,
    pretty: bool,
) -> View {
    let (seen, hidden): (Vec<_>, Vec<_>) = tables
        .store
        .list(prefix)
        .partition(|entry| authority.reads_key(&entry.key));
    let response = match shape {
        TreeShape::Entries if seen.is_empty() => answer::not_found(),
        TreeShape::Names { .. } if seen.is_empty() && !prefix.is_empty() => answer::not_found(),
        TreeShape::Entries => {
            let shown: Vec<_> = seen.into_iter().map(Shown::new).collect();
            answer::json(&shown, pretty)
        }
        TreeShape::Names { separator } => {
            answer::json(&names(&seen, prefix.len(), separator), pretty)
        }
    };
    View {
        index: tables.store.prefix_index(prefix),
        watch: Watch::Tree(tables.store.node_of_prefix(prefix)),
        response,
        filtered: !hidden.is_empty(),
    }
}

/// How the keys below a prefix are shown.
#[derive(Clone, Copy)]
pub(super) enum TreeShape<'a> {
    /// Everything.
    Entries,
    /// The names, cut after the first separator, if one is given.
    Names { separator: &'a [u8] },
}

fn names(entries: &[&Entry], prefix: usize, separator: &[u8]) -> Vec<String> {
    // As bytes: two different names that are not UTF-8 may look alike as text.
    let mut names: Vec<&[u8]> = Vec::new();
    for entry in entries {
        let rest = &entry.key[prefix..];
        let cut = rest
            .windows(separator.len().max(1))
            .position(|window| window == separator)
            .map_or(entry.key.len(), |at| prefix + at + separator.len());
        let name = &entry.key[..cut];
        if names.last() != Some(&name) {
            names.push(name);
        }
    }
    let shown = names.into_iter().map(String::from_utf8_lossy);
    shown.map(Cow::into_owned).collect()
}

fn parse_number(text: &str) -> Result<u64, Response> {
    go::parse_uint(text).map_err(answer::failure)
}

/// An entry as the agent's JSON shows it.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Shown {
    lock_index: u64,
    key: String,
    flags: u64,
    value: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    session: String,
    create_index: u64,
    modify_index: u64,
}

impl Shown {
    pub(super) fn new(entry: &Entry) -> Self {
        Self {
            lock_index: entry.lock_index,
            key: entry.key(),
            flags: entry.flags,
            value: (!entry.value.is_empty()).then(|| BASE64.encode(&entry.value)),
            session: entry.session.clone(),
            create_index: entry.create_index,
            modify_index: entry.modify_index,
        }
    }

    /// The entry without its value, as transactions show what they wrote.
    pub(super) fn without_value(entry: &Entry) -> Self {
        Self {
            value: None,
            ..Self::new(entry)
        }
    }
}
