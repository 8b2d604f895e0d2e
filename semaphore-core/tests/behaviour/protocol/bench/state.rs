//! What happens in Consul, what is in it, and what callers were told.

use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::api::SEMAPHORE_FLAGS;
use semaphore_core::sans_io::{Event, Grant, Method, Record, Request, Response};
use semaphore_core::{FencingToken, Prefix};

use super::{Call, OTHER, Party, Scene};
use crate::support::steps::Is;
use crate::support::*;

impl Scene {
    /// One of its sessions is ended early.
    pub(crate) fn end_session(&mut self, who: usize, at: usize) {
        let session = self.living(who)[at].clone();
        self.note(who, "", "its session is ended");
        self.consul.destroy_session(self.now, &session);
    }

    /// A key of it is deleted by hand.
    pub(crate) fn delete_key(&mut self, who: usize, at: usize) {
        let key = self.keys_of(who)[at].clone();
        self.note(who, "", "its key is deleted by hand");
        let target = format!("/v1/kv/{key}");
        self.ask(Method::Delete, &target, "");
    }

    /// The record is rewritten without it.
    pub(crate) fn remove_from_record(&mut self, who: usize) {
        let mut record = self.record().expect("a record");
        let sessions = self.parties[who].sessions.iter();
        let names: Vec<&String> = sessions.collect();
        record.retain(|name| !names.iter().any(|it| *it == name));
        self.note(who, "", "its name is removed by hand");
        let body = String::from_utf8(record.encode()).expect("JSON");
        self.write_record(&body);
    }

    /// Another program names this session in the record.
    pub(crate) fn adds_to_record(&mut self, session: &str) {
        let mut record = self.record().expect("a record");
        record.add(session);
        self.write_record(&String::from_utf8(record.encode()).expect("JSON"));
    }

    /// Another program writes the record.
    pub(crate) fn write_record(&mut self, record: &str) {
        let key = prefix().record_key();
        let target = format!("/v1/kv/{key}?flags={SEMAPHORE_FLAGS}");
        self.ask(Method::Put, &target, record);
    }

    /// Somebody's key with these flags, who never acts. Returns its session.
    pub(crate) fn somebody_enters(&mut self, flags: u64) -> String {
        let created = self.ask(Method::Put, "/v1/session/create", r#"{"NodeChecks":[]}"#);
        let created: serde_json::Value = serde_json::from_slice(created.body()).expect("JSON");
        let session = created["ID"].as_str().expect("an id").to_owned();
        let key = format!("/v1/kv/{}{session}", prefix().directory());
        let target = format!("{key}?acquire={session}&flags={flags}");
        self.ask(Method::Put, &target, "");
        session
    }

    /// Another leader takes over, who knows nothing of lock delays.
    pub(crate) fn forgets_lock_delays(&mut self) {
        let now = self.now;
        let all = self.consul.snapshot();
        self.consul.restore(now, &all);
    }

    /// Sends a request as another program does.
    pub(crate) fn ask(&mut self, method: Method, target: &str, body: &str) -> Response {
        self.note(OTHER, "->", &format!("{method} {target} {body}"));
        let request = Request::new(method, target).with_body(body);
        let asked = self.consul.submit(self.now, &request);
        let mut found = None;
        while let Some((exchange, answer)) = self.consul.poll_answer() {
            if exchange == asked {
                found = Some(answer);
            } else {
                self.sort(exchange, answer);
            }
        }
        found.expect("an answer at once")
    }

    pub(crate) fn holds(&self, call: Call) -> bool {
        let participant = &self.parties[call.who].participant;
        participant.is_held(self.now, call.command)
    }

    pub(crate) fn was_granted(&self, call: Call) -> bool {
        self.token(call).is_some()
    }

    /// The lowest fencing token of a grant.
    pub(crate) fn token(&self, call: Call) -> Option<FencingToken> {
        self.events(call).find_map(|event| match event {
            Event::Granted { grant, .. } => Some(grant.token),
            _ => None,
        })
    }

    /// Whether the caller was told that its grant is lost.
    pub(crate) fn was_lost(&self, call: Call) -> bool {
        self.events(call).any(|it| matches!(it, Event::Lost { .. }))
    }

    pub(crate) fn was_released(&self, call: Call) -> bool {
        self.events(call)
            .any(|it| matches!(it, Event::Done { result: Ok(()), .. }))
    }

    /// Whose names the record has, in the order of their numbers.
    pub(crate) fn names(&self) -> Vec<usize> {
        let record = self.record();
        let names = record.iter().flat_map(Record::holders);
        let mut names: Vec<usize> = names.map(|name| self.owner(name)).collect();
        names.sort_unstable();
        names
    }

    /// Whose contender keys there are, in the order of their entries.
    pub(crate) fn keys(&self) -> Vec<usize> {
        let mut keys = self.contender_keys();
        keys.sort();
        keys.into_iter()
            .map(|(_, session)| self.owner(&session))
            .collect()
    }

    /// How many sessions of it live.
    pub(crate) fn sessions(&self, who: usize) -> usize {
        self.living(who).len()
    }

    /// How many sessions it has ever created.
    pub(crate) fn sessions_created(&self, who: usize) -> usize {
        self.parties[who].sessions.len()
    }

    /// How many requests like this it has sent.
    pub(crate) fn sent(&self, who: usize, is: Is) -> usize {
        self.parties[who].sent.iter().filter(|it| is(it)).count()
    }

    /// How many of its writes were refused.
    pub(crate) fn refusals(&self, who: usize) -> usize {
        self.parties[who].refusals
    }

    /// Neither name nor key of it is left now, and soon no session.
    #[track_caller]
    pub(crate) fn assert_gone(&mut self, who: usize) {
        assert!(!self.names().contains(&who), "{:?}", self.names());
        assert!(!self.keys().contains(&who), "{:?}", self.keys());
        self.pass(KEPT);
        assert_eq!(self.sessions(who), 0, "sessions");
        assert!(self.parties[who].participant.is_idle());
    }

    fn record(&self) -> Option<Record> {
        let entry = self.consul.entry(&prefix().record_key())?;
        Record::decode(entry.value(), entry.flags()).ok()
    }

    /// The contender keys: when each was created, and its session.
    fn contender_keys(&self) -> Vec<(u64, String)> {
        let directory = prefix().directory();
        let entries = self.consul.entries(&directory);
        let keys = entries.filter(|entry| entry.key() != prefix().record_key());
        let name = |key: &str| key.trim_start_matches(&directory).to_owned();
        keys.map(|entry| (entry.create_index(), name(&entry.key())))
            .collect()
    }

    fn keys_of(&self, who: usize) -> Vec<String> {
        let mut keys = self.contender_keys();
        keys.retain(|(_, session)| self.owner(session) == who);
        keys.sort();
        let key = |(_, session)| format!("{}{session}", prefix().directory());
        keys.into_iter().map(key).collect()
    }

    /// Its living sessions, in the order of their creation.
    fn living(&self, who: usize) -> Vec<String> {
        let lives = |it: &&String| {
            self.consul
                .sessions()
                .any(|session| session.id() == it.as_str())
        };
        self.parties[who]
            .sessions
            .iter()
            .filter(lives)
            .cloned()
            .collect()
    }

    fn owner(&self, session: &str) -> usize {
        let has = |party: &Party| party.sessions.iter().any(|it| it == session);
        self.parties.iter().position(has).unwrap_or(OTHER)
    }

    fn events(&self, call: Call) -> impl Iterator<Item = &Event<Grant>> {
        let events = self.parties[call.who].events.iter();
        events.filter(move |event| event.command() == call.command)
    }
}

fn prefix() -> Prefix {
    Prefix::new(PREFIX).expect("a prefix")
}
