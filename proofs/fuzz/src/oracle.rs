//! Whether a machine's requests follow from what it was shown.
//!
//! It sees every delivered answer. A list among them must justify each write of the record: the
//! write starts from the list's index, and keeps what the writer may not change.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use percent_encoding::percent_decode_str;
use semaphore_core::sans_io::api::{CreateSession, ListKeys, SEMAPHORE_FLAGS};
use semaphore_core::sans_io::{Dialect, Key, Method, Record, Request, Response, View};
use semaphore_core::{Prefix, SessionId};
use serde_json::Value as Json;
use serde_json::value::RawValue;
use transport_mock::RequestKind;

use crate::PREFIX;
use crate::transaction::{Found, Transaction, list_of, locked};

/// Everything that one participant or one operation was shown.
pub(crate) struct Oracle {
    prefix: Prefix,
    shown: VecDeque<Shown>,
    /// The sessions that it created.
    ours: BTreeSet<SessionId>,
    /// The newest key that a transaction of its own has locked, by the index of its creation.
    entered: u64,
}

/// One list.
struct Shown {
    view: View,
    /// The value of `.lock`.
    value: Vec<u8>,
    /// The entries of the list.
    entries: Vec<Json>,
}

impl Oracle {
    pub(crate) fn new() -> Self {
        Self {
            prefix: Prefix::new(PREFIX).expect("a prefix"),
            shown: VecDeque::new(),
            ours: BTreeSet::new(),
            entered: 0,
        }
    }

    /// An answer is about to be delivered.
    pub(crate) fn show(&mut self, request: &Request, response: &Response) {
        match RequestKind::of(request) {
            RequestKind::SessionCreate => self.ours.extend(CreateSession::parse(response)),
            RequestKind::KvRead | RequestKind::KvWatch if request.target().contains("recurse") => {
                let entries = serde_json::from_slice(response.body());
                self.list(response, entries.unwrap_or_default());
            }
            RequestKind::Txn => self.show_transaction(&Transaction::of(request), response),
            RequestKind::KvRead | RequestKind::KvWatch if is_of_record(request) => {
                let entries = serde_json::from_slice(response.body());
                let entries: Vec<Json> = entries.unwrap_or_default();
                self.read_record(entries.last().filter(|_| response.status() == 200));
            }
            _ => {}
        }
    }

    fn list(&mut self, response: &Response, entries: Vec<Json>) {
        let Ok(list) = ListKeys::parse(response) else {
            return;
        };
        let key = self.prefix.record_key();
        let entry = list.entries.iter().rfind(|entry| entry.key() == key);
        let value = entry.and_then(|entry| entry.value().ok());
        self.shown.push_back(Shown {
            view: View::new(&self.prefix, &list),
            value: value.unwrap_or_default(),
            entries,
        });
        if self.shown.len() > REMEMBERED {
            self.shown.pop_front();
        }
    }

    /// The result of a transaction is known without another list.
    fn show_transaction(&mut self, transaction: &Transaction, response: &Response) {
        for (session, created) in locked(response) {
            if self.is_ours(&session) {
                self.entered = self.entered.max(created);
            }
        }
        let lock = self.prefix.record_key();
        if let Some(read) = transaction.record_read(&lock, response) {
            match read {
                Found::Entry(entry) => self.read_record(Some(&entry)),
                Found::Nothing => self.read_record(None),
            }
            return;
        }
        let base = transaction.write_of(&lock).and_then(|it| it.index);
        if let Some(base) = base {
            self.extend(
                |shown| shown.view.record_index().0 == base,
                |before| transaction.entries_after(&lock, before, response),
            );
        } else if let Some(entries) = transaction.entries_after(&lock, &[], response) {
            self.list(&list_of(&entries), entries);
        }
    }

    /// The record was read by its name, after some lists or before any list.
    fn read_record(&mut self, entry: Option<&Json>) {
        match entry {
            Some(entry) => {
                self.extend(|_| true, |before| Some(with_entry(before, entry)));
                self.list(&list_of(std::slice::from_ref(entry)), vec![entry.clone()]);
            }
            None => self.list(&list_of(&[]), Vec::new()),
        }
    }

    /// Adds what follows from the last lists that may be meant.
    fn extend(
        &mut self,
        is_meant: impl Fn(&Shown) -> bool,
        follow: impl Fn(&[Json]) -> Option<Vec<Json>>,
    ) {
        let last = self.shown.iter().rev().filter(|shown| is_meant(shown));
        let entries = last.take(CONTINUED).filter_map(|it| follow(&it.entries));
        for entries in entries.collect::<Vec<_>>() {
            self.list(&list_of(&entries), entries);
        }
    }

    /// Checks a participant's request.
    pub(crate) fn check_participant(&self, request: &Request) {
        check_line(request);
        let (path, cas, flags) = parts(request);
        let write = request.method() != Method::Get;
        if let Some(name) = path.strip_prefix("/v1/kv/service/db/") {
            match name {
                "" => assert!(!write, "{request:?}"),
                ".lock" if request.method() == Method::Put => {
                    let record = written(request.body(), flags);
                    self.justify(request.body(), cas, |shown| {
                        self.may_write(shown, &record, None)
                    });
                }
                ".lock" => assert!(!write, "a participant deletes the record"),
                session => assert!(!write || self.is_ours(session), "{request:?}"),
            }
        } else if let Some(session) = ["/v1/session/renew/", "/v1/session/info/"]
            .iter()
            .find_map(|start| path.strip_prefix(start))
        {
            assert!(self.is_ours(session), "{request:?}");
        } else if let Some(session) = path.strip_prefix("/v1/session/destroy/") {
            assert!(self.is_ours(session), "{request:?}");
        } else if path == "/v1/txn" {
            self.check_transaction(&Transaction::of(request));
        } else {
            assert_eq!(path, "/v1/session/create");
        }
    }

    /// Checks a participant's transaction.
    fn check_transaction(&self, transaction: &Transaction) {
        let lock = self.prefix.record_key();
        let mut sessions = transaction.locks_with();
        assert!(sessions.all(|it| self.is_ours(it)), "locks with another's");
        for (verb, key) in transaction.operations() {
            let name = key
                .strip_prefix("service/db/")
                .expect("a key of the prefix");
            match verb {
                // A proof reads its keys and the record.
                "get-tree" => assert!(matches!(name, "" | ".lock") || self.is_ours(name), "{key}"),
                "check-session" | "check-not-exists" | "check-index" => {}
                "get" | "cas" | "set" => assert_eq!(name, ".lock"),
                // Who prunes a dead holder locks its key, which Consul refuses while somebody has it.
                "lock" | "delete" => assert!(
                    self.is_ours(name)
                        || transaction.has("lock", key) && transaction.has("delete", key),
                    "{verb} of {key}"
                ),
                _ => assert!(self.is_ours(name), "{verb} of {key}"),
            }
        }
        if let Some(write) = transaction.write_of(&lock) {
            let record = written(&write.value, write.flags);
            self.justify(&write.value, write.index, |shown| {
                self.may_write(shown, &record, Some(transaction))
            });
        }
    }

    /// Checks a request of an operation that sets the limit.
    pub(crate) fn check_resize(&self, request: &Request, limit: u32) {
        check_line(request);
        let (path, cas, flags) = parts(request);
        if request.method() == Method::Get {
            return;
        }
        assert_eq!(path, "/v1/kv/service/db/.lock");
        assert_eq!(request.method(), Method::Put);
        let record = written(request.body(), flags);
        self.justify(request.body(), cas, |shown| {
            shown.view.record().is_some_and(|found| {
                let mut expected = found.clone();
                expected.set_limit(limit);
                // Only the order of a map's names may differ.
                expected.encode() == record.encode()
            })
        });
    }

    /// Checks a request of an operation that removes an unused record.
    pub(crate) fn check_destroy(&self, request: &Request) {
        check_line(request);
        let (path, cas, _) = parts(request);
        if request.method() == Method::Get {
            return;
        }
        assert_eq!(path, "/v1/kv/service/db/.lock");
        assert_eq!(request.method(), Method::Delete);
        self.justify(request.body(), cas, |shown| {
            let view = &shown.view;
            let lives = |record: &Record| record.holders().any(|holder| view.is_alive(holder));
            !view.is_filtered()
                && view.waiters().count() == 0
                && view.record().is_some_and(|record| !lives(record))
        });
    }

    /// Asserts that a list has the record at this index and allows the write.
    fn justify(&self, value: &[u8], cas: Option<u64>, allows: impl Fn(&Shown) -> bool) {
        let cas = cas.expect("the record is written by check-and-set only");
        let is_justified = self.shown.iter().rev().any(|shown| {
            shown.view.record_index().0 == cas && shown.may_replace(value) && allows(shown)
        });
        assert!(
            is_justified,
            "no answer justifies {} from {cas}",
            String::from_utf8_lossy(value)
        );
    }

    /// Who is pruned must be dead in the list, and its key tried in the same transaction.
    fn may_write(&self, shown: &Shown, record: &Record, by: Option<&Transaction>) -> bool {
        let Some(found) = shown.view.record() else {
            return shown.view.lock().is_none()
                && record.holders().all(|it| self.is_ours(it))
                && record.holders().len() <= record.limit() as usize
                && record.dialect() == Dialect::Map
                && record.flags() == SEMAPHORE_FLAGS;
        };
        let added = record
            .holders()
            .filter(|holder| !found.holds(holder))
            .collect::<Vec<_>>();
        let sees_ours = || {
            let mut ours = self.ours.iter();
            // A list from before a key of its own was locked can't show that key, nor one from before
            // this entry.
            let enters = |(verb, _): (&str, &str)| verb == "check-not-exists";
            shown.view.index().0 < self.entered
                || by.is_some_and(|it| it.operations().any(enters))
                || ours.any(|session| matches!(shown.view.key(session), Key::Tied(_)))
        };
        let may_prune = |holder: &str| {
            let is_tried = SessionId::new(holder).map_or(true, |session| {
                let key = self.prefix.contender_key(&session);
                by.is_some_and(|it| it.has("lock", &key) || it.has("check-index", &key))
            });
            !shown.view.is_filtered() && !shown.view.is_alive(holder) && is_tried && sees_ours()
        };
        record.dialect() == found.dialect()
            && record.flags() == found.flags()
            && record.limit() == found.limit()
            && others(&record.encode()) == others(&shown.value)
            && added.iter().all(|holder| self.is_ours(holder))
            && (added.is_empty() || record.holders().len() <= record.limit() as usize)
            && found
                .holders()
                .filter(|holder| !record.holds(holder))
                .all(|gone| self.is_ours(gone) || may_prune(gone))
    }

    fn is_ours(&self, session: &str) -> bool {
        SessionId::new(session).is_ok_and(|session| self.ours.contains(&session))
    }
}

impl Shown {
    /// Data that can't be understood must not be replaced. A write without a change would fence
    /// nobody off.
    fn may_replace(&self, value: &[u8]) -> bool {
        match self.view.lock() {
            Some(lock) => lock.record.is_ok() && self.value != value,
            None => true,
        }
    }
}

/// How many lists may be the newest one that a machine has accepted.
const REMEMBERED: usize = 256;

/// How many of them another answer may continue.
const CONTINUED: usize = 8;

fn is_of_record(request: &Request) -> bool {
    request.target().starts_with("/v1/kv/service/db/.lock")
}

/// The same entries with another record.
fn with_entry(entries: &[Json], entry: &Json) -> Vec<Json> {
    let others = entries.iter().filter(|it| it["Key"] != entry["Key"]);
    others.chain([entry]).cloned().collect()
}

fn written(value: &[u8], flags: Option<u64>) -> Record {
    let flags = flags.expect("a record is written with flags");
    Record::decode(value, flags).expect("a record is written")
}

/// The fields of a value that are not a record's, with their spelling.
pub(crate) fn others(value: &[u8]) -> BTreeMap<String, String> {
    let mut fields: BTreeMap<String, Box<RawValue>> =
        serde_json::from_slice(value).unwrap_or_default();
    for name in ["limit", "holders", "Limit", "Holders"] {
        fields.remove(name);
    }
    let fields = fields.into_iter();
    fields
        .map(|(name, text)| (name, text.get().to_owned()))
        .collect()
}

/// The text of an error. It must be one line of a log, whatever the answer was.
pub(crate) fn check_text(error: &dyn std::error::Error) -> String {
    // The text contains its causes.
    let text = error.to_string();
    assert!(text.chars().count() <= 1_000, "{} characters", text.len());
    assert!(!text.chars().any(char::is_control), "{text:?}");
    text
}

/// Nothing in the request may end or split its line.
pub(crate) fn check_line(request: &Request) {
    let target = request.target();
    assert!(target.starts_with("/v1/"), "{target}");
    assert!(
        target.bytes().all(|byte| byte.is_ascii_graphic()),
        "{target}"
    );
    assert!(!target.contains('#'), "{target}");
    assert!(target.matches('?').count() <= 1, "{target}");
}

/// The decoded path, `cas` and `flags`.
fn parts(request: &Request) -> (String, Option<u64>, Option<u64>) {
    let number = |name| parameter(request, name).map(|it| it.parse().expect("a number"));
    (path(request), number("cas"), number("flags"))
}

/// The decoded path.
pub(crate) fn path(request: &Request) -> String {
    let path = request.target().split('?').next().unwrap_or_default();
    let path = percent_decode_str(path).decode_utf8().expect("UTF-8");
    path.into_owned()
}

/// A parameter of the request, with its spelling.
pub(crate) fn parameter<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    let (_, query) = request.target().split_once('?')?;
    let mut pairs = query.split('&');
    pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}
