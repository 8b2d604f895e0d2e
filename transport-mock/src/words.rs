//! Queries for tests: who holds, who waits, who leads, and what is left. They look at the leader's
//! state and send nothing.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

use semaphore_core::adapter::Instant;
use semaphore_core::error::Subject;
use semaphore_core::manage::{Inspect, Member, Operation, Snapshot};
use semaphore_core::{Error, Prefix, Scope};

use crate::consul::{Consul, Session};
use crate::mock::MockConsul;
use crate::process::MockProcess;

/// The time between checks of a condition.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Words of semaphores and elections.
impl MockConsul {
    /// The holders of the semaphore at this prefix, once for each slot. Each is the value from
    /// [`Builder::value`](semaphore_core::Builder::value), or else its session. Empty if there is
    /// no semaphore.
    ///
    /// ```
    /// use transport_mock::Semaphore;
    /// use transport_mock::MockConsul;
    ///
    /// # fn main() -> Result<(), transport_mock::Error> {
    /// let world = MockConsul::new(7);
    /// let builder = Semaphore::builder("service/db", 1).value("node-1");
    /// let semaphore = builder.connect(world.client("node-1"))?;
    /// let permit = world.run(semaphore.acquire())?;
    /// assert_eq!(world.holders("service/db"), ["node-1"]);
    ///
    /// world.expire_session("node-1");
    /// world.run(permit.lost());
    /// assert!(!permit.is_held());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// If the prefix is invalid, or if something other than a semaphore is there.
    #[track_caller]
    pub fn holders(&self, prefix: impl AsRef<str>) -> Vec<String> {
        let found = self.inspect(prefix.as_ref());
        let holders = found.map(|it| it.holders).unwrap_or_default();
        holders.into_iter().map(name).collect()
    }

    /// The waiters for a slot, in the order in which they came.
    ///
    /// # Panics
    /// As [`MockConsul::holders`].
    #[track_caller]
    pub fn waiters(&self, prefix: impl AsRef<str>) -> Vec<String> {
        let found = self.inspect(prefix.as_ref());
        let waiters = found.map(|it| it.waiters).unwrap_or_default();
        waiters.into_iter().map(name).collect()
    }

    /// The value of the leader of this key's election, if somebody leads.
    pub fn leader(&self, key: impl AsRef<str>) -> Option<String> {
        self.consul(|consul, _| {
            let entry = consul.entry(key.as_ref())?;
            entry.session()?;
            Some(text(entry.value()))
        })
    }

    /// Ends the sessions of `whom`, as if their TTL were over or an operator destroyed them. `whom`
    /// is a value of keys that belong to them, or a session's id.
    ///
    /// # Panics
    /// If there is none, since the test would show nothing.
    #[track_caller]
    pub fn expire_session(&self, whom: impl AsRef<str>) {
        let whom = whom.as_ref();
        let ended = self.consul(|consul, now| {
            let sessions = sessions_of(consul, whom);
            for session in &sessions {
                consul.destroy_session(now, session);
            }
            sessions
        });
        assert!(!ended.is_empty(), "no session is {whom}'s");
        for session in ended {
            self.note(format_args!("session {session} of {whom} ended"));
        }
    }

    /// Ends everything that runs on this host, as `kill -9` does. The drivers of its handles are
    /// dropped and give nothing back, so its slots stay taken until its sessions end. Its handles
    /// have no driver any more, and its clients send nothing. A [client](MockConsul::client) that
    /// is made afterwards belongs to the next process.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use transport_mock::{MockConsul, Semaphore};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), transport_mock::Error> {
    /// let world = MockConsul::on_tokio(7);
    /// let semaphore = |host| Semaphore::builder("service/db", 1).value(host).connect(world.client(host));
    /// let first = semaphore("a")?.acquire().await?;
    /// let second = semaphore("b")?;
    /// let waiting = tokio::spawn(async move { second.acquire().await });
    ///
    /// world.kill("a");
    /// let time = Duration::from_secs(46);
    /// world.expect_within(time, "b holds", |world| world.holders("service/db") == ["b"]).await;
    /// # drop((first, waiting));
    /// # Ok(())
    /// # }
    /// ```
    pub fn kill(&self, host: impl AsRef<str>) {
        self.note(format_args!("{} killed", host.as_ref()));
        self.kill_processes(host.as_ref());
    }

    /// Waits until a condition is true, and checks every ten milliseconds. In a world with separate
    /// time, [`MockConsul::run`] runs it.
    ///
    /// # Panics
    /// If it is not true within that time. The message has `what` was expected and the
    /// [story](MockConsul::story).
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    #[track_caller]
    pub fn expect_within(
        &self,
        time: Duration,
        what: impl fmt::Display,
        mut holds: impl FnMut(&Self) -> bool,
    ) -> impl Future<Output = ()> {
        let at = Location::caller();
        async move {
            let until = self.now() + time;
            while !holds(self) {
                assert!(
                    self.now() < until,
                    "{at}: it was expected within {time:?} that {what}, and it does not hold. What happened:\n{}",
                    self.story()
                );
                self.sleep(BETWEEN_LOOKS).await;
            }
        }
    }

    /// A program on this host that can be paused and killed. Give it to `connect` in place of the
    /// host.
    pub fn process(&self, host: impl AsRef<str>) -> MockProcess {
        MockProcess::new(&self.client(host))
    }

    /// Asserts that nothing is left of the semaphore at this prefix, or of this key's election: no
    /// holder, no key, and no session that holds one or is named after it. Only the record with the
    /// limit may stay, or the last leader's value. Giving back takes some round trips; `shutdown`
    /// of a handle waits for that.
    ///
    /// # Panics
    /// If something is left. The message names it.
    #[track_caller]
    pub fn assert_nothing_left(&self, prefix: impl AsRef<str>) {
        let prefix = prefix.as_ref();
        let left = self.consul(|consul, _| leftovers(consul, prefix));
        let holders = self.holders_if_any(prefix);
        assert!(
            left.is_empty() && holders.is_empty(),
            "of {prefix} there is left: {left:?}, holders {holders:?}"
        );
    }

    #[track_caller]
    fn holders_if_any(&self, prefix: &str) -> Vec<String> {
        let is_semaphore = self.consul(|consul, _| consul.entry(&record_of(prefix)).is_some());
        if is_semaphore {
            self.holders(prefix)
        } else {
            Vec::new()
        }
    }

    #[track_caller]
    #[expect(clippy::panic, reason = "documented")]
    fn inspect(&self, prefix: &str) -> Option<Snapshot> {
        let read = Prefix::new(prefix).map_err(Error::from);
        let read =
            read.and_then(|prefix| self.consul(|consul, now| inspected(consul, now, prefix)));
        match read {
            Ok(snapshot) => Some(snapshot),
            Err(Error::NotFound { .. }) => None,
            Err(error) => panic!("no semaphore at {prefix}: {error}"),
        }
    }
}

/// What a read of the leader would show, without a request.
fn inspected(consul: &Consul, now: Instant, prefix: Prefix) -> Result<Snapshot, Error> {
    let mut copy = consul.for_inspection();
    let mut operation = Operation::new(Inspect::new(prefix, Scope::default()), 0);
    while let Some(request) = operation.poll_transmit(now) {
        let exchange = copy.submit(now, &request);
        while let Some((answered, response)) = copy.poll_answer() {
            if answered == exchange {
                operation.handle_response(now, &Ok(response));
            }
        }
    }
    operation.poll_output().unwrap_or_else(|| {
        Err(Error::NotFound {
            on: Subject::default(),
        })
    })
}

fn sessions_of(consul: &Consul, whom: &str) -> BTreeSet<String> {
    let entries = consul.entries("");
    let tied = entries.filter(|entry| entry.value() == whom.as_bytes());
    let tied = tied.filter_map(|entry| entry.session());
    let named = consul.sessions().map(Session::id);
    let named = named.filter(|id| *id == whom);
    tied.chain(named).map(str::to_owned).collect()
}

fn leftovers(consul: &Consul, prefix: &str) -> Vec<String> {
    let below = format!("{prefix}/");
    let record = record_of(prefix);
    // The record with the limit stays, and an election's key with its last leader's value. Neither
    // is held.
    let stays = |key: &str| key == record || key == prefix;
    let entries = consul.entries(prefix);
    let ours = entries.filter(|it| it.key() == prefix || it.key().starts_with(&below));
    let keys = ours.filter(|it| !stays(&it.key()) || it.session().is_some());
    let keys = keys.map(|entry| format!("key {}", entry.key()));
    let sessions = consul.sessions().filter(|it| it.name().contains(prefix));
    let sessions = sessions.map(|it| format!("session {} ({})", it.id(), it.name()));
    keys.chain(sessions).collect()
}

fn record_of(prefix: &str) -> String {
    format!("{prefix}/.lock")
}

fn name(member: Member) -> String {
    if member.value.is_empty() {
        member.session
    } else {
        text(&member.value)
    }
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}
