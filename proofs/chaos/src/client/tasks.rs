//! Contenders and followers as tasks, on tokio and on smol.

use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;

use futures_channel::oneshot;
use futures_util::future::{Either, join_all, select};
use semaphore_core::adapter::{BlockOn, BoxFuture, Transport};
use semaphore_core::{Client, Discovery, Error, Follower};

use super::Plan;
use super::book::{Book, Entry};
use super::members::{Held, Member};
use super::turn::{BEAT, Farewell, Turn};
use crate::failure::{Failure, Try as _};
use crate::moment::Moment;
use crate::record::{Place, Role, Way, What};

/// Runs all of them to their end on the backend's runtime.
pub(super) fn run<B>(plan: &Plan, backend: &B, book: &Arc<Book>) -> Result<(), Failure>
where
    B: Transport + BlockOn + Clone + 'static,
{
    let scope = plan.scope()?;
    let client = plan.shares.then(|| {
        Client::builder()
            .ttl(plan.ttl)
            .scope(scope.clone())
            .connect(backend.clone())
    });
    let mut crew = Crew {
        backend,
        client: client.transpose().doing("building a client")?,
        book,
        number: 0,
        ends: Vec::new(),
        shutdowns: Vec::new(),
    };
    match plan.role {
        Role::Contender => {
            for place in &plan.places {
                crew.contend(plan, place)?;
            }
        }
        Role::Follower => {
            for place in plan.elections() {
                crew.follow(plan, place)?;
            }
        }
    }
    crew.join();
    Ok(())
}

struct Crew<'c, B> {
    backend: &'c B,
    /// What everything uses, if sessions are shared.
    client: Option<Client>,
    book: &'c Arc<Book>,
    number: u32,
    ends: Vec<oneshot::Receiver<()>>,
    shutdowns: Vec<BoxFuture<'static, ()>>,
}

impl<B> Crew<'_, B>
where
    B: Transport + BlockOn + Clone + 'static,
{
    fn contend(&mut self, plan: &Plan, place: &Place) -> Result<(), Failure> {
        let (backend, client) = (self.backend.clone(), self.client.clone());
        match place.what {
            What::Semaphore => {
                let builder = plan.semaphore(place)?;
                let built = match client {
                    Some(client) => builder.connect(client),
                    None => builder.connect(backend),
                };
                self.start(built.doing("building a semaphore")?, place)
            }
            What::Election => {
                let builder = plan.election(place)?;
                let built = match client {
                    Some(client) => builder.connect(client),
                    None => builder.connect(backend),
                };
                self.start(built.doing("building an election")?, place)
            }
        }
    }

    fn start<M: Member>(&mut self, member: M, place: &Place) -> Result<(), Failure> {
        let closed = member.clone();
        self.book.closes(move || closed.close());
        for _ in 0..place.contenders {
            let contender = Contender {
                backend: self.backend.clone(),
                member: member.clone(),
                place: place.clone(),
                book: Arc::clone(self.book),
                number: self.number,
            };
            self.number += 1;
            self.spawn(async move { contender.contend().await })?;
        }
        self.shutdowns
            .push(Box::pin(async move { member.shutdown().await }));
        Ok(())
    }

    fn follow(&mut self, plan: &Plan, place: &Place) -> Result<(), Failure> {
        let discovery = Discovery::builder(place.record_key())
            .scope(plan.scope()?)
            .connect(self.backend.clone());
        let mut follower = discovery.doing("building a follower")?.follow();
        let (backend, place) = (self.backend.clone(), place.clone());
        let book = Arc::clone(self.book);
        self.spawn(async move { follow(&backend, &book, &place, &mut follower).await })
    }

    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) -> Result<(), Failure> {
        let (end, ended) = oneshot::channel::<()>();
        let spawned = self.backend.spawn(Box::pin(async move {
            task.await;
            drop(end);
        }));
        spawned.doing("starting a task")?;
        self.ends.push(ended);
        Ok(())
    }

    fn join(self) {
        let Self {
            client,
            ends,
            shutdowns,
            book,
            ..
        } = self;
        self.backend.block_on(Box::pin(async {
            join_all(ends).await;
            if !book.must_leave() {
                join_all(shutdowns).await;
                if let Some(client) = client {
                    client.shutdown().await;
                }
            }
        }));
    }
}

struct Contender<B, M> {
    backend: B,
    member: M,
    place: Place,
    book: Arc<Book>,
    number: u32,
}

impl<B: BlockOn, M: Member> Contender<B, M> {
    async fn contend(&self) {
        let mut rng = self.book.rng(self.number);
        while !self.book.must_stop() {
            let turn = Turn::draw(&mut rng, &self.place, self.book.holds_long);
            self.take(&turn).await;
            self.rest(&turn).await;
        }
        if !self.book.must_leave() {
            self.take(&Turn::last()).await;
        }
    }

    async fn take(&self, turn: &Turn) {
        let entry = self.book.wanted(&self.place, turn);
        let Some(outcome) = self.acquire(turn).await else {
            return entry.cancelled();
        };
        match outcome {
            Ok(Some(held)) => {
                entry.granted(&held);
                // When its time ends, a change of the value that is under way is given up.
                first(
                    self.hold(entry, &held, turn),
                    self.speak(entry, &held, turn),
                )
                .await;
                entry.ending(&held);
                match turn.farewell {
                    Farewell::Release if !self.book.must_leave() => {
                        entry.ended(&held.give_back().await);
                    }
                    Farewell::Release | Farewell::Drop => drop(held),
                }
            }
            Ok(None) => entry.refused(),
            Err(error) => entry.failed(&error),
        }
    }

    async fn rest(&self, turn: &Turn) {
        let end = Moment::now().plus(turn.rest);
        while !self.book.must_leave() {
            let left = end.since(Moment::now());
            if left.is_zero() {
                return;
            }
            self.backend.sleep(left.min(BEAT)).await;
        }
    }

    /// `None` if it was cancelled.
    async fn acquire(&self, turn: &Turn) -> Option<Result<Option<M::Held>, Error>> {
        let taken = self.member.take(turn);
        match turn.way {
            Way::Cancelled => first(taken, self.backend.sleep(turn.patience)).await,
            Way::Plain | Way::Timeout | Way::Try => Some(taken.await),
        }
    }

    async fn hold(&self, entry: Entry<'_>, held: &M::Held, turn: &Turn) {
        let end = Moment::now().plus(turn.hold);
        loop {
            let left = end.since(Moment::now());
            if left.is_zero() || self.book.must_stop() {
                return;
            }
            match first(held.lost(), self.backend.sleep(left.min(BEAT))).await {
                Some(lost) => return entry.lost(&lost),
                None => entry.beat(held),
            }
        }
    }

    /// Changes the value as often as planned, and then waits to be dropped.
    async fn speak(&self, entry: Entry<'_>, held: &M::Held, turn: &Turn) {
        for number in 0..turn.says {
            self.backend.sleep(turn.pause()).await;
            let value = entry.words(number);
            let said = held.say(&value).await;
            entry.said(value, &said);
        }
        pending::<()>().await;
    }
}

async fn follow(backend: &impl BlockOn, book: &Book, place: &Place, follower: &mut Follower) {
    while !book.must_stop() {
        if let Some(event) = first(follower.next(), backend.sleep(BEAT)).await {
            match event {
                Some(event) => book.saw(place, &event),
                // The log already says why.
                None => return,
            }
        }
    }
}

/// The result of `future`, unless `alarm` ends first.
async fn first<T>(future: impl Future<Output = T>, alarm: impl Future<Output = ()>) -> Option<T> {
    match select(pin!(future), pin!(alarm)).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(_) => None,
    }
}
