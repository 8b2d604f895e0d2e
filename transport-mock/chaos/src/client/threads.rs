//! Contenders as threads that block.

use std::sync::Arc;
use std::thread;

use semaphore_core::{Error, blocking};
use transport_ureq::UreqTransport;

use super::Plan;
use super::book::{Book, Entry};
use super::turn::{BEAT, Farewell, Turn};
use crate::failure::{Failure, Try as _};
use crate::moment::Moment;
use crate::record::{Slots, Way};

/// Runs all contenders to their end.
pub(super) fn run(plan: &Plan, backend: &UreqTransport, book: &Arc<Book>) -> Result<(), Failure> {
    let connect = |slots: &Slots| plan.builder(slots).connect_blocking(backend.clone());
    let semaphores: Vec<_> = plan
        .semaphores
        .iter()
        .map(connect)
        .collect::<Result<_, _>>()
        .doing("building a semaphore")?;
    thread::scope(|scope| {
        let mut number = 0;
        for (slots, semaphore) in plan.semaphores.iter().zip(&semaphores) {
            for _ in 0..slots.contenders {
                let contender = Contender {
                    semaphore,
                    slots,
                    book,
                    number,
                };
                number += 1;
                scope.spawn(move || contender.contend());
            }
        }
    });
    for semaphore in semaphores {
        semaphore.shutdown();
    }
    Ok(())
}

struct Contender<'c> {
    semaphore: &'c blocking::Semaphore,
    slots: &'c Slots,
    book: &'c Book,
    number: u32,
}

impl Contender<'_> {
    fn contend(&self) {
        let mut rng = self.book.rng(self.number);
        while !self.book.must_stop() {
            let turn = Turn::draw(&mut rng, self.slots.limit);
            self.take(&turn);
            thread::sleep(turn.rest);
        }
        self.take(&Turn::last());
    }

    fn take(&self, turn: &Turn) {
        let turn = &Turn {
            way: match turn.way {
                // A thread that blocks can't give up by itself.
                Way::Cancelled => Way::Timeout,
                way => way,
            },
            ..*turn
        };
        let entry = self.book.wanted(self.slots, turn);
        match self.acquire(turn) {
            Ok(Some(permit)) => {
                self.hold(entry, &permit, turn);
                entry.ending(&permit);
                match turn.farewell {
                    Farewell::Release => entry.ended(&permit.release()),
                    Farewell::Drop => drop(permit),
                }
            }
            Ok(None) => entry.refused(),
            Err(error) => entry.failed(&error),
        }
    }

    fn acquire(&self, turn: &Turn) -> Result<Option<blocking::Permit>, Error> {
        let (semaphore, permits) = (self.semaphore, turn.permits);
        match turn.way {
            Way::Plain => semaphore.acquire_many(permits).map(Some),
            Way::Timeout | Way::Cancelled => semaphore
                .acquire_many_timeout(permits, turn.patience)
                .map(Some),
            Way::Try => semaphore.try_acquire_many(permits),
        }
    }

    fn hold(&self, entry: Entry<'_>, permit: &blocking::Permit, turn: &Turn) {
        entry.granted(permit);
        let end = Moment::now().plus(turn.hold);
        loop {
            let left = end.since(Moment::now());
            if left.is_zero() || self.book.must_stop() {
                return;
            }
            match permit.lost_timeout(left.min(BEAT)) {
                Some(lost) => return entry.lost(&lost),
                None => entry.beat(permit),
            }
        }
    }
}
