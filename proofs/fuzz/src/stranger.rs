//! What others do to an election's key: they lead, or write it without `acquire`.

use semaphore_core::sans_io::api::{LOCK_FLAGS, SEMAPHORE_FLAGS};
use semaphore_core::sans_io::{Instant, Method, Request};
use transport_mock::consul::Consul;

use crate::choices::Choices;
use crate::mangle;

/// The election's key. It is that of `consul lock` with one slot, and invented entries use it, too.
pub(crate) const KEY: &str = "service/db/.lock";

/// Changes the key in one of four ways.
pub(crate) fn disturb(way: usize, now: Instant, consul: &mut Consul, choices: &mut Choices<'_>) {
    match way {
        0 => lead(now, consul, choices),
        1 => put(now, consul, "", choices),
        2 => delete(now, consul),
        _ => {
            let holder = consul.entry(KEY).and_then(|entry| entry.session());
            let release = holder.map(|session| format!("release={session}&"));
            put(now, consul, &release.unwrap_or_default(), choices);
        }
    }
}

pub(crate) fn delete(now: Instant, consul: &mut Consul) {
    let delete = Request::new(Method::Delete, format!("/v1/kv/{KEY}"));
    consul.submit(now, &delete);
}

/// Somebody with a session acquires the key.
fn lead(now: Instant, consul: &mut Consul, choices: &mut Choices<'_>) {
    if choices.flag() {
        let create = Request::new(Method::Put, "/v1/session/create");
        let create = create.with_body(r#"{"NodeChecks":[],"LockDelay":"1s"}"#);
        consul.submit(now, &create);
    }
    let sessions: Vec<_> = consul.sessions().map(|it| it.id().to_owned()).collect();
    if !sessions.is_empty() {
        let session = &sessions[choices.below(sessions.len())];
        put(now, consul, &format!("acquire={session}&"), choices);
    }
}

fn put(now: Instant, consul: &mut Consul, how: &str, choices: &mut Choices<'_>) {
    let flags = choices.pick(&[LOCK_FLAGS, 0, SEMAPHORE_FLAGS, 1]);
    let value = match choices.below(4) {
        0 => mangle::record(choices),
        1 => choices.bytes(64).to_vec(),
        2 => Vec::new(),
        _ => b"node-2".to_vec(),
    };
    let put = Request::new(Method::Put, format!("/v1/kv/{KEY}?{how}flags={flags}"));
    consul.submit(now, &put.with_body(value));
}
