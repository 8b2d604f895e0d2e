//! Consul, and what the checks ask about it.

use std::fmt::Write as _;

use judge::Record;
use semaphore_core::sans_io::api::{LOCK_FLAGS, SEMAPHORE_FLAGS};
use semaphore_core::sans_io::{Instant, Method, Request};
use transport_mock::consul::{Consul, Entry};

use super::client::NEIGHBOURS;
use super::turns::Waiter;
use crate::canon::{self, Token, tokens};
use crate::scene::{Contest, Furniture, Scene};

/// The prefix of the scene.
pub(crate) const PREFIX: &str = "p";
/// The key of the record.
pub(crate) const LOCK: &str = "p/.lock";
/// The key of the election.
pub(crate) const LEADER: &str = "p/leader";

#[derive(Clone)]
pub(crate) struct Agent {
    pub(crate) consul: Consul,
    contest: Contest,
    /// The session of a stranger, which is no actor of the scene.
    stranger: Option<String>,
    holders: Vec<String>,
    tokens: Vec<Token>,
    delays: Vec<(String, Vec<Token>)>,
}

impl Agent {
    pub(crate) fn new(now: Instant, scene: &Scene) -> Self {
        let key = scene.contest.key();
        let mut agent = Self {
            consul: Consul::without_chance(),
            contest: scene.contest,
            stranger: None,
            holders: Vec::new(),
            tokens: Vec::new(),
            delays: Vec::new(),
        };
        let put = |target: String, body: &str| Request::new(Method::Put, target).with_body(body);
        match scene.furniture {
            Furniture::Nothing => {}
            Furniture::Garbage => {
                let garbage = put(format!("/v1/kv/{key}"), "garbage");
                agent.consul.submit(now, &garbage);
            }
            Furniture::Stranger => {
                let creation = put("/v1/session/create".into(), r#"{"NodeChecks":[]}"#);
                agent.consul.submit(now, &creation);
                let stranger = agent.sessions().next();
                if let Some(id) = &stranger {
                    let target = match scene.contest {
                        Contest::Semaphore => format!("/v1/kv/{PREFIX}/{id}?acquire={id}"),
                        Contest::Election => {
                            format!("/v1/kv/{key}?acquire={id}&flags={LOCK_FLAGS}")
                        }
                    };
                    agent.consul.submit(now, &put(target, ""));
                }
                agent.stranger = stranger;
            }
        }
        while agent.consul.poll_answer().is_some() {}
        agent.refresh();
        agent
    }

    pub(crate) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The lock delays that matter: those of an election's key, and of holders. Nobody else's name
    /// is removed, and no later write names an ended session. `is_asked`: whether a request under
    /// way prunes the holder with this key.
    pub(crate) fn delays(&self, is_asked: impl Fn(&str) -> bool) -> impl Iterator<Item = &[Token]> {
        let matters = move |key: &str| {
            let session = key.strip_prefix(PREFIX).and_then(|it| it.strip_prefix('/'));
            let is_holders = session.is_some_and(|it| self.holders.iter().any(|held| held == it));
            self.contest == Contest::Election || is_holders || is_asked(key)
        };
        let delays = self.delays.iter().filter(move |(key, _)| matters(key));
        delays.map(|(_, tokens)| tokens.as_slice())
    }

    /// The entry that says who holds.
    pub(crate) fn subject(&self) -> Option<&Entry> {
        self.consul.entry(self.contest.key())
    }

    /// The value of the election's key.
    pub(crate) fn says(&self) -> Option<String> {
        let is_elections = self.contest == Contest::Election;
        let key = self.subject().filter(|_| is_elections)?;
        Some(String::from_utf8_lossy(key.value()).into_owned())
    }

    /// Whether the stranger leads and may resign.
    pub(crate) fn may_resign(&self) -> bool {
        let leads = |id: &String| self.holders.contains(id);
        self.contest == Contest::Election && self.stranger.as_ref().is_some_and(leads)
    }

    /// The stranger releases the key as Go's `api.Lock` does, and its session ends.
    pub(crate) fn resign(&mut self, now: Instant) {
        if let Some(id) = self.stranger.take() {
            let target = format!(
                "/v1/kv/{}?release={id}&flags={LOCK_FLAGS}",
                self.contest.key()
            );
            self.consul.submit(now, &Request::new(Method::Put, target));
            self.consul.destroy_session(now, &id);
        }
    }

    /// The live sessions in the order of their creation, without the stranger's.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = String> + '_ {
        self.consul
            .sessions()
            .map(|session| session.id().to_owned())
            .filter(|id| self.stranger.as_ref() != Some(id))
    }

    pub(crate) fn is_alive(&self, session: &str) -> bool {
        self.consul.sessions().any(|it| it.id() == session)
    }

    /// Whether the session lives and holds its contender key, or the election's key.
    pub(crate) fn is_tied(&self, session: &str) -> bool {
        let key = match self.contest {
            Contest::Semaphore => self.consul.entry(&format!("{PREFIX}/{session}")),
            Contest::Election => self.subject(),
        };
        self.is_alive(session) && key.and_then(Entry::session) == Some(session)
    }

    /// Whether the TTL of a session has passed. From then on Consul may end it, and at twice the
    /// TTL it does.
    pub(crate) fn is_overdue(&self, now: Instant, session: &str) -> bool {
        let ttl = self
            .consul
            .sessions()
            .find(|it| it.id() == session)
            .and_then(transport_mock::consul::Session::ttl);
        self.consul
            .expiry(session)
            .zip(ttl)
            .is_some_and(|(expiry, ttl)| expiry <= now + ttl)
    }

    /// Adds a session and its end to the tokens.
    pub(crate) fn show_session(&self, session: &str, tokens: &mut Vec<Token>) {
        tokens.push(canon::session(session));
        tokens.extend(self.consul.expiry(session).map(canon::timer));
    }

    /// The holders that the record names.
    pub(crate) fn holders(&self) -> &[String] {
        &self.holders
    }

    /// The live contenders that wait, in the order in which they came.
    pub(super) fn waiters(&self) -> Vec<Waiter> {
        let waiter = |entry: &Entry| {
            let session = entry.session()?.to_owned();
            let is_parked = (entry.flags() ^ SEMAPHORE_FLAGS) & 3 == 1;
            let waits = entry.key() != LOCK && !is_parked && !self.holders.contains(&session);
            waits.then_some((session, entry.create_index()))
        };
        let mut waiters: Vec<_> = self.consul.entries(PREFIX).filter_map(waiter).collect();
        waiters.sort_by_key(|(_, came)| *came);
        waiters
    }

    /// All contenders in the order in which they came.
    pub(crate) fn line(&self) -> Vec<Token> {
        let came = |entry: &Entry| Some((entry.create_index(), canon::session(entry.session()?)));
        let mut line: Vec<_> = self.consul.entries(PREFIX).filter_map(came).collect();
        line.sort_by_key(|(created, _)| *created);
        line.into_iter().map(|(_, session)| session).collect()
    }

    /// The index of the creation of a session's contender key.
    pub(super) fn came(&self, session: &str) -> Option<u64> {
        let key = self.consul.entry(&format!("{PREFIX}/{session}"))?;
        Some(key.create_index())
    }

    /// The index at which a session's contender key was last written.
    pub(super) fn touched(&self, session: &str) -> Option<u64> {
        let key = self.consul.entry(&format!("{PREFIX}/{session}"))?;
        Some(key.modify_index())
    }

    /// The index of the prefix.
    pub(super) fn newest(&self) -> u64 {
        self.consul.prefix_index(PREFIX)
    }

    /// How many may hold, or `None` if there is no record.
    pub(crate) fn limit(&self) -> Option<u32> {
        self.contest.limit(self.subject()?)
    }

    /// Whether the record or the key of a neighbour names this session.
    pub(super) fn names_elsewhere(&self, at: usize, session: &str) -> bool {
        let key = self.consul.entry(&format!("{NEIGHBOURS}{at}"));
        let record = self.consul.entry(&format!("{NEIGHBOURS}{at}/.lock"));
        let record = record.and_then(|it| Record::read(it.value(), it.flags()));
        key.and_then(Entry::session) == Some(session)
            || record.is_some_and(|record| record.holds(session))
    }

    /// Whether nothing of any participant is left. If one could not leave in order, the record may
    /// name its dead session until somebody else wants the slot.
    pub(crate) fn is_clean(&self, may_name_dead: bool) -> bool {
        let is_strangers = |entry: &Entry| entry.session() == self.stranger.as_deref();
        self.sessions().next().is_none()
            && (may_name_dead || self.holders().is_empty())
            && self
                .consul
                .entries(NEIGHBOURS)
                .all(|entry| entry.session().is_none())
            && self
                .consul
                .entries(PREFIX)
                .all(|entry| entry.key() == self.contest.key() || is_strangers(entry))
    }

    /// Must be called after every change.
    pub(crate) fn refresh(&mut self) {
        let holders = self.subject().and_then(|it| self.contest.holders(it));
        self.holders = holders.unwrap_or_default();
    }

    /// Must be called at the end of a step. Shows everything that decides Consul's later answers,
    /// except for the sessions, which are shown with their owners. A deletion is shown by the index
    /// that it leaves behind. No run lasts until Consul forgets that. Keys of neighbours have no
    /// effect on the contenders.
    pub(crate) fn show(&mut self) {
        let mut text = String::new();
        let mut entries: Vec<_> = self.consul.entries(PREFIX).collect();
        // First the record, then the keys in the order of the queue. The order of their names has
        // no meaning.
        entries.sort_by_key(|entry| (entry.key() != LOCK, entry.create_index()));
        for entry in entries {
            let value = String::from_utf8_lossy(entry.value());
            let _ = write!(
                text,
                "{} {value} {} {:?} ",
                entry.key(),
                flags(self.contest, entry),
                entry.session(),
            );
            if self.contest == Contest::Election {
                let _ = write!(text, "lock_index: {} ", entry.lock_index());
            }
            let modified = entry.modify_index();
            let created = entry.create_index();
            let _ = if entry.key() == LOCK {
                write!(text, "base: Index({modified});")
            } else {
                write!(
                    text,
                    "create_index: Index({created}) modify_index: Index({modified});"
                )
            };
        }
        let index = self.consul.prefix_index(PREFIX);
        let _ = write!(text, "index={index};");
        if self.contest == Contest::Election {
            // For polls of one key, this index is compared with that of the entry.
            let _ = write!(text, "modify_index: Index({index});");
        }
        self.tokens = tokens(&text);
        let delays = self.consul.lock_delays();
        let delays = delays.filter(|(key, _)| key.starts_with(PREFIX.as_bytes()));
        let delays = delays.map(|(key, until)| {
            let key = String::from_utf8_lossy(key).into_owned();
            let tokens = tokens(&format!("{key} until: {until:?}"));
            (key, tokens)
        });
        self.delays = delays.collect();
    }
}

/// How often a contender key was touched has no effect.
fn flags(contest: Contest, entry: &Entry) -> u64 {
    match contest {
        Contest::Semaphore => canon::untouched(entry.flags()),
        Contest::Election => entry.flags(),
    }
}
