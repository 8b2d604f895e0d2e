//! Looks at the cluster through each server, to tell later who could have reached it when, and
//! whose session existed.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use real_agent::Client;
use serde_json::Value;

use crate::diary::Diary;
use crate::lockers::THEIRS;
use crate::moment::Moment;
use crate::record::Sighting;

const EVERY: Duration = Duration::from_millis(250);
const TIMEOUT: Duration = Duration::from_secs(2);

/// One thread for each server.
#[derive(Debug)]
pub(crate) struct Witnesses {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Witnesses {
    /// Begins to look through these.
    ///
    /// # Errors
    /// When the log can't be opened.
    pub(crate) fn start(servers: Vec<Client>, log: &Path) -> io::Result<Self> {
        let stop = Arc::<AtomicBool>::default();
        let mut threads = Vec::new();
        for (server, client) in servers.into_iter().enumerate() {
            let diary = Diary::open(log)?;
            let stop = Arc::clone(&stop);
            let client = client.with_timeout(TIMEOUT);
            threads.push(thread::spawn(move || look(server, &client, &diary, &stop)));
        }
        Ok(Self { stop, threads })
    }

    /// Ends.
    ///
    /// # Errors
    /// When a sighting could not be written.
    pub(crate) fn end(mut self) -> io::Result<()> {
        self.stop.store(true, Ordering::SeqCst);
        self.threads.drain(..).try_for_each(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|_| Err(io::Error::other("a witness panicked")))
        })
    }
}

impl Drop for Witnesses {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

fn look(
    server: usize,
    client: &Client,
    diary: &Diary<Sighting>,
    stop: &AtomicBool,
) -> io::Result<()> {
    while !stop.load(Ordering::SeqCst) {
        let at = Moment::now();
        let names = session_names(client).ok();
        let is_theirs = |name: &String| name.starts_with(THEIRS);
        let sighting = Sighting {
            server,
            end: Moment::now(),
            locks: names.map(|names| names.into_iter().filter(is_theirs).collect()),
        };
        diary.write(at, sighting)?;
        thread::sleep(EVERY);
    }
    Ok(())
}

/// The names of all sessions, as the leader confirms them.
///
/// # Errors
/// When there is no such answer.
pub(crate) fn session_names(client: &Client) -> io::Result<Vec<String>> {
    let answer = client.get("/v1/session/list?consistent")?;
    if answer.status != 200 {
        return Err(io::Error::other(answer.text()));
    }
    let Value::Array(sessions) = answer.json()? else {
        return Ok(Vec::new());
    };
    let name = |session: &Value| session["Name"].as_str().unwrap_or_default().to_owned();
    Ok(sessions.iter().map(name).collect())
}
