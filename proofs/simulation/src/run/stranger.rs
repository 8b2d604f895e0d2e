//! Other clients: they follow the algorithm of HashiCorp's Go client, and of the guide.
//!
//! A stranger has a session and a contender key. It reads the prefix, removes dead holders, adds
//! itself by check-and-set if there is room, and otherwise waits for a change. It has no queue, and
//! only understands its own dialect of the record. In an election it takes the key as a lock. If a
//! late release could end its next term, its session serves only one term.

mod crowd;
mod lock;

use std::ops::Range;
use std::time::Duration;

use futures_util::future::{Either, select};
use semaphore_core::adapter::{Runtime as _, Transport as _};
use semaphore_core::sans_io::api::{
    AcquireKey, CasKey, CreateSession, DeleteKey, DestroySession, ListKeys, RenewSession,
};
use semaphore_core::sans_io::{
    Dialect, Index, Method, Record, Request, Response, SessionOptions, View,
};
use semaphore_core::{Prefix, Scope, SessionId};
use transport_mock::MockClient;

use super::book::Book;
use super::{Judged, Run};
use crate::plan::{Place, STRANGERS_LOCK_DELAY, STRANGERS_TTL, Stranger, StrangerPlan};

struct Visitor {
    plan: StrangerPlan,
    client: MockClient,
    book: Book,
    prefix: Prefix,
    place: Place,
    limit: u32,
    dialect: Dialect,
    scope: Scope,
}

/// The keys that others have below a prefix.
pub(super) const OTHERS: &str = "others/value";

const RETRY: Duration = Duration::from_millis(500);

impl Run<'_> {
    /// Strangers with another dialect than Go's were here before us, and left empty records.
    pub(super) fn leave_records(&mut self) -> Judged {
        let (dialect, limit) = (self.plan.dialect, self.plan.limit);
        let Some(record) = empty_record(dialect, limit).filter(|_| dialect != Dialect::Map) else {
            return Ok(());
        };
        let is_semaphore = |prefix: &usize| !self.plan.place(*prefix).is_election();
        let prefixes = (0..self.prefixes.len()).filter(is_semaphore);
        for prefix in prefixes.collect::<Vec<_>>() {
            self.submit_on(prefix, |key| {
                Request::new(Method::Put, key).with_body(record.encode())
            });
        }
        self.judge_operation()
    }

    /// Others write keys that have nothing to do with the semaphores.
    pub(super) fn put_others(&mut self) {
        if !self.plan.is_beside_others {
            return;
        }
        let is_semaphore = |prefix: &usize| !self.plan.place(*prefix).is_election();
        let prefixes = (0..self.prefixes.len()).filter(is_semaphore);
        for prefix in prefixes.collect::<Vec<_>>() {
            self.submit_on(prefix, |record| {
                let key = record.replace(".lock", OTHERS);
                Request::new(Method::Put, key).with_body(vec![b'x'; 40_000])
            });
        }
    }

    pub(super) fn start_strangers(&mut self) {
        for stranger in &self.plan.strangers {
            let Some(prefix) = self.prefixes.get(stranger.prefix) else {
                continue;
            };
            let visitor = Visitor {
                plan: stranger.clone(),
                client: self.world.client(format!("stranger-{}", stranger.number)),
                book: self.book.clone(),
                prefix: prefix.clone(),
                place: self.plan.place(stranger.prefix),
                limit: self.plan.limit,
                dialect: stranger.dialect.unwrap_or(self.plan.dialect),
                scope: self.scope("strangers"),
            };
            self.strangers.push(self.world.start(visitor.live()));
        }
    }
}

impl Visitor {
    /// Lives until its plan is done, its session has ended, or it can't use the record.
    async fn live(self) {
        self.client.sleep(self.plan.at).await;
        let mut turns = match self.plan.kind {
            Stranger::Crowd { holders, hold } => {
                self.come_together(holders, hold).await;
                return;
            }
            Stranger::Stuck(_) => 0..1,
            Stranger::Go { turns, .. } | Stranger::ConsulLock { turns, .. } => 0..turns,
        };
        while !turns.is_empty() {
            let Some(session) = self.enter().await else {
                return;
            };
            // What it holds ends here, before anything of it goes.
            let goes_on = {
                let renewals = Box::pin(self.renew(&session));
                let first = select(Box::pin(self.stay(&session, &mut turns)), renewals).await;
                matches!(first, Either::Left((Some(()), _)))
            };
            self.leave(&session).await;
            if !goes_on {
                return;
            }
        }
    }

    /// Takes its turns, or as many as this session may serve. `None` if it can't go on.
    async fn stay(&self, session: &SessionId, turns: &mut Range<u32>) -> Option<()> {
        match self.plan.kind {
            Stranger::Crowd { .. } => return None,
            Stranger::Stuck(time) => {
                self.client.sleep(time).await;
                return None;
            }
            Stranger::Go { hold, .. } | Stranger::ConsulLock { hold, .. } => {
                for _ in turns {
                    self.get_in(session).await?;
                    let (number, prefix) = (self.plan.number, self.plan.prefix);
                    let sessions = vec![session.to_string()];
                    let belief = self.book.granted_to_stranger(number, prefix, sessions);
                    let end = Holding(&self.book, belief);
                    self.client.sleep(hold).await;
                    drop(end);
                    if !self.get_out(session).await {
                        break;
                    }
                }
            }
        }
        Some(())
    }

    async fn get_in(&self, session: &SessionId) -> Option<()> {
        match self.place {
            Place::Semaphore => self.acquire(session).await,
            Place::Election { .. } => self.lock(session).await,
        }
    }

    /// Whether its session may serve another turn.
    async fn get_out(&self, session: &SessionId) -> bool {
        match self.place {
            Place::Semaphore => {
                self.release(session).await;
                true
            }
            Place::Election { .. } => {
                let may_serve = self.unlock(session).await;
                if matches!(self.plan.kind, Stranger::ConsulLock { .. }) {
                    self.delete_lock().await;
                }
                may_serve
            }
        }
    }

    async fn enter(&self) -> Option<SessionId> {
        let options = SessionOptions::default().with_ttl(STRANGERS_TTL).ok()?;
        let options = options.with_lock_delay(STRANGERS_LOCK_DELAY).ok()?;
        let created = self
            .send(|scope| CreateSession { options: &options }.request(scope))
            .await?;
        let session = CreateSession::parse(&created).ok()?;
        if self.place.is_election() {
            return Some(session);
        }
        let key = &self.prefix.contender_key(&session);
        let value = b"stranger".as_slice();
        let flags = empty_record(self.dialect, self.limit)?.flags();
        let (acquire, session) = (&session, session.clone());
        let acquired = self
            .send(|scope| {
                AcquireKey {
                    key,
                    session: acquire,
                    value,
                    flags,
                }
                .request(scope)
            })
            .await?;
        AcquireKey::parse(&acquired).ok()?.then_some(session)
    }

    /// `None` if it can't go on.
    async fn acquire(&self, session: &SessionId) -> Option<()> {
        let mut index = None;
        loop {
            let view = self.read(index).await?;
            if !view.is_alive(session.as_str()) {
                return None;
            }
            let mut record = match view.lock() {
                None => empty_record(self.dialect, self.limit)?,
                Some(lock) => lock.record.clone().ok()?,
            };
            if record.dialect() != self.dialect {
                let mut book = self.book.lock();
                book.count_fault("stranger that does not understand the record");
                return None;
            }
            // The answer to our write was lost.
            if record.holds(session.as_str()) {
                return Some(());
            }
            record.retain(|holder| view.is_alive(holder));
            if record.holders().len() < record.limit() as usize {
                record.add(session.as_str());
                if self.store(&view, &record).await? {
                    return Some(());
                }
                index = None;
            } else {
                index = Some(view.index());
            }
        }
    }

    async fn release(&self, session: &SessionId) -> Option<()> {
        loop {
            let view = self.read(None).await?;
            let mut record = view.record()?.clone();
            record.retain(|holder| holder != session.as_str() && view.is_alive(holder));
            if self.store(&view, &record).await? {
                return Some(());
            }
        }
    }

    async fn renew(&self, session: &SessionId) {
        loop {
            self.client.sleep(STRANGERS_TTL / 3).await;
            let renewed = self
                .send(|scope| RenewSession { session }.request(scope))
                .await;
            let is_alive = renewed.is_some_and(|answer| RenewSession::parse(&answer).is_ok());
            if !is_alive {
                return;
            }
        }
    }

    async fn leave(&self, session: &SessionId) {
        let key = &self.prefix.contender_key(session);
        let index = None;
        if !self.place.is_election() {
            self.send(|scope| DeleteKey { key, index }.request(scope))
                .await;
        }
        self.send(|scope| DestroySession { session }.request(scope))
            .await;
    }

    async fn read(&self, index: Option<Index>) -> Option<View> {
        let list = ListKeys {
            prefix: &self.prefix,
            wait: index.map(|index| (index, Duration::from_secs(15))),
            consistent: true,
        };
        let answer = self
            .send(|scope| list.request(scope).with_timeout(Duration::from_secs(25)))
            .await?;
        let list = ListKeys::parse(&answer).ok()?;
        Some(View::new(&self.prefix, &list))
    }

    async fn store(&self, view: &View, record: &Record) -> Option<bool> {
        let key = &self.prefix.record_key();
        let (index, value, flags) = (view.record_index(), record.encode(), record.flags());
        let value = &value;
        let answer = self
            .send(|scope| {
                CasKey {
                    key,
                    index,
                    value,
                    flags,
                }
                .request(scope)
            })
            .await?;
        CasKey::parse(&answer).ok()
    }

    /// Tries until there is an answer that is not a temporary failure.
    async fn send(&self, request: impl Fn(&Scope) -> Request) -> Option<Response> {
        loop {
            if let Some(answer) = self.send_once(&request).await {
                return Some(answer);
            }
            self.client.sleep(RETRY).await;
        }
    }

    async fn send_once(&self, request: impl Fn(&Scope) -> Request) -> Option<Response> {
        let answer = self.client.send(request(&self.scope)).await.ok()?;
        let passes = answer.body().starts_with(b"No cluster leader");
        (!passes).then_some(answer)
    }
}

/// The record that a client with this dialect creates.
fn empty_record(dialect: Dialect, limit: u32) -> Option<Record> {
    let spelled = match dialect {
        Dialect::Array => format!(r#"{{"Limit":{limit},"Holders":[]}}"#),
        Dialect::LowerCaseArray => format!(r#"{{"limit":{limit},"holders":[]}}"#),
        _ => return Some(Record::new(limit)),
    };
    Record::decode(spelled.as_bytes(), 0).ok()
}

/// A belief that ends when this is dropped.
struct Holding<'a>(&'a Book, crate::history::BeliefNo);

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.0.ended(self.1);
    }
}
