//! Contenders and followers as threads that block.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use semaphore_core::blocking::{Client, Discovery, Follower};
use transport_ureq::UreqTransport;

use super::Plan;
use super::book::{Book, Entry};
use super::members::{BlockingHeld, BlockingMember};
use super::turn::{BEAT, Farewell, Turn};
use crate::failure::{Failure, Try as _};
use crate::moment::Moment;
use crate::record::{Place, Role, What};

/// Runs all of them to their end.
pub(super) fn run(plan: &Plan, backend: &UreqTransport, book: &Arc<Book>) -> Result<(), Failure> {
    let scope = plan.scope()?;
    let client = plan.shares.then(|| {
        let builder = Client::builder().ttl(plan.ttl).scope(scope.clone());
        builder.connect(backend.clone())
    });
    let mut crew = Crew {
        backend,
        client: client.transpose().doing("building a client")?,
        book,
        number: 0,
        threads: Vec::new(),
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

struct Crew<'c> {
    backend: &'c UreqTransport,
    /// What everything uses, if sessions are shared.
    client: Option<Client>,
    book: &'c Arc<Book>,
    number: u32,
    threads: Vec<JoinHandle<()>>,
    shutdowns: Vec<Box<dyn FnOnce()>>,
}

impl Crew<'_> {
    fn contend(&mut self, plan: &Plan, place: &Place) -> Result<(), Failure> {
        let (backend, client) = (self.backend.clone(), self.client.clone());
        match place.what {
            What::Semaphore => {
                let builder = plan.semaphore(place)?;
                let built = match client {
                    Some(client) => builder.connect_blocking(client),
                    None => builder.connect_blocking(backend),
                };
                self.start(built.doing("building a semaphore")?, place);
            }
            What::Election => {
                let builder = plan.election(place)?;
                let built = match client {
                    Some(client) => builder.connect_blocking(client),
                    None => builder.connect_blocking(backend),
                };
                self.start(built.doing("building an election")?, place);
            }
        }
        Ok(())
    }

    fn start<M: BlockingMember>(&mut self, member: M, place: &Place) {
        let member = Arc::new(member);
        let closed = Arc::clone(&member);
        self.book.closes(move || closed.close());
        for _ in 0..place.contenders {
            let contender = Contender {
                member: Arc::clone(&member),
                place: place.clone(),
                book: Arc::clone(self.book),
                number: self.number,
            };
            self.number += 1;
            self.threads
                .push(thread::spawn(move || contender.contend()));
        }
        self.shutdowns.push(Box::new(move || member.shutdown()));
    }

    fn follow(&mut self, plan: &Plan, place: &Place) -> Result<(), Failure> {
        let discovery = Discovery::builder(place.record_key())
            .scope(plan.scope()?)
            .connect(self.backend.clone());
        let mut follower = discovery.doing("building a follower")?.follow();
        let (book, place) = (Arc::clone(self.book), place.clone());
        let thread = thread::spawn(move || follow(&book, &place, &mut follower));
        self.threads.push(thread);
        Ok(())
    }

    fn join(self) {
        for thread in self.threads {
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
        if !self.book.must_leave() {
            for shutdown in self.shutdowns {
                shutdown();
            }
            if let Some(client) = self.client {
                client.shutdown();
            }
        }
    }
}

struct Contender<M> {
    member: Arc<M>,
    place: Place,
    book: Arc<Book>,
    number: u32,
}

impl<M: BlockingMember> Contender<M> {
    fn contend(&self) {
        let mut rng = self.book.rng(self.number);
        while !self.book.must_stop() {
            let turn = Turn::draw(&mut rng, &self.place, self.book.holds_long);
            self.take(&turn.without_cancellation());
            self.rest(&turn);
        }
        if !self.book.must_leave() {
            self.take(&Turn::last());
        }
    }

    fn take(&self, turn: &Turn) {
        let entry = self.book.wanted(&self.place, turn);
        match self.member.take(turn) {
            Ok(Some(held)) => {
                entry.granted(&held);
                if turn.says == 0 {
                    self.hold(entry, &held, turn, || true);
                } else {
                    self.hold_and_speak(entry, &held, turn);
                }
                entry.ending(&held);
                match turn.farewell {
                    Farewell::Release if !self.book.must_leave() => {
                        entry.ended(&held.give_back());
                    }
                    Farewell::Release | Farewell::Drop => drop(held),
                }
            }
            Ok(None) => entry.refused(),
            Err(error) => entry.failed(&error),
        }
    }

    fn rest(&self, turn: &Turn) {
        let end = Moment::now().plus(turn.rest);
        while !self.book.must_leave() {
            let left = end.since(Moment::now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(BEAT));
        }
    }

    /// A thread that waits for its value to be written can't be interrupted. So the holder goes on
    /// for as long as the other thread needs.
    fn hold_and_speak(&self, entry: Entry<'_>, held: &M::Held, turn: &Turn) {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let speaker = scope.spawn(|| speak(entry, held, turn, &is_over));
            self.hold(entry, held, turn, || {
                is_over.store(true, Ordering::SeqCst);
                speaker.is_finished()
            });
            is_over.store(true, Ordering::SeqCst);
        });
    }

    /// Holds until the hold is lost, or until its time is over and `may_end` is true.
    fn hold(&self, entry: Entry<'_>, held: &M::Held, turn: &Turn, may_end: impl Fn() -> bool) {
        let end = Moment::now().plus(turn.hold);
        loop {
            let left = end.since(Moment::now());
            let is_over = left.is_zero() || self.book.must_stop();
            if is_over && may_end() {
                return;
            }
            let beat = if is_over { BEAT } else { left.min(BEAT) };
            match held.lost_timeout(beat) {
                Some(lost) => return entry.lost(&lost),
                None => entry.beat(held),
            }
        }
    }
}

fn speak(entry: Entry<'_>, held: &impl BlockingHeld, turn: &Turn, is_over: &AtomicBool) {
    for number in 0..turn.says {
        let due = Moment::now().plus(turn.pause());
        loop {
            if is_over.load(Ordering::SeqCst) {
                return;
            }
            let left = due.since(Moment::now());
            if left.is_zero() {
                break;
            }
            thread::sleep(left.min(BEAT));
        }
        let value = entry.words(number);
        let said = held.say(&value);
        entry.said(value, &said);
    }
}

fn follow(book: &Book, place: &Place, follower: &mut Follower) {
    while !book.must_stop() && !follower.has_ended() {
        if let Some(event) = follower.next_timeout(BEAT) {
            book.saw(place, &event);
        }
    }
}
