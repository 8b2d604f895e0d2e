//! One read of the prefix: the record, and the contenders in the order of the queue.

mod flags;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::{Entry, KeyList};
use crate::error::{Conflict, MOST_READ, shown_value};
use crate::id::{Index, SessionId};
use crate::input::{LOCK_NAME, Prefix};
use crate::one_line::line;
use crate::record::Record;
use crate::work;

pub(crate) use flags::ContenderFlags;

/// What one read of a prefix showed.
#[derive(Clone, Debug)]
pub struct View {
    index: Index,
    version: Index,
    filtered: bool,
    lock: Option<Lock>,
    /// In the order of the queue.
    contenders: Vec<Contender>,
    /// Their places in the queue, in the order of their sessions.
    places: Vec<usize>,
    /// The places of those without a slot.
    waiting: Vec<usize>,
    /// The holders that no key shows to be alive.
    keyless: Vec<String>,
    /// The number of holders that are alive because of a key with another name.
    renamed: usize,
    /// Sessions, in lower case, that are tied to keys other than their contender key.
    strangers: BTreeSet<String>,
    /// The keys that are named like a session but tied to none, by that session, with their indexes.
    free: BTreeMap<SessionId, Index>,
    /// Those that are tied to another session, with their indexes.
    taken: BTreeMap<SessionId, Index>,
}

/// The key `<prefix>/.lock`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Lock {
    /// The index for a check-and-set.
    pub modify_index: Index,
    /// Its record, or why it is not one.
    pub record: Result<Record, Conflict>,
}

/// A contender key with a live session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contender {
    /// The session it is tied to.
    pub session: SessionId,
    /// The index of its entry: the order of the queue.
    pub create_index: Index,
    /// The index of its last change.
    pub modify_index: Index,
    /// How often it was acquired. It is a part of its sequencer.
    pub lock_index: u64,
    /// Its flags.
    pub flags: u64,
    /// Why it is asked to leave, if it is.
    pub(crate) eviction: Option<Arc<str>>,
    /// The beginning of its value, for people.
    pub(crate) value: Option<Arc<str>>,
}

impl Contender {
    /// Reads a session's contender key.
    pub(crate) fn new(session: SessionId, entry: &Entry<'_>) -> Self {
        Self {
            session,
            create_index: entry.create_index(),
            modify_index: entry.modify_index(),
            lock_index: entry.lock_index(),
            flags: entry.flags(),
            eviction: ContenderFlags::ask_to_go(entry.flags()).then(|| reason(entry)),
            value: entry
                .beginning(MOST_READ)
                .ok()
                .and_then(|it| shown_value(&it))
                .map(Arc::from),
        }
    }
}

/// A key's value as the reason of an eviction, in one line.
fn reason(entry: &Entry<'_>) -> Arc<str> {
    let value = entry.value().unwrap_or_default();
    line(String::from_utf8_lossy(&value)).into()
}

/// The key `<prefix>/<session>` in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Key<'a> {
    /// It is tied to that session.
    Tied(&'a Contender),
    /// It is tied to no session. The index is for a deletion by check-and-set.
    Free(Index),
    /// It is tied to another session.
    Taken,
    /// It does not exist.
    Absent,
}

impl View {
    /// Reads a list of a prefix. Keys deeper than one segment belong to other semaphores.
    pub fn new(prefix: &Prefix, list: &KeyList<'_>) -> Self {
        let mut view = Self {
            index: list.index,
            version: list.index,
            filtered: list.filtered,
            contenders: Vec::with_capacity(list.entries.len()),
            ..Self::empty()
        };
        for entry in &list.entries {
            view.version = view.version.max(entry.modify_index());
            match prefix.child_name(entry.key()) {
                Some(LOCK_NAME) => view.lock = Some(Lock::new(entry)),
                Some(name) => view.add(name, entry),
                None => {}
            }
        }
        view.line_up();
        view
    }

    /// The prefix as read by a transaction that also wrote below it, at `index`.
    pub(crate) fn of_tree(
        prefix: &Prefix,
        index: Index,
        entries: Vec<Entry<'_>>,
        filtered: bool,
    ) -> Self {
        let list = KeyList {
            index,
            filtered,
            entries,
        };
        Self::new(prefix, &list)
    }

    fn empty() -> Self {
        Self {
            index: Index::ZERO,
            version: Index::ZERO,
            filtered: false,
            lock: None,
            contenders: Vec::new(),
            places: Vec::new(),
            waiting: Vec::new(),
            keyless: Vec::new(),
            renamed: 0,
            strangers: BTreeSet::new(),
            free: BTreeMap::new(),
            taken: BTreeMap::new(),
        }
    }

    fn add(&mut self, name: &str, entry: &Entry<'_>) {
        let named = SessionId::read(name).filter(|named| named.is(name));
        match (named, entry.session()) {
            (Some(named), Some(session)) if session == name => {
                self.contenders.push(Contender::new(named, entry));
            }
            (named, Some(session)) => {
                // A session that any key is tied to exists, whatever the key's name is.
                self.strangers.insert(session.to_ascii_lowercase());
                self.taken
                    .extend(named.map(|named| (named, entry.modify_index())));
            }
            (Some(named), None) => {
                self.free.entry(named).or_insert(entry.modify_index());
            }
            (None, None) => {}
        }
    }

    /// Sorts the contenders from the order of the list into that of the queue, and notes their
    /// places.
    fn line_up(&mut self) {
        work::passed(self.contenders.len());
        // An agent already lists them by session.
        self.contenders.sort_by(|a, b| {
            let create = a.create_index.cmp(&b.create_index);
            a.session.cmp(&b.session).then(create)
        });
        let created = self.contenders.iter().map(|it| it.create_index).zip(0..);
        let mut queue: Vec<(Index, usize)> = created.collect();
        queue.sort_unstable();
        self.places = vec![0; queue.len()];
        for (place, (_, at)) in queue.iter().enumerate() {
            self.places[*at] = place;
        }
        let in_line = queue.iter().map(|(_, at)| self.contenders[*at].clone());
        self.contenders = in_line.collect();
        self.compare_with_record();
    }

    /// Notes who waits, and whose key is missing. Nearly every event asks for that, and it changes
    /// only with the keys or the record.
    fn compare_with_record(&mut self) {
        work::passed(self.contenders.len());
        let mut waits = vec![true; self.contenders.len()];
        let mut keyless = Vec::new();
        let mut renamed = 0;
        // Both are in the order of sessions, so one walk along both is enough.
        let mut places = self.places.iter().copied().peekable();
        let session = |place: usize| self.contenders[place].session.as_bytes();
        for (at, holder) in self.record().into_iter().flat_map(Record::in_order) {
            let bytes = holder.as_bytes();
            while places.next_if(|place| session(*place) < bytes).is_some() {}
            // A holder may be listed twice, so its first key stays for the next one.
            let mut found = places.clone();
            let mut is_there = false;
            while let Some(place) = found.next_if(|place| session(*place) == bytes) {
                waits[place] = false;
                is_there = true;
            }
            if is_there {
                continue;
            }
            if self.is_alive(holder) {
                renamed += 1;
            } else {
                keyless.push((at, holder.to_owned()));
            }
        }
        keyless.sort_unstable();
        self.keyless = keyless.into_iter().map(|(_, holder)| holder).collect();
        self.renamed = renamed;
        let waiting = waits.iter().zip(0..).filter(|(waits, _)| **waits);
        self.waiting = waiting.map(|(_, at)| at).collect();
    }

    fn contender(&self, session: &str) -> Option<&Contender> {
        let place = *self.places.get(self.rank_of(session))?;
        let found = &self.contenders[place];
        (found.session.as_bytes() == session.as_bytes()).then_some(found)
    }

    /// The place of this session in the order of sessions, or where it would be.
    fn rank_of(&self, session: &str) -> usize {
        let of = |place: &usize| self.contenders[*place].session.as_bytes();
        self.places
            .partition_point(|place| of(place) < session.as_bytes())
    }

    /// `X-Consul-Index` of the read.
    pub fn index(&self) -> Index {
        self.index
    }

    /// How new its content is: the index of the read, or a higher index in its content. An agent's
    /// index is never too low, but a gateway may mix headers up. With an index that is too low,
    /// every older view would pass for a newer one.
    pub(crate) fn version(&self) -> Index {
        self.version
    }

    /// Whether the server says that it left keys out. Then nobody may be pruned (S3).
    pub fn is_filtered(&self) -> bool {
        self.filtered
    }

    /// The record's key, if it exists.
    pub fn lock(&self) -> Option<&Lock> {
        self.lock.as_ref()
    }

    /// The record, if there is one and it is understood.
    pub fn record(&self) -> Option<&Record> {
        self.lock.as_ref()?.record.as_ref().ok()
    }

    /// `ModifyIndex` of the record's key, or zero if it does not exist. A check-and-set uses it.
    pub fn record_index(&self) -> Index {
        self.lock
            .as_ref()
            .map_or(Index::ZERO, |lock| lock.modify_index)
    }

    /// All whose contender key is tied to their session, holders and waiters, in the order in which
    /// they came.
    pub fn contenders(&self) -> &[Contender] {
        &self.contenders
    }

    /// The state of this session's contender key.
    pub fn key(&self, session: &SessionId) -> Key<'_> {
        if let Some(contender) = self.contender(session.as_str()) {
            Key::Tied(contender)
        } else if let Some(index) = self.free.get(session) {
            Key::Free(*index)
        } else if self.taken.contains_key(session) {
            Key::Taken
        } else {
            Key::Absent
        }
    }

    /// The index of this session's contender key, if it is tied to another session.
    pub(crate) fn taken_at(&self, session: &str) -> Option<Index> {
        self.taken.get(&SessionId::read(session)?).copied()
    }

    /// Whether this session is known to be alive. Consul's sessions are case-insensitive.
    pub fn is_alive(&self, session: &str) -> bool {
        let contends = |session: &str| self.contender(session).is_some();
        // Nearly all are written in Consul's case.
        contends(session)
            || SessionId::read(session).is_some_and(|session| contends(session.as_str()))
            || !self.strangers.is_empty() && self.strangers.contains(&session.to_ascii_lowercase())
    }

    /// The live contenders without a slot, in the order in which they came.
    pub fn waiters(&self) -> impl Iterator<Item = &Contender> {
        let waiting = self.waiting.iter().inspect(|_| work::passed(1));
        waiting.map(|at| &self.contenders[*at])
    }

    /// The holders that no key shows to be alive, in the order of the record.
    pub(crate) fn keyless(&self) -> impl Iterator<Item = &str> {
        self.keyless.iter().map(String::as_str)
    }
}

impl Lock {
    pub(crate) fn new(entry: &Entry<'_>) -> Self {
        let record = match entry.value() {
            Ok(value) => Record::decode(&value, entry.flags()),
            Err(error) => Err(Conflict::Record {
                reason: error.to_string(),
            }),
        };
        Self {
            modify_index: entry.modify_index(),
            record,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ListKeys;
    use crate::http::Response;

    pub(super) const A: &str = "aaaaaaaa-0000-0000-0000-000000000000";
    pub(super) const B: &str = "bbbbbbbb-0000-0000-0000-000000000000";
    pub(super) const C: &str = "cccccccc-0000-0000-0000-000000000000";

    pub(super) fn view(entries: &[String]) -> View {
        let body = format!("[{}]", entries.join(","));
        let response = Response::new(200, body).with_header("X-Consul-Index", "100");
        let list = ListKeys::parse(&response).unwrap();
        View::new(&Prefix::new("jobs").unwrap(), &list)
    }

    pub(super) fn key(key: &str, session: &str, create: u64) -> String {
        format!(
            r#"{{"Key":"{key}","Session":"{session}","CreateIndex":{create},"ModifyIndex":{create},"LockIndex":1,"Value":null}}"#
        )
    }

    pub(super) fn lock(record: &str) -> String {
        use base64::Engine as _;
        let value = base64::engine::general_purpose::STANDARD.encode(record);
        format!(r#"{{"Key":"jobs/.lock","Flags":0,"Value":"{value}","ModifyIndex":50}}"#)
    }

    #[test]
    fn contenders_queue_by_the_index_of_their_creation() {
        let view = view(&[
            key(&format!("jobs/{A}"), A, 30),
            key(&format!("jobs/{B}"), B, 10),
            key(&format!("jobs/{C}"), C, 20),
            lock(&format!(r#"{{"Limit":1,"Holders":["{C}"]}}"#)),
        ]);
        let waiters: Vec<_> = view.waiters().map(|c| c.session.as_str()).collect();
        assert_eq!(waiters, [B, A]);
        let contenders: Vec<_> = view.contenders().iter().map(|c| c.create_index).collect();
        assert_eq!(contenders, [Index(10), Index(20), Index(30)]);
        assert_eq!(view.index(), Index(100));
        assert_eq!(view.record_index(), Index(50));
    }

    /// A list shows the values of all contenders, each of up to 320 KiB. Only the beginning of each
    /// is read: here the rest is not even base64.
    #[test]
    fn the_name_of_a_contender_is_read_from_the_beginning_of_its_value() {
        use base64::Engine as _;
        let encode = |value: &str| base64::engine::general_purpose::STANDARD.encode(value);
        let named = |encoded: &str| {
            let entry = key(&format!("jobs/{A}"), A, 1);
            let value = format!(r#""Value":"{encoded}""#);
            let view = view(&[entry.replace(r#""Value":null"#, &value)]);
            view.contenders()[0].value.as_deref().map(str::to_owned)
        };
        let long = "é".repeat(100_000);
        let shown = format!("{}…", "é".repeat(200));
        assert_eq!(named(&encode(&long)).as_deref(), Some(shown.as_str()));
        let broken = encode(&long) + "!";
        assert_eq!(named(&broken).as_deref(), Some(shown.as_str()));
        let spaced = format!(" backup-1{}", " ".repeat(100_000));
        assert_eq!(named(&encode(&spaced)).as_deref(), Some("backup-1"));
        assert_eq!(named(&encode("backup-1")).as_deref(), Some("backup-1"));
        assert_eq!(named("!").as_deref(), None);
        assert_eq!(named("").as_deref(), None);
        // JSON may also write a character of base64 like this.
        assert_eq!(named(r"\u0059Q==").as_deref(), Some("a"));
    }

    #[test]
    fn a_view_is_as_new_as_the_newest_that_it_shows() {
        let keys = [30, 120].map(|at| vec![key(&format!("jobs/{A}"), A, at)]);
        let versions = keys.map(|keys| view(&keys).version());
        assert_eq!(versions, [Index(100), Index(120)]);
        assert_eq!(view(&[]).version(), Index(100));
    }

    #[test]
    fn keys_of_other_prefixes_keep_nobody_alive() {
        let view = view(&[
            key(&format!("jobs/nested/{A}"), A, 1),
            key(&format!("jobs-2/{B}"), B, 2),
            key("jobs/", C, 3),
        ]);
        for session in [A, B, C] {
            assert!(!view.is_alive(session));
        }
        assert!(view.contenders().is_empty());
    }

    #[test]
    fn a_key_of_another_name_keeps_its_session_alive_but_does_not_queue() {
        let view = view(&[key("jobs/node-1", A, 1)]);
        assert!(view.is_alive(A));
        assert!(view.contenders().is_empty());
    }

    #[test]
    fn a_key_that_is_tied_to_no_session_is_nobodys_contender() {
        let view = view(&[
            key(&format!("jobs/{A}"), "", 1),
            key(&format!("jobs/{B}"), C, 2),
            key("jobs/config", "", 3),
        ]);
        assert!(view.contenders().is_empty());
        let key = |session| view.key(&SessionId::new(session).unwrap());
        assert_eq!(key(A), Key::Free(Index(1)));
        assert_eq!(key(B), Key::Taken);
        assert!(!view.is_alive(A));
        assert!(!view.is_alive(B));
        assert!(view.is_alive(C));
    }

    #[test]
    fn a_key_in_another_case_is_nobodys() {
        let upper = format!("jobs/{}", A.to_ascii_uppercase());
        for session in ["", B] {
            let view = view(&[key(&upper, session, 1)]);
            assert_eq!(view.key(&SessionId::new(A).unwrap()), Key::Absent);
        }
    }

    #[test]
    fn a_key_is_found_in_whatever_order_the_list_is() {
        let keys = [
            key(&format!("jobs/{C}"), C, 20),
            key(&format!("jobs/{A}"), "", 30),
            key(&format!("jobs/{B}"), B, 40),
        ];
        for turns in 0..keys.len() {
            let mut keys = keys.clone();
            keys.rotate_left(turns);
            let view = view(&keys);
            let create_index = |session| match view.key(&SessionId::new(session).unwrap()) {
                Key::Tied(contender) => Some(contender.create_index),
                _ => None,
            };
            assert_eq!(create_index(B), Some(Index(40)));
            assert_eq!(create_index(C), Some(Index(20)));
            let free = view.key(&SessionId::new(A).unwrap());
            assert_eq!(free, Key::Free(Index(30)));
            let queue: Vec<_> = view
                .contenders()
                .iter()
                .map(|c| c.session.as_str())
                .collect();
            assert_eq!(queue, [C, B]);
        }
    }

    #[test]
    fn of_a_key_that_is_listed_twice_the_one_that_queues_first_counts() {
        let twice = [10, 5].map(|at| key(&format!("jobs/{A}"), A, at));
        let other = key(&format!("jobs/{B}"), B, 7);
        let view = view(&[twice[0].clone(), other, twice[1].clone()]);
        let Key::Tied(found) = view.key(&SessionId::new(A).unwrap()) else {
            unreachable!("it is listed");
        };
        assert_eq!(found.create_index, Index(5));
        let queue: Vec<_> = view.contenders().iter().map(|c| c.create_index).collect();
        assert_eq!(queue, [Index(5), Index(7), Index(10)]);
    }

    #[test]
    fn a_session_is_alive_in_either_case() {
        let upper = C.to_ascii_uppercase();
        let view = view(&[
            key(&format!("jobs/{A}"), A, 1),
            key("jobs/other", &upper, 2),
        ]);
        for session in [A, C, &A.to_ascii_uppercase(), &upper] {
            assert!(view.is_alive(session), "{session}");
        }
        for session in [B, "", "other"] {
            assert!(!view.is_alive(session), "{session}");
        }
    }

    #[test]
    fn a_record_that_is_not_understood_is_told_apart_from_none() {
        assert!(view(&[]).lock().is_none());
        let view = view(&[lock("garbage")]);
        assert!(view.lock().is_some_and(|lock| lock.record.is_err()));
        assert!(view.record().is_none());
    }

    #[test]
    fn what_a_transaction_read_is_a_view_at_its_index() {
        let body = [
            key(&format!("jobs/{B}"), B, 40),
            key(&format!("jobs/{A}"), A, 30),
        ];
        let response =
            Response::new(200, format!("[{}]", body.join(","))).with_header("X-Consul-Index", "1");
        let entries = ListKeys::parse(&response).unwrap().entries;
        let prefix = Prefix::new("jobs").unwrap();
        assert!(View::of_tree(&prefix, Index(35), Vec::new(), true).is_filtered());
        let view = View::of_tree(&prefix, Index(35), entries, false);
        assert_eq!(view.index(), Index(35));
        assert_eq!(view.version(), Index(40));
        assert!(!view.is_filtered());
        let contenders = view.contenders().iter().map(|it| it.session.as_str());
        assert_eq!(contenders.collect::<Vec<_>>(), [A, B]);
        assert!(view.lock().is_none());
    }
}
