//! Invented lists of a prefix.
//!
//! Input: choices of entries. The view is compared with the entries, read one by one.

use std::collections::BTreeMap;

use semaphore_core::sans_io::api::{LOCK_FLAGS, ListKeys};
use semaphore_core::sans_io::{Index, Key, Record, Response, View};
use semaphore_core::{Error, LeaderStatus, LockKey, Prefix, SessionId};
use serde_json::Value as Json;

use crate::choices::Choices;
use crate::{PREFIX, mangle};

/// Reads a list as a view, and compares them.
pub fn run(input: &[u8]) {
    let mut choices = Choices::new(input);
    let index = choices.number().max(1);
    let filtered = choices.flag();
    let mut entries = Vec::new();
    while entries.len() < 64 && !choices.are_used_up() {
        entries.push(mangle::list_entry(&mut choices));
    }
    let body = Json::from(entries.clone()).to_string();
    let response = Response::new(200, body)
        .with_header("X-Consul-Index", index.to_string())
        .with_header("X-Consul-Results-Filtered-By-ACLs", filtered.to_string());
    let list = ListKeys::parse(&response).expect("a list");
    let view = View::new(&Prefix::new(PREFIX).expect("a prefix"), &list);
    assert_eq!(view.index(), Index(index));
    assert_eq!(view.is_filtered(), filtered);
    check_lock(&view, &entries);
    check_members(&view, &entries);
    check_keys(&view);
    entries.iter().for_each(check_leader);
}

/// The same entry as an answer to the question who leads. Its flags depend on its index, so some
/// are an election's.
fn check_leader(entry: &Json) {
    let mut entry = entry.clone();
    let (created, has_flags) = (number(&entry, "CreateIndex"), entry.get("Flags").is_some());
    if has_flags && created.is_multiple_of(2) {
        entry["Flags"] = LOCK_FLAGS.into();
    }
    let response = Response::new(200, Json::from(vec![entry.clone()]).to_string())
        .with_header("X-Consul-Index", "7");
    let name = entry["Key"].as_str().unwrap_or_default();
    let Ok(key) = LockKey::new(name) else {
        return;
    };
    let status = LeaderStatus::parse(&key, &response).map(|(_, status)| status);
    let session = entry["Session"].as_str().unwrap_or_default();
    let flags = number(&entry, "Flags");
    let Some(value) = base64(&entry).filter(|_| key.as_str() == name) else {
        return assert!(matches!(status, Err(Error::Request(_))), "{status:?}");
    };
    let is_by_acquire = session.is_empty() && value.is_empty() || number(&entry, "LockIndex") > 0;
    let is_record = session.is_empty() && Record::decode(&value, 0).is_ok();
    let is_contender_key = SessionId::new(session).is_ok_and(|id| {
        let end = format!("/{id}");
        name.to_ascii_lowercase().ends_with(&end)
    });
    let is_semaphores = flags == 0 && (is_record && !is_by_acquire || is_contender_key);
    let is_foreign = flags == 0 && !is_by_acquire || flags != 0 && flags != LOCK_FLAGS;
    match status {
        Err(Error::NotAnElection { .. }) => assert!(is_semaphores || is_foreign),
        Err(_) => assert!(SessionId::new(session).is_err(), "{session}"),
        Ok(status) => {
            assert!(!is_semaphores && !is_foreign);
            let leader = status.leader().map(|leader| leader.session.as_str());
            assert_eq!(leader.unwrap_or_default(), session.to_ascii_lowercase());
            let said = match &status {
                LeaderStatus::Led(leader) => Some(&leader.value),
                LeaderStatus::Leaderless { last_value } => last_value.as_ref(),
            };
            assert_eq!(said, Some(&value));
        }
    }
}

fn check_lock(view: &View, entries: &[Json]) {
    let last = entries
        .iter()
        .rfind(|entry| entry["Key"] == "service/db/.lock");
    let Some(entry) = last else {
        assert!(view.lock().is_none());
        assert_eq!(view.record_index(), Index::ZERO);
        return;
    };
    assert_eq!(view.record_index(), Index(number(entry, "ModifyIndex")));
    let record = base64(entry).map(|value| Record::decode(&value, number(entry, "Flags")));
    assert_eq!(view.record(), record.and_then(Result::ok).as_ref());
}

fn check_members(view: &View, entries: &[Json]) {
    let children = || {
        entries.iter().filter_map(|entry| {
            let name = entry["Key"].as_str()?.strip_prefix("service/db/")?;
            let is_other = name.is_empty() || name.contains('/') || name == ".lock";
            (!is_other).then(|| (name, entry["Session"].as_str().unwrap_or_default(), entry))
        })
    };
    let is_named = |name: &str| SessionId::new(name).is_ok_and(|id| id.as_str() == name);
    let mut tied: Vec<_> = children()
        .filter(|(name, session, _)| is_named(name) && name == session)
        .map(|(name, _, entry)| (Index(number(entry, "CreateIndex")), name.to_owned()))
        .collect();
    tied.sort();
    let contenders: Vec<_> = view
        .contenders()
        .iter()
        .map(|contender| (contender.create_index, contender.session.to_string()))
        .collect();
    assert_eq!(contenders, tied);
    let mut free = BTreeMap::new();
    for (name, session, entry) in children().filter(|(name, ..)| is_named(name)) {
        if session.is_empty() {
            let index = Index(number(entry, "ModifyIndex"));
            free.entry(name).or_insert(index);
        }
    }
    for (name, index) in free {
        let key = view.key(&SessionId::new(name).expect("it is named so"));
        assert!(matches!(key, Key::Tied(_)) || key == Key::Free(index));
    }
    for session in mangle::SESSIONS
        .iter()
        .filter(|session| !session.is_empty())
    {
        let lives = children().any(|(_, tied, _)| tied.eq_ignore_ascii_case(session));
        assert_eq!(view.is_alive(session), lives, "{session}");
    }
    let record = view.record();
    let waits = |session: &str| record.is_none_or(|record| !record.holds(session));
    let waiters: Vec<_> = view
        .waiters()
        .map(|waiter| waiter.session.as_str())
        .collect();
    let expected: Vec<_> = contenders
        .iter()
        .map(|(_, session)| session.as_str())
        .filter(|session| waits(session))
        .collect();
    assert_eq!(waiters, expected);
}

fn check_keys(view: &View) {
    let mut seen = BTreeMap::new();
    for contender in view.contenders() {
        seen.entry(&contender.session).or_insert(contender);
    }
    for (session, first) in seen {
        assert_eq!(view.key(session), Key::Tied(first));
    }
}

fn number(entry: &Json, field: &str) -> u64 {
    entry[field].as_u64().unwrap_or_default()
}

fn base64(entry: &Json) -> Option<Vec<u8>> {
    use ::base64::Engine as _;
    let value = entry["Value"].as_str().unwrap_or_default();
    ::base64::engine::general_purpose::STANDARD
        .decode(value)
        .ok()
}
