//! Any bytes as the answer to each request.
//!
//! Input: status, `X-Consul-Index`, filtering, a `Location`, then the body.

use semaphore_core::sans_io::api::{
    AcquireKey, CasKey, CreateSession, DeleteKey, DestroySession, Entry, ListKeys, ReadKey,
    ReleaseKey, RenewSession, SessionInfo, Txn, TxnOutcome,
};
use semaphore_core::sans_io::{Response, View};
use semaphore_core::{Error, LeaderStatus, LockKey, Prefix, RequestError, SequencerStatus};

use crate::choices::Choices;
use crate::inputs::check_sequencer;
use crate::oracle::check_text;
use crate::stranger::KEY;
use crate::{PREFIX, mangle};

/// Runs every parser on the answer.
pub fn run(input: &[u8]) {
    let mut choices = Choices::new(input);
    let status = if choices.once_in(4) {
        u16::try_from(choices.number() & 0xffff).unwrap_or_default()
    } else {
        choices.pick(mangle::STATUSES)
    };
    let mut head = Response::new(status, "");
    if !choices.once_in(8) {
        let index = if choices.flag() {
            choices.text(24)
        } else {
            choices.number().to_string()
        };
        head = head.with_header("X-Consul-Index", index);
    }
    if choices.once_in(4) {
        let filtered = choices.text(5);
        head = head.with_header("x-consul-results-filtered-by-acls", filtered);
    }
    if choices.once_in(8) {
        head = head.with_header("Location", choices.text(32));
    }
    let body = choices.rest();
    let response = head
        .headers()
        .fold(Response::new(status, body), |response, (name, value)| {
            response.with_header(name, value)
        });
    read_all(&response);
}

fn read_all(response: &Response) {
    let served = response.status() == 200;
    let created = CreateSession::parse(response);
    if let Some(id) = served_only(served, created) {
        assert_eq!(id.as_str().len(), 36);
    }
    served_only(served, RenewSession::parse(response));
    served_only(served, SessionInfo::parse(response));
    served_only(served, DestroySession::parse(response));
    let flags = [
        CasKey::parse(response),
        AcquireKey::parse(response),
        DeleteKey::parse(response),
        ReleaseKey::parse(response),
    ];
    for flag in flags {
        if let Some(flag) = served_only(served, flag) {
            assert_eq!(response.body().trim_ascii(), flag.to_string().as_bytes());
        }
    }
    let found = served || response.status() == 404;
    if let Some(Some(entry)) = served_only(found, ReadKey::parse(response)) {
        read_entry(&entry);
    }
    if let Some((_, Some(entry))) = served_only(found, ReadKey::parse_at(response)) {
        read_entry(&entry);
    }
    read_leader(response);
    let answered = served || response.status() == 409;
    match served_only(answered, Txn::parse(response)) {
        Some(TxnOutcome::Applied(results)) => {
            assert!(served);
            results.entries.iter().for_each(read_entry);
        }
        Some(TxnOutcome::RolledBack(faults)) => {
            assert!(!served && !faults.is_empty());
            for fault in faults {
                assert!(fault.text.chars().count() <= 200);
                assert!(!fault.text.chars().any(char::is_control));
            }
        }
        None => {}
    }
    if let Some(list) = served_only(found, ListKeys::parse(response)) {
        list.entries.iter().for_each(read_entry);
        let prefix = Prefix::new(PREFIX).expect("a prefix");
        let view = View::new(&prefix, &list);
        assert!(view.waiters().count() <= view.contenders().len());
        assert!(view.contenders().len() <= list.entries.len());
    }
}

/// The leader is the owner of the key's session, in the term of the lock index.
fn read_leader(response: &Response) {
    let key = LockKey::new(KEY).expect("a key");
    let status = match LeaderStatus::parse(&key, response) {
        Ok((_, status)) => status,
        Err(error) => {
            check_text(&error);
            if let Error::Request(error) = error {
                check_error(&error);
            }
            return;
        }
    };
    let entry = ReadKey::parse(response).expect("a leader is read from an entry, or none");
    let session = entry.as_ref().and_then(Entry::session);
    match status {
        LeaderStatus::Led(leader) => {
            let sequencer = leader.sequencer();
            check_sequencer(&sequencer);
            assert!(session.is_some_and(|id| id.eq_ignore_ascii_case(leader.session.as_str())));
            assert_eq!(sequencer.check(entry.as_ref()), SequencerStatus::Current);
            let mut next = sequencer;
            next.lock_index = next.lock_index.wrapping_add(1);
            assert_eq!(next.check(entry.as_ref()), SequencerStatus::Stale);
        }
        LeaderStatus::Leaderless { last_value } => {
            assert_eq!(session, None);
            assert_eq!(last_value.is_some(), entry.is_some());
        }
    }
}

fn read_entry(entry: &Entry<'_>) {
    assert_ne!(entry.session(), Some(""));
    if let Err(error) = entry.value() {
        check_error(&error);
    }
}

/// The answer. There must be none unless it was `possible`.
fn served_only<T>(possible: bool, parsed: Result<T, RequestError>) -> Option<T> {
    match parsed {
        Ok(value) => {
            assert!(possible, "read from an answer that says otherwise");
            Some(value)
        }
        Err(error) => {
            check_error(&error);
            None
        }
    }
}

fn check_error(error: &RequestError) {
    check_text(error);
    // A request that certainly was not applied may be sent again. A permanent error is a refusal.
    let _ = (error.is_permanent(), error.was_not_applied());
}
