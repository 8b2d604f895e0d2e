//! After the storm, everybody gets in once more and leaves. Then the test looks for leftovers.

use std::time::Duration;

use judge::Record;
use semaphore_core::Semaphore;

use super::state::State;
use super::stranger::OTHERS;
use super::user::ROUND_HOLD;
use super::{Judged, Run};
use crate::history::{Followed, Happening, Who};
use crate::plan::{HostPlan, Plan, Stranger};

impl Run<'_> {
    /// Everybody must get in within this time from now on.
    pub(super) fn round(&mut self, within: Duration) -> Judged {
        let hosts = self.hosts.values().filter(|host| !host.is_retired);
        let users = hosts.map(|host| host.plan.all_users()).sum();
        self.book.happened(Happening::Round { users, within });
        self.judge_step()
    }

    /// How long sessions of dead owners may live from now on.
    pub(super) fn longest_session(&self) -> Duration {
        let returned = self.world.consul(|consul, _| {
            let sessions = consul.sessions();
            let returned = sessions.filter(|it| self.seen.has_returned(it.id()));
            returned
                .filter_map(transport_mock::consul::Session::ttl)
                .max()
        });
        let longest = returned.unwrap_or_default().max(self.plan.ttl);
        longest.mul_f64(self.plan.lifetime)
    }

    pub(super) fn is_somebody_in(&mut self) -> bool {
        self.hosts.values_mut().any(|host| {
            host.tasks.retain_mut(|task| task.try_take().is_none());
            !host.tasks.is_empty()
        })
    }

    /// Strangers leave. Everything that is left then is ours.
    pub(super) fn end(&mut self) -> Judged {
        for stranger in self.strangers.drain(..) {
            stranger.abort();
        }
        let seen = &self.seen;
        self.world.consul(|consul, now| {
            let strangers: Vec<_> = consul
                .sessions()
                .map(|it| it.id().to_owned())
                .filter(|it| !matches!(seen.owner(it), Some(Who::Ours(_))))
                .collect();
            for session in strangers {
                consul.destroy_session(now, &session);
            }
        });
        self.judge_operation()?;
        self.run_until(self.world.now() + self.last_requests())?;
        self.stop_followers();
        for number in self.hosts.keys() {
            self.judge_peaks(*number)?;
        }
        self.tidy()?;
        if self.left().is_none() {
            self.refuse_guests()?;
            self.refuse_short_ttls()?;
            // Where messages are slow, a guest may have given up the creation of a session that came
            // to be all the same. Nobody knows of it, and it ends by its TTL.
            if self.plan.is_slow() {
                self.run_until(self.world.now() + self.last_requests())?;
            }
        }
        if let Some(what) = self.left() {
            self.book.happened(Happening::Left { what });
        }
        self.judge_step()
    }

    /// How long requests under way may take, and unused sessions are kept.
    pub(super) fn last_requests(&self) -> Duration {
        let usual = LAST_REQUESTS + self.plan.ttl / 5 * 2;
        if self.plan.is_slow() {
            usual + self.plan.latency * 20 + self.plan.longest_session()
        } else {
            usual
        }
    }

    fn stop_followers(&mut self) {
        for host in self.hosts.values_mut() {
            if let Some(follower) = host.follower.take() {
                follower.abort();
                let (host, prefix, what) = (host.plan.number, host.plan.prefix, Followed::NoMore);
                let told = Happening::Follows { host, prefix, what };
                self.book.happened(told);
            }
        }
    }

    /// Removes dead holders. A client that may not read sessions waits for the lock delay before it
    /// removes one, and does so only if no other slot is free. So this contender asks for all
    /// slots.
    fn tidy(&mut self) -> Judged {
        let common = (0..self.plan.prefixes.len()).map(|it| (it, self.plan.limit));
        let places: Vec<_> = common.collect();
        for (number, limit) in places {
            if self.plan.place(number).is_election() {
                continue;
            }
            let Some(all) = self.dead_holders(number) else {
                continue;
            };
            let builder = Semaphore::builder(Plan::prefix(number), limit);
            let mut builder = builder.adopt_limit();
            if self.plan.access_control.is_some() {
                builder = builder.token("strangers");
            }
            let Ok(semaphore) = builder.connect(self.world.client("broom")) else {
                continue;
            };
            let mut broom = self.world.start(async move {
                // If it could not remove one, the check finds that.
                if let Ok(permit) = semaphore.acquire_many(all).await {
                    let _ = permit.release().await;
                }
                semaphore.shutdown().await;
            });
            let end = self.world.now() + self.last_requests() + self.plan.longest_vacancy();
            while broom.try_take().is_none() && self.world.now() < end {
                self.step(end)?;
            }
            broom.abort();
        }
        Ok(())
    }

    /// The number of slots at this prefix, if dead holders may be left there.
    fn dead_holders(&self, prefix: usize) -> Option<u32> {
        let mut hosts = self.plan.hosts.iter();
        hosts.find(|it| it.places().any(|it| it == prefix) && !self.plan.asks())?;
        let lock = self.prefixes.get(prefix)?.record_key();
        self.world.consul(|consul, _| {
            let entry = consul.entry(&lock)?;
            let record = Record::read(entry.value(), entry.flags())?;
            (record.holders().len() > 0).then(|| record.limit())
        })
    }

    /// What is left of ours in Consul.
    fn left(&self) -> Option<String> {
        let mut left = Vec::new();
        self.world.consul(|consul, _| {
            left.extend(consul.sessions().map(|it| format!("session {}", it.id())));
            // What a dead process has left is removed by the next one that contends there.
            let hosts = || self.hosts.values().filter(|host| !host.is_retired);
            for prefix in hosts().flat_map(|host| host.plan.own_prefixes()) {
                let directory = format!("{}/", Plan::prefix(prefix));
                for entry in consul.entries(&directory) {
                    if self.plan.place(prefix).is_election() {
                        let is_free = entry.session().is_none();
                        left.extend((!is_free).then(|| format!("key {}, tied", entry.key())));
                        continue;
                    }
                    let is_lock = entry.key().strip_prefix(&directory) == Some(".lock");
                    let record = Record::read(entry.value(), entry.flags());
                    let is_empty = record.is_some_and(|it| it.holders().len() == 0);
                    if !is_lock || !is_empty {
                        left.push(format!("key {}", entry.key()));
                    }
                }
            }
            for (number, prefix) in self.prefixes.iter().enumerate() {
                // Any next client writes a record.
                let is_used = hosts().any(|it| it.plan.uses(number));
                if !is_used {
                    continue;
                }
                let lock = prefix.record_key();
                let place = self.plan.place(number);
                let is_election = place.is_election();
                for entry in consul.entries(&prefix.directory()) {
                    if entry.key().ends_with(OTHERS) {
                        continue;
                    }
                    if entry.key() != lock {
                        left.push(format!("key {}", entry.key()));
                        continue;
                    }
                    if is_election {
                        let is_garbled = State::of(place, Some(entry)).is_garbled();
                        left.extend(is_garbled.then(|| format!("the key {lock}, changed")));
                        continue;
                    }
                    let record = Record::read(entry.value(), entry.flags());
                    // While there is room, nobody needs the slot of a dead holder.
                    let has_room = |it: &Record| it.holders().len() < it.limit() as usize;
                    if record.as_ref().is_some_and(has_room) {
                        continue;
                    }
                    let holders = record.iter().flat_map(Record::holders);
                    left.extend(holders.map(|it| format!("holder {it} of {prefix}")));
                }
            }
        });
        (!left.is_empty()).then(|| left.join(", "))
    }
}

/// How long the requests under way take when all have left.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

/// One poll of the watch that nothing answers before its end, and its timeout.
const ONE_POLL: Duration = Duration::from_secs(17);

/// How long everybody together may take to get in after the storm. That includes the rest of dead
/// sessions' lives, the lock delay that follows, one poll, unanswered requests, and everybody's
/// turns.
pub(super) fn first_round(plan: &Plan, longest_session: Duration) -> Duration {
    longest_session
        + plan.longest_vacancy()
        + ONE_POLL
        + plan.request_timeout() * 2
        + turns(plan)
        + sharing(plan)
}

/// How long everybody may take if there are no dead holders.
pub(super) fn second_round(plan: &Plan) -> Duration {
    Duration::from_secs(5) + turns(plan) + sharing(plan)
}

/// How much longer it takes with shared connections. After a refusal none is opened for a while, a
/// look comes only every few seconds, and the requests of all turns are sent one after the other.
fn sharing(plan: &Plan) -> Duration {
    let longest = plan.hosts.iter().map(|host| plan.bounds_of(host).held_up);
    longest.max().unwrap_or_default() + plan.unseen()
}

/// Each user holds for its time, and leaves the slot to a stranger for at most its patience.
fn turns(plan: &Plan) -> Duration {
    let users: usize = plan.hosts.iter().map(HostPlan::contending_users).sum();
    let strangers: Duration = plan
        .strangers
        .iter()
        .map(|it| match it.kind {
            // Without a queue it may take all its turns before anybody else.
            Stranger::Go { turns, hold } | Stranger::ConsulLock { turns, hold }
                if plan.place(it.prefix).is_election() =>
            {
                (hold + Duration::from_secs(1)) * turns
            }
            Stranger::Go { turns, hold } | Stranger::ConsulLock { turns, hold } => {
                hold + Duration::from_secs(turns.into())
            }
            Stranger::Stuck(_) | Stranger::Crowd { .. } => Duration::from_secs(2),
        })
        .sum();
    let one = ROUND_HOLD + Duration::from_secs(1) + plan.latency * 10;
    one * u32::try_from(users).unwrap_or(u32::MAX) + strangers * 2
}
