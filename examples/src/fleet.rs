//! Many semaphores in one process. Each is acquired and held, and some have waiters.
//!
//! A waiter wants all slots of its semaphore, and one is held. It gets its turn when the one before
//! it has given back what it had. Holders and waiters are futures of one task, on every backend. So
//! the only threads that are counted are those that the semaphores need.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};
use std::{io, iter};

use futures_util::FutureExt as _;
use futures_util::future::{Either, join_all, join3, select};
use futures_util::stream::{self, StreamExt as _};
use semaphore_core::adapter::{Runtime as _, TransportError, TransportErrorKind};
use semaphore_core::{Builder, Client, Error, Lost, Permit, Semaphore};

use crate::backend::{Host, Hosts, Transports};
use crate::failure::Failure;
use crate::meter::Reading;
use crate::peaks::{Peaks, Watcher};

/// How long the semaphores may take to end. After that their TTL cleans up.
const CLEARING: Duration = Duration::from_secs(60);

/// How many semaphores are ended at once, so that the end causes no peak.
const CLEARED_AT_ONCE: usize = 16;

/// Semaphores before they start.
pub struct Fleet<'a> {
    /// Where they run.
    pub hosts: &'a Hosts,
    /// Describes the semaphore with this number.
    pub builder: &'a (dyn Fn(usize) -> Builder + Sync),
    /// How many there are.
    pub semaphores: usize,
    /// How many slots each of them has.
    pub limit: u32,
    /// How many waiters there are, with separate handles.
    pub waiters: usize,
    /// Whether all handles share one transport.
    pub transports: Transports,
    /// How long all are held after the last grant.
    pub hold: Duration,
    /// How long each grant may take.
    pub patience: Duration,
}

/// What happened to a fleet.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How many semaphores there were.
    pub semaphores: usize,
    /// How many waiters there should be.
    pub waiters: usize,
    /// For each granted semaphore, the time from the request to the permit.
    pub acquired: Vec<Duration>,
    /// For each granted waiter, the time from when its slots were free, at the end of the release
    /// before it.
    pub turns: Vec<Duration>,
    /// Why the others were not granted.
    pub failures: Vec<Error>,
    /// Why holds were lost.
    pub losses: Vec<Lost>,
    /// What went wrong when something was given back or removed.
    pub unclean: Vec<Error>,
    /// Whether the semaphores ended in time.
    pub cleared: bool,
    /// The traffic while all were held, and the duration.
    pub steady: (Reading, Duration),
    /// The traffic from the beginning to the end.
    pub traffic: Reading,
    /// Connections and threads.
    pub peaks: Peaks,
}

/// Whether a connection was opened and then closed. The system itself reports nothing before the
/// request was sent.
fn was_hung_up(error: &TransportError) -> bool {
    let causes = iter::successors(error.source(), |&cause: &&(dyn StdError + 'static)| {
        cause.source()
    });
    match error.kind() {
        TransportErrorKind::Unknown => true,
        TransportErrorKind::NotSent => causes.filter(|it| it.is::<io::Error>()).count() == 0,
        _ => false,
    }
}

/// A semaphore with one handle.
struct Member {
    number: usize,
    semaphore: Semaphore,
}

struct Held {
    number: usize,
    permit: Permit,
}

/// Something that was given back.
struct Freed {
    number: usize,
    at: Instant,
    result: Result<(), Error>,
}

/// A turn of a waiter.
struct Turn {
    granted: Instant,
    freed: Freed,
}

impl Fleet<'_> {
    /// Acquires all, holds all, gives all back, and removes what is left.
    ///
    /// # Errors
    /// Failures that prevent the whole fleet: [`Failure::Backend`] and [`Failure::Semaphore`]
    /// before anything is sent, [`Failure::Thread`], [`Failure::Unreachable`] and
    /// [`Failure::NotReady`].
    pub fn run(&self) -> Result<Outcome, Failure> {
        let mut for_holders = self
            .hosts
            .several(self.semaphores + self.waiters, self.transports)?;
        let Some(home) = for_holders.first().cloned() else {
            return Ok(Outcome::default());
        };
        let for_waiters = for_holders.split_off(self.semaphores);
        let of_holders = self.client(&home)?;
        let watcher = Watcher::start(self.hosts.agent())?;
        let mut outcome = Outcome {
            semaphores: self.semaphores,
            waiters: self.waiters,
            ..Outcome::default()
        };
        let members = for_holders.into_iter().enumerate();
        let holders = self.members(members, of_holders.as_ref(), &mut outcome.failures)?;
        self.probe(&home)?;
        let before = self.hosts.traffic();
        home.wait(self.act(&home, holders, for_waiters, of_holders, &mut outcome))?;
        Ok(Outcome {
            traffic: self.hosts.traffic().since(before),
            peaks: watcher.peaks(),
            ..outcome
        })
    }

    /// The members for which a task could be started; threads may be scarce. Wrong settings are
    /// reported at once.
    fn members(
        &self,
        numbers: impl Iterator<Item = (usize, Host)>,
        client: Option<&Client>,
        failures: &mut Vec<Error>,
    ) -> Result<Vec<Member>, Error> {
        let mut members = Vec::new();
        for (number, host) in numbers {
            let host = client.map_or_else(|| host.clone(), |client| host.with(client));
            match (self.builder)(number).connect(host) {
                Ok(semaphore) => members.push(Member { number, semaphore }),
                Err(error @ Error::InvalidInput { .. }) => return Err(error),
                Err(error) => failures.push(error),
            }
        }
        Ok(members)
    }

    /// What all of them share besides the transport, if anything.
    fn client(&self, home: &Host) -> Result<Option<Client>, Error> {
        match self.transports {
            Transports::Client => Client::builder().connect(home.clone()).map(Some),
            Transports::Shared | Transports::Each => Ok(None),
        }
    }

    /// Reports a wrong address at once. An agent without a free connection is not a wrong address:
    /// it closes a connection at once, maybe before the request was sent.
    fn probe(&self, home: &Host) -> Result<(), Failure> {
        match home.probe(self.hosts.agent()) {
            Err(Failure::NotReady { status: 429, .. }) => Ok(()),
            Err(Failure::Unreachable { source, .. }) if was_hung_up(&source) => Ok(()),
            probed => probed,
        }
    }

    async fn act(
        &self,
        home: &Host,
        holders: Vec<Member>,
        for_waiters: Vec<Host>,
        of_holders: Option<Client>,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        let mut held = Vec::with_capacity(holders.len());
        for acquired in join_all(holders.iter().map(|it| self.acquire(it))).await {
            match acquired {
                Ok((one, time)) => {
                    outcome.acquired.push(time);
                    held.push(one);
                }
                Err(error) => outcome.failures.push(error),
            }
        }

        // Only behind held semaphores, since nobody can wait behind the others.
        let numbers: Vec<_> = held.iter().map(|it| it.number).collect();
        let members = numbers.iter().copied().cycle().zip(for_waiters);
        // Waiters are separate participants, as in another process.
        let of_waiters = self.client(home)?;
        let waiters = self.members(members, of_waiters.as_ref(), &mut outcome.failures)?;

        // If nothing is held, there is nothing to wait for.
        let time = if held.is_empty() {
            Duration::ZERO
        } else {
            self.hold
        };
        let over = home.sleep(time).shared();
        let before = self.hosts.traffic();
        let began = Instant::now();
        let steady = async {
            over.clone().await;
            (self.hosts.traffic().since(before), began.elapsed())
        };
        let holds = join_all(held.into_iter().map(|it| it.hold(over.clone())));
        let waits = join_all(waiters.iter().map(|it| self.wait(it)));
        // The measuring future is polled first, so that it sees the end of the holds first.
        let (steady, freed, turns) = join3(steady, holds, waits).await;
        outcome.steady = steady;
        outcome.take_turns(freed, turns);

        let clients = of_holders.into_iter().chain(of_waiters);
        let cleared = pin!(clear(holders, waiters, clients));
        if let Either::Left((unclean, _)) = select(cleared, home.sleep(CLEARING)).await {
            outcome.unclean.extend(unclean);
            outcome.cleared = true;
        }
        Ok(())
    }

    async fn acquire(&self, member: &Member) -> Result<(Held, Duration), Error> {
        let asked = Instant::now();
        let permit = member.semaphore.acquire_timeout(self.patience).await?;
        let number = member.number;
        Ok((Held { number, permit }, asked.elapsed()))
    }

    /// Takes a turn, and holds for no time.
    async fn wait(&self, member: &Member) -> Result<Turn, Error> {
        let patience = self.hold + self.patience;
        let waiting = member.semaphore.acquire_many_timeout(self.limit, patience);
        let permit = waiting.await?;
        let granted = Instant::now();
        let number = member.number;
        let freed = Held { number, permit }.give_back(None).await;
        Ok(Turn { granted, freed })
    }
}

impl Held {
    async fn hold(self, over: impl Future<Output = ()>) -> Freed {
        let lost = match select(pin!(self.permit.lost()), pin!(over)).await {
            Either::Left((lost, _)) => Some(lost),
            Either::Right(_) => None,
        };
        self.give_back(lost).await
    }

    async fn give_back(self, lost: Option<Lost>) -> Freed {
        let released = self.permit.release().await;
        Freed {
            number: self.number,
            at: Instant::now(),
            result: lost.map_or(released, |lost| Err(Error::Lost(lost))),
        }
    }
}

impl Outcome {
    /// What went wrong: a line for each kind, with the first reason. Empty if everything was
    /// granted, kept and removed.
    pub fn complaints(&self) -> Vec<String> {
        let asked = self.semaphores + self.waiters;
        let had = self.acquired.len() + self.turns.len();
        let mut complaints = Vec::new();
        if let Some(first) = self.failures.first() {
            let (failed, why) = (self.failures.len(), first);
            complaints.push(format!(
                "{failed} of {asked} acquisitions failed, the first: {why}"
            ));
        }
        if let Some(first) = self.losses.first() {
            let lost = self.losses.len();
            complaints.push(format!(
                "{lost} of {had} slots were lost, the first: {first}"
            ));
        }
        if let Some(first) = self.unclean.first() {
            let (left, why) = (self.unclean.len(), first);
            complaints.push(format!("{left} times cleaning up failed, the first: {why}"));
        }
        if !self.cleared {
            complaints.push(format!("not all was cleaned up within {CLEARING:?}"));
        }
        complaints
    }

    /// In each semaphore, the first granted waiter waited for what was given back first, and so on:
    /// each release frees the slots for one waiter.
    fn take_turns(&mut self, freed: Vec<Freed>, turns: Vec<Result<Turn, Error>>) {
        let mut free: BTreeMap<usize, (Vec<Instant>, Vec<Instant>)> = BTreeMap::new();
        let mut all = freed;
        for turn in turns {
            match turn {
                Ok(Turn { granted, freed }) => {
                    free.entry(freed.number).or_default().1.push(granted);
                    all.push(freed);
                }
                Err(error) => self.failures.push(error),
            }
        }
        for Freed { number, at, result } in all {
            free.entry(number).or_default().0.push(at);
            match result {
                Ok(()) => {}
                Err(Error::Lost(lost)) => self.losses.push(lost),
                Err(error) => self.unclean.push(error),
            }
        }
        for (mut freed, mut granted) in free.into_values() {
            freed.sort_unstable();
            granted.sort_unstable();
            let waits = granted.into_iter().zip(freed);
            // A waiter may learn of it before the one that gives it back.
            let waits = waits.map(|(granted, freed)| granted.saturating_duration_since(freed));
            self.turns.extend(waits);
        }
    }
}

/// Ends all of them with their own connections, and removes their records. Returns what went wrong.
async fn clear(
    holders: Vec<Member>,
    waiters: Vec<Member>,
    clients: impl Iterator<Item = Client>,
) -> Vec<Error> {
    stream::iter(waiters)
        .map(|member| async move { member.semaphore.shutdown().await })
        .buffer_unordered(CLEARED_AT_ONCE)
        .for_each(|()| async {})
        .await;
    let unclean = stream::iter(holders)
        .map(|member| async move {
            member.semaphore.shutdown().await;
            match member.semaphore.destroy().await {
                // Others may use it, or have removed it.
                Ok(()) | Err(Error::InUse { .. } | Error::NotFound { .. }) => None,
                Err(error) => Some(error),
            }
        })
        .buffer_unordered(CLEARED_AT_ONCE)
        .filter_map(|error| async { error })
        .collect()
        .await;
    for client in clients {
        client.shutdown().await;
    }
    unclean
}

#[cfg(test)]
mod tests {
    use semaphore_core::error::Subject;

    use super::*;

    fn outcome(freed: &[(usize, u64)], turns: &[(usize, u64, u64)]) -> Outcome {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let free = |number, millis| Freed {
            number,
            at: at(millis),
            result: Ok(()),
        };
        let turn = |&(number, granted, freed): &(usize, u64, u64)| {
            Ok(Turn {
                granted: at(granted),
                freed: free(number, freed),
            })
        };
        let mut outcome = Outcome::default();
        outcome.take_turns(
            freed.iter().map(|&(number, at)| free(number, at)).collect(),
            turns.iter().map(turn).collect(),
        );
        outcome
    }

    fn millis(times: &[u64]) -> Vec<Duration> {
        times.iter().copied().map(Duration::from_millis).collect()
    }

    #[test]
    fn a_turn_lasts_from_the_release_before_it() {
        let alone = outcome(&[(0, 100), (1, 200)], &[(1, 230, 240), (0, 110, 120)]);
        assert_eq!(alone.turns, millis(&[10, 30]));
    }

    #[test]
    fn of_those_behind_one_semaphore_each_waits_for_the_one_before_it() {
        let turns = [(0, 150, 155), (0, 110, 120), (0, 160, 170)];
        assert_eq!(outcome(&[(0, 100)], &turns).turns, millis(&[10, 30, 5]));
    }

    #[test]
    fn who_hears_of_a_release_before_the_one_who_releases_waited_for_nothing() {
        assert_eq!(outcome(&[(0, 100)], &[(0, 99, 120)]).turns, millis(&[0]));
    }

    #[test]
    fn what_is_lost_is_told_apart_from_what_can_not_be_removed() {
        let freed = |result| Freed {
            number: 0,
            at: Instant::now(),
            result,
        };
        let mut outcome = Outcome {
            cleared: true,
            ..Outcome::default()
        };
        outcome.take_turns(vec![freed(Ok(()))], Vec::new());
        assert_eq!(outcome.complaints(), [""; 0]);
        let lost = Err(Error::Lost(Lost::RuntimeEnded {
            on: Subject::default(),
        }));
        outcome.take_turns(
            vec![
                freed(lost),
                freed(Err(semaphore_core::error::ClosedBy::Owner.into())),
            ],
            vec![Err(semaphore_core::error::ClosedBy::Owner.into())],
        );
        let counts = [&outcome.failures, &outcome.unclean].map(Vec::len);
        assert_eq!((counts, outcome.losses.len()), ([1, 1], 1));
        assert_eq!(outcome.complaints().len(), 3);
    }
}
