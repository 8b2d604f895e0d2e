//! Watches the queues of the semaphores: who holds and who waits, in one answer, whenever something
//! changes.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use judge::Record;
use real_agent::{Answer, Client};
use semaphore_core::sans_io::api::SEMAPHORE_FLAGS;
use serde_json::Value;

use crate::diary::Diary;
use crate::moment::Moment;
use crate::record::{Place, Run, Standing};

/// A state that lasts is read again after this time, so that a gap between two answers is shorter
/// than that after which a free slot counts as left unused.
const WAIT: &str = "200ms";
const TIMEOUT: Duration = Duration::from_secs(2);
/// A contended record changes more often than it needs to be read.
const PAUSE: Duration = Duration::from_millis(5);

/// One thread for each semaphore.
#[derive(Debug)]
pub(crate) struct Ushers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Ushers {
    /// Starts to watch through these servers.
    ///
    /// # Errors
    /// If the log can't be opened.
    pub(crate) fn start(servers: &[Client], run: &Run, log: &Path) -> io::Result<Self> {
        let stop = Arc::<AtomicBool>::default();
        let mut threads = Vec::new();
        for place in run.places.iter().filter(|place| !place.is_election()) {
            let usher = Usher {
                servers: servers
                    .iter()
                    .map(|it| it.clone().with_timeout(TIMEOUT))
                    .collect(),
                place: place.clone(),
                diary: Diary::open(log)?,
            };
            let stop = Arc::clone(&stop);
            threads.push(thread::spawn(move || usher.look(&stop)));
        }
        Ok(Self { stop, threads })
    }

    /// Ends.
    ///
    /// # Errors
    /// If something could not be written.
    pub(crate) fn end(mut self) -> io::Result<()> {
        self.stop.store(true, Ordering::SeqCst);
        self.threads.drain(..).try_for_each(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|_| Err(io::Error::other("an usher panicked")))
        })
    }
}

impl Drop for Ushers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

struct Usher {
    servers: Vec<Client>,
    place: Place,
    diary: Diary<Standing>,
}

impl Usher {
    fn look(&self, stop: &AtomicBool) -> io::Result<()> {
        let mut index = 0;
        let mut server = 0;
        while !stop.load(Ordering::SeqCst) {
            let at = Moment::now();
            let path = format!(
                "/v1/kv/{}/?recurse&index={index}&wait={WAIT}",
                self.place.prefix
            );
            let answer = self.servers[server].get(&path);
            let seen = answer.ok().and_then(|it| self.standing(&it));
            if let Some(standing) = seen {
                index = standing.index;
                self.diary.write(at, standing)?;
                thread::sleep(PAUSE);
            } else {
                index = 0;
                server = (server + 1) % self.servers.len();
                thread::sleep(PAUSE * 10);
            }
        }
        Ok(())
    }

    /// `None` if there is no record, or no answer.
    fn standing(&self, answer: &Answer) -> Option<Standing> {
        let entries = answer.json().ok().filter(|_| answer.status == 200)?;
        let entries = entries.as_array()?;
        let record_key = self.place.record_key();
        let lock = entries.iter().find(|it| it["Key"] == *record_key)?;
        let value = STANDARD.decode(lock["Value"].as_str()?).ok()?;
        let record = Record::read(&value, lock["Flags"].as_u64()?)?;
        let contender = |entry: &Value| {
            let session = entry["Session"].as_str()?;
            let is_contenders = entry["Key"] == format!("{}/{session}", self.place.prefix);
            // A parked key waits for nothing (docs/PROTOCOL.md, "State").
            let is_parked = (entry["Flags"].as_u64()? ^ SEMAPHORE_FLAGS) & 3 == 1;
            let is_contenders = is_contenders && !is_parked;
            is_contenders.then_some((session.to_owned(), entry["CreateIndex"].as_u64()?))
        };
        let there: Vec<_> = entries.iter().filter_map(contender).collect();
        let holders: Vec<_> = record.holders().map(str::to_owned).collect();
        let is_there = |it: &&String| there.iter().any(|(session, _)| session == *it);
        let alive = holders.iter().filter(is_there).count();
        let waits = |(session, _): &(String, u64)| !holders.contains(session);
        Some(Standing {
            prefix: self.place.prefix.clone(),
            end: Moment::now(),
            index: answer.index?,
            written: lock["ModifyIndex"].as_u64()?,
            limit: record.limit(),
            dead: u32::try_from(holders.len() - alive).unwrap_or(u32::MAX),
            waiting: there.iter().filter(|it| waits(it)).cloned().collect(),
            holders,
        })
    }
}
