//! Other clients: they follow the algorithm of HashiCorp's Go client, and of the guide.
//!
//! A stranger has a session and a contender key. It reads the prefix, removes dead holders, adds
//! itself by check-and-set if there is room, and otherwise waits for a change. It has no queue, and
//! only understands its own dialect of the record. In an election it takes the key as a lock. If a
//! late release could end its next term, its session serves only one term.

mod crowd;
pub(super) mod literal;
mod lock;

use std::ops::Range;
use std::time::Duration;

use futures_util::future::{Either, select};
use judge::{Record, Spelling};
use semaphore_core::adapter::Runtime as _;
use semaphore_core::sans_io::{Dialect, Method, Request, Response};
use semaphore_core::{Prefix, Token};
use transport_mock::MockClient;

use super::book::Book;
use super::keys::{Keys, session_of};
use super::wire::is_over_limit;
use super::{Judged, Run};
use crate::plan::{Place, STRANGERS_LOCK_DELAY, STRANGERS_TTL, Stranger, StrangerPlan};

struct Visitor {
    plan: StrangerPlan,
    client: MockClient,
    book: Book,
    prefix: Prefix,
    place: Place,
    limit: u32,
    spelling: Spelling,
    token: Option<Token>,
}

/// The keys that others have below a prefix.
pub(super) const OTHERS: &str = "others/value";

const RETRY: Duration = Duration::from_millis(500);

impl Run<'_> {
    /// Strangers with another dialect than Go's were here before us, and left empty records.
    pub(super) fn leave_records(&mut self) -> Judged {
        let spelling = spelling_of(self.plan.dialect);
        if spelling == Spelling::Map {
            return Ok(());
        }
        let record = Record::spelled(self.plan.limit, spelling);
        let is_semaphore = |prefix: &usize| !self.plan.place(*prefix).is_election();
        let prefixes = (0..self.prefixes.len()).filter(is_semaphore);
        for prefix in prefixes.collect::<Vec<_>>() {
            self.submit_on(prefix, |key| {
                Request::new(Method::Put, key).with_body(literal::spell(&record))
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
                spelling: spelling_of(stranger.dialect.unwrap_or(self.plan.dialect)),
                token: self.token(),
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
    async fn stay(&self, session: &str, turns: &mut Range<u32>) -> Option<()> {
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
                    let sessions = vec![session.to_owned()];
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

    async fn get_in(&self, session: &str) -> Option<()> {
        match self.place {
            Place::Semaphore => self.acquire(session).await,
            Place::Election { .. } => self.lock(session).await,
        }
    }

    /// Whether its session may serve another turn.
    async fn get_out(&self, session: &str) -> bool {
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

    async fn enter(&self) -> Option<String> {
        let create = literal::create_session(STRANGERS_TTL, STRANGERS_LOCK_DELAY);
        let session = session_of(&self.send(&create).await?)?;
        if self.place.is_election() {
            return Some(session);
        }
        let key = format!("{}/{session}", self.prefix);
        let acquire = literal::acquire(&key, &session, b"stranger", self.flags());
        let acquired = self.send(&acquire).await?;
        literal::says(&acquired)?.then_some(session)
    }

    /// The flags of its keys in a semaphore. The guide sets none.
    fn flags(&self) -> u64 {
        match self.spelling {
            Spelling::Map => literal::SEMAPHORE_FLAGS,
            Spelling::List | Spelling::LowerList => 0,
        }
    }

    /// `None` if it can't go on.
    async fn acquire(&self, session: &str) -> Option<()> {
        let mut index = None;
        loop {
            let seen = self.read(index).await?;
            let alive = seen.tied();
            if !alive.contains(session) {
                return None;
            }
            let lock = seen.get(&self.prefix.record_key());
            let mut record = match &lock {
                None => Record::spelled(self.limit, self.spelling),
                Some(lock) => lock.record()?,
            };
            if record.spelling() != self.spelling {
                let mut book = self.book.lock();
                book.count_fault("stranger that does not understand the record");
                return None;
            }
            // The answer to our write was lost.
            if record.holds(session) {
                return Some(());
            }
            record.retain(|holder| alive.contains(holder));
            if record.holders().len() < record.limit() as usize {
                record.add(session);
                let found = lock.map_or(0, |lock| lock.modify_index());
                if self.store(found, &record).await? {
                    return Some(());
                }
                index = None;
            } else {
                index = Some(seen.index);
            }
        }
    }

    async fn release(&self, session: &str) -> Option<()> {
        loop {
            let seen = self.read(None).await?;
            let alive = seen.tied();
            let lock = seen.get(&self.prefix.record_key())?;
            let mut record = lock.record()?;
            record.retain(|holder| holder != session && alive.contains(holder));
            if self.store(lock.modify_index(), &record).await? {
                return Some(());
            }
        }
    }

    async fn renew(&self, session: &str) {
        loop {
            self.client.sleep(STRANGERS_TTL / 3).await;
            let renewed = self.send(&literal::renew(session)).await;
            if renewed.is_none_or(|answer| answer.status() != 200) {
                return;
            }
        }
    }

    async fn leave(&self, session: &str) {
        if !self.place.is_election() {
            let key = format!("{}/{session}", self.prefix);
            self.send(&literal::delete(&key, None)).await;
        }
        self.send(&literal::destroy(session)).await;
    }

    async fn read(&self, index: Option<u64>) -> Option<Keys> {
        let read = literal::read(&self.prefix.directory(), true, index);
        Keys::of(&self.send(&read).await?)
    }

    async fn store(&self, index: u64, record: &Record) -> Option<bool> {
        let key = self.prefix.record_key();
        let cas = literal::cas(&key, index, &literal::spell(record), self.flags());
        literal::says(&self.send(&cas).await?)
    }

    /// Tries until there is an answer that is not a temporary failure.
    async fn send(&self, request: &Request) -> Option<Response> {
        loop {
            if let Some(answer) = self.send_once(request).await {
                return Some(answer);
            }
            self.client.sleep(RETRY).await;
        }
    }

    async fn send_once(&self, request: &Request) -> Option<Response> {
        let request = request.clone().with_token(self.token.clone());
        let commits = self.book.lock().commits;
        let fault = commits.and_then(|it| it.fault(&request));
        if fault.is_some() {
            let mut book = self.book.lock();
            book.count_fault("stranger's request committed slowly");
        }
        let answer = self.client.send_into(request, fault).await.ok()?;
        let passes = answer.body().starts_with(b"No cluster leader") || is_over_limit(&answer);
        (!passes).then_some(answer)
    }
}

/// How clients of this dialect spell a record.
fn spelling_of(dialect: Dialect) -> Spelling {
    match dialect {
        Dialect::Array => Spelling::List,
        Dialect::LowerCaseArray => Spelling::LowerList,
        _ => Spelling::Map,
    }
}

/// A belief that ends when this is dropped.
struct Holding<'a>(&'a Book, crate::history::BeliefNo);

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.0.ended(self.1);
    }
}
