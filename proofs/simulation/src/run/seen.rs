//! Consul's state after the last step, and the changes since then.

use std::collections::{BTreeMap, BTreeSet};

use semaphore_core::Prefix;
use semaphore_core::sans_io::{Instant, Request};
use transport_mock::consul::{Consul, Entry};
use transport_mock::{Delivered, RequestKind};

use super::state::State;
use super::stranger::literal::SEMAPHORE_FLAGS;
use super::transaction::Transaction;
use super::turns::{Holders, Turns};
use crate::history::{Change, Ending, Happening, Removed, Waiting, Who};
use crate::plan::{HostPlan, Place, Plan, is_own, is_own_election};

pub(super) struct Seen {
    sites: BTreeMap<usize, Site>,
    /// The sites of hosts' own semaphores, by the beginning of their keys.
    own: BTreeMap<String, usize>,
    index: u64,
    owners: BTreeMap<String, Who>,
    /// The prefixes at which our hosts use sessions.
    places: BTreeMap<Who, Vec<usize>>,
    alive: BTreeSet<String>,
    /// Sessions that exist again after they had ended.
    returned: BTreeSet<String>,
    turns: Turns,
    /// When each index was first seen, in order.
    times: Vec<(u64, Instant)>,
}

/// A prefix, and its state after the last step.
struct Site {
    prefix: Prefix,
    place: Place,
    index: u64,
    state: State,
    /// The indexes of the holders' keys.
    keys: BTreeMap<String, u64>,
}

impl Site {
    /// The holders whose contender keys were written since the last look.
    fn touched(&mut self, consul: &Consul) -> Vec<String> {
        if self.place.is_election() {
            return Vec::new();
        }
        let holders = self.state.holders();
        let keys = holders.iter().filter_map(|it| {
            let entry = consul.entry(&format!("{}/{it}", self.prefix))?;
            Some((it.clone(), entry.modify_index()))
        });
        let keys: BTreeMap<String, u64> = keys.collect();
        let before = std::mem::replace(&mut self.keys, keys);
        let is_touched = |it: &&String| before.get(*it).is_some_and(|at| self.keys[*it] > *at);
        self.keys.keys().filter(is_touched).cloned().collect()
    }
}

impl Seen {
    pub(super) fn new(prefixes: &[Prefix], plan: &Plan) -> Self {
        let site = |prefix: Prefix, place: Place| Site {
            prefix,
            place,
            index: 0,
            state: State::of(place, None),
            keys: BTreeMap::new(),
        };
        let sites = prefixes.iter().zip(&plan.prefixes).enumerate();
        let sites = sites.map(|(number, (prefix, place))| (number, site(prefix.clone(), *place)));
        let own = plan.own_prefixes().filter_map(|number| {
            let prefix = Prefix::new(Plan::prefix(number)).ok()?;
            Some((number, site(prefix, plan.place(number))))
        });
        let own: Vec<_> = own.collect();
        let names = own
            .iter()
            .map(|(number, it)| (it.prefix.record_key(), *number));
        Self {
            turns: Turns::new(plan),
            times: Vec::new(),
            index: 0,
            owners: BTreeMap::new(),
            places: plan.hosts.iter().map(places).collect(),
            alive: BTreeSet::new(),
            returned: BTreeSet::new(),
            own: names.collect(),
            sites: sites.chain(own).collect(),
        }
    }

    /// Consul's index after the last step.
    pub(super) fn index(&self) -> u64 {
        self.index
    }

    /// Whether anything may have changed.
    pub(super) fn is_behind(&self, consul: &Consul) -> bool {
        self.index != consul.last_index()
    }

    /// The changes by these writes and by time. Without writes, an operator made them.
    pub(super) fn compare(
        &mut self,
        consul: &Consul,
        now: Instant,
        writes: Option<&[Delivered]>,
    ) -> Vec<Happening> {
        self.index = consul.last_index();
        self.note_time(now);
        let mut changes = Vec::new();
        self.compare_sessions(consul, writes, &mut changes);
        for prefix in self.touched(writes) {
            self.compare_site(consul, writes, prefix, &mut changes);
        }
        changes
    }

    /// The sites that may have changed. Hosts have many separate semaphores, and these only
    /// change by writes of their keys.
    fn touched(&self, writes: Option<&[Delivered]>) -> Vec<usize> {
        let Some(writes) = writes.filter(|_| !self.own.is_empty()) else {
            return self.sites.keys().copied().collect();
        };
        let is_common = |it: &usize| !is_own(*it) || is_own_election(*it);
        let common = self.sites.keys().copied().filter(is_common);
        let written = writes.iter().flat_map(|it| written_keys(&it.request));
        let own: BTreeSet<_> = written
            .filter_map(|key| self.own.get(&key).copied())
            .collect();
        common
            .chain(own)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    fn compare_sessions(
        &mut self,
        consul: &Consul,
        writes: Option<&[Delivered]>,
        changes: &mut Vec<Happening>,
    ) {
        let count = consul.sessions().count();
        let is_same =
            count == self.alive.len() && consul.sessions().all(|it| self.alive.contains(it.id()));
        if is_same {
            return;
        }
        let alive: BTreeSet<_> = consul.sessions().map(|it| it.id().to_owned()).collect();
        for session in self.alive.difference(&alive) {
            let by = match writes {
                None => Ending::Destroyed(Who::Operator),
                Some(writes) => destroyer(writes, session).map_or(Ending::Ttl, Ending::Destroyed),
            };
            let session = session.clone();
            changes.push(Happening::SessionEnded { session, by });
        }
        let maker = writes.unwrap_or_default().iter().rev();
        let maker = maker
            .filter(|it| RequestKind::of(&it.request) == RequestKind::SessionCreate)
            .find_map(|it| who(&it.host))
            .unwrap_or(Who::Operator);
        self.returned.retain(|session| alive.contains(session));
        for session in alive.difference(&self.alive) {
            if self.owners.contains_key(session) {
                self.returned.insert(session.clone());
            }
            let owner = *self.owners.entry(session.clone()).or_insert(maker);
            let session = session.clone();
            changes.push(Happening::SessionBegan { session, owner });
        }
        self.alive = alive;
    }

    fn compare_site(
        &mut self,
        consul: &Consul,
        writes: Option<&[Delivered]>,
        number: usize,
        changes: &mut Vec<Happening>,
    ) {
        let Some(site) = self.sites.get_mut(&number) else {
            return;
        };
        let prefix = site.prefix.clone();
        let key = prefix.record_key();
        let touched = site.touched(consul);
        let last = writes.and_then(|writes| writes.last());
        let by = last.and_then(|it| who(&it.host)).unwrap_or(Who::Operator);
        if !touched.is_empty() && writes.is_some() {
            changes.push(Happening::Touched {
                prefix: number,
                by,
                sessions: touched,
            });
        }
        let entry = consul.entry(&key);
        let index = entry.map_or(0, transport_mock::consul::Entry::modify_index);
        if site.index == index && writes.is_some() {
            return;
        }
        let after = State::of(site.place, entry);
        let before = std::mem::replace(&mut site.state, after.clone());
        site.index = index;
        site.touched(consul);
        if last.is_none() && before == after {
            return;
        }
        let (had, has) = (before.holders(), after.holders());
        let removed: Vec<_> = had
            .difference(&has)
            .map(|session| Removed {
                is_alive: self.lives(consul, number, session),
                owner: self.owners.get(session).copied(),
                session: session.clone(),
            })
            .collect();
        let is_bound = |it: &Delivered| match after {
            State::Record(_) => is_check_and_set(&it.request, &key),
            State::Key(_) => goes_through_session(&it.request, &key),
        };
        let (passed, may_have_passed) = match (&after, last) {
            (State::Record(_), Some(write)) => {
                let since = |session: &str| {
                    let key = consul.entry(&format!("{prefix}/{session}"));
                    key.map(transport_mock::consul::Entry::create_index)
                };
                let own: BTreeSet<_> = has
                    .iter()
                    .filter(|it| self.owners.get(*it) == Some(&by))
                    .cloned()
                    .collect();
                let holders = Holders {
                    had: &had,
                    has: &has,
                    own: &own,
                };
                let possibly = self.turns.may_have_passed(by, &write.request, &holders);
                let anew = self
                    .turns
                    .admitted_anew(number, by, &write.request, &holders, since);
                (anew, possibly)
            }
            _ => (Vec::new(), Vec::new()),
        };
        let added: Vec<_> = has.difference(&had).cloned().collect();
        let (ahead, waiting) = match &after {
            State::Record(_) if !added.is_empty() => {
                self.waiting(consul, &prefix, by, &added, &has)
            }
            _ => (Vec::new(), 0),
        };
        changes.push(Happening::Changed(Change {
            prefix: number,
            by,
            ahead,
            waiting,
            sent_at: last.map(|it| it.sent_at),
            is_bound: last.is_some_and(is_bound),
            removed,
            passed,
            may_have_passed,
            added,
            of: before.into_change(after),
        }));
    }

    /// Remembers when this index was first seen. After a snapshot, indexes begin again.
    fn note_time(&mut self, now: Instant) {
        if self
            .times
            .last()
            .is_some_and(|(last, _)| *last > self.index)
        {
            self.times.clear();
        }
        self.times.push((self.index, now));
    }

    /// The waiters of others before the last of these in the queue, and how many wait at all.
    fn waiting(
        &self,
        consul: &Consul,
        prefix: &Prefix,
        by: Who,
        added: &[String],
        holders: &BTreeSet<String>,
    ) -> (Vec<Waiting>, usize) {
        let entry = |session: &String| consul.entry(&format!("{prefix}/{session}"));
        let places = added.iter().filter_map(entry).map(Entry::create_index);
        let last = places.max().unwrap_or_default();
        let (mut ahead, mut count) = (Vec::new(), 0);
        for entry in consul.entries(&prefix.directory()) {
            let session = entry.session().filter(|it| entry.key().ends_with(*it));
            let Some((session, owner)) = session.and_then(|it| Some((it, self.owner(it)?))) else {
                continue;
            };
            if owner == by || holders.contains(session) || !self.alive.contains(session) {
                continue;
            }
            // A parked key only keeps late writes off.
            if (entry.flags() ^ SEMAPHORE_FLAGS) & 3 == 1 {
                continue;
            }
            count += 1;
            let created = entry.create_index();
            if created < last {
                let at = self.times.partition_point(|(index, _)| *index < created);
                ahead.push(Waiting {
                    session: session.to_owned(),
                    owner,
                    since: self
                        .times
                        .get(at)
                        .map_or(Instant::ORIGIN, |(_, seen)| *seen),
                });
            }
        }
        (ahead, count)
    }

    /// Whether a session existed after the last step, with the contender key that it needs in a
    /// semaphore.
    pub(super) fn lives(&self, consul: &Consul, prefix: usize, session: &str) -> bool {
        let Some(site) = self.sites.get(&prefix) else {
            return false;
        };
        let key = consul.entry(&format!("{}/{session}", site.prefix));
        let is_tied = key.is_some_and(|it| it.session() == Some(session));
        self.alive.contains(session) && (is_tied || site.place.is_election())
    }

    /// Whether this prefix has foreign data.
    pub(super) fn is_garbled(&self, prefix: usize) -> bool {
        let site = self.sites.get(&prefix);
        site.is_some_and(|site| site.state.is_garbled())
    }

    /// The holders at this prefix.
    pub(super) fn holders(&self, prefix: usize) -> BTreeSet<String> {
        let site = self.sites.get(&prefix);
        site.map(|site| site.state.holders()).unwrap_or_default()
    }

    /// Whether a snapshot has brought back a session that had ended. Its owner may be gone.
    pub(super) fn has_returned(&self, session: &str) -> bool {
        self.returned.contains(session)
    }

    /// The prefixes at which this session may be used.
    pub(super) fn places_of(&self, session: &str) -> Vec<usize> {
        let places = self.owner(session).and_then(|it| self.places.get(&it));
        let common = || self.sites.keys().copied().take_while(|it| !is_own(*it));
        places.cloned().unwrap_or_else(|| common().collect())
    }

    /// The contender keys with their sessions. Only a live session can hold a key.
    pub(super) fn contenders(consul: &Consul) -> BTreeSet<(String, String)> {
        let tied = consul
            .entries("")
            .filter_map(|it| Some((it.key(), it.session()?.to_owned())));
        tied.filter(|(key, session)| key.ends_with(session.as_str()))
            .collect()
    }

    /// The creator of a session.
    pub(super) fn owner(&self, session: &str) -> Option<Who> {
        self.owners.get(session).copied()
    }
}

/// The prefixes at which a host uses sessions.
fn places(host: &HostPlan) -> (Who, Vec<usize>) {
    let places = host.own_prefixes().chain(host.places());
    (Who::Ours(host.number), places.collect())
}

/// The keys that a write of the record names.
fn written_keys(request: &Request) -> Vec<String> {
    if let Some(transaction) = Transaction::of(request) {
        return transaction.keys().map(str::to_owned).collect();
    }
    let path = request.target().split('?').next();
    let key = path.and_then(|it| it.strip_prefix("/v1/kv/"));
    key.map(str::to_owned).into_iter().collect()
}

/// Whether a write of this key depends on its earlier state.
fn is_check_and_set(request: &Request, key: &str) -> bool {
    match RequestKind::of(request) {
        RequestKind::KvCas => true,
        RequestKind::Txn => Transaction::of(request).is_some_and(|it| it.is_check_and_set(key)),
        _ => false,
    }
}

/// Whether it changes this election's key only for the session that holds it, or acquires it for a
/// session.
fn goes_through_session(request: &Request, key: &str) -> bool {
    match RequestKind::of(request) {
        RequestKind::KvAcquire | RequestKind::KvRelease | RequestKind::SessionDestroy => true,
        RequestKind::Txn => Transaction::of(request).is_some_and(|it| it.is_of_session(key)),
        _ => false,
    }
}

fn destroyer(writes: &[Delivered], session: &str) -> Option<Who> {
    let is_it = |write: &&Delivered| {
        RequestKind::of(&write.request) == RequestKind::SessionDestroy
            && write.request.target().contains(session)
    };
    let by = who(&writes.iter().find(is_it)?.host);
    Some(by.unwrap_or(Who::Operator))
}

/// The host with this name.
fn who(host: &str) -> Option<Who> {
    let (kind, number) = host.rsplit_once('-')?;
    let number = number.parse().ok()?;
    Some(match kind {
        "node" => Who::Ours(number),
        _ => Who::Stranger(number),
    })
}
