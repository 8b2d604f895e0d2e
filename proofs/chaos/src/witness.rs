//! Watches the cluster through each server. This shows later when a client could have reached it,
//! and when each session existed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use real_agent::Client;
use serde_json::Value;

use crate::client::OURS;
use crate::diary::Diary;
use crate::lockers::THEIRS;
use crate::moment::Moment;
use crate::record::{Place, Run, Sight, Sighting, What};

const EVERY: Duration = Duration::from_millis(250);
const TIMEOUT: Duration = Duration::from_secs(2);

/// One thread for each server.
#[derive(Debug)]
pub(crate) struct Witnesses {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Witnesses {
    /// Starts to watch through these servers.
    ///
    /// # Errors
    /// If the log can't be opened.
    pub(crate) fn start(servers: Vec<Client>, run: &Run, log: &Path) -> io::Result<Self> {
        let stop = Arc::<AtomicBool>::default();
        let mut threads = Vec::new();
        for (server, client) in servers.into_iter().enumerate() {
            let diary = Diary::open(log)?;
            let stop = Arc::clone(&stop);
            let witness = Witness {
                server,
                client: client.with_timeout(TIMEOUT),
                places: run.places.clone(),
                diary,
            };
            threads.push(thread::spawn(move || witness.look(&stop)));
        }
        Ok(Self { stop, threads })
    }

    /// Ends.
    ///
    /// # Errors
    /// If a sighting could not be written.
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

struct Witness {
    server: usize,
    client: Client,
    places: Vec<Place>,
    diary: Diary<Sighting>,
}

impl Witness {
    fn look(&self, stop: &AtomicBool) -> io::Result<()> {
        while !stop.load(Ordering::SeqCst) {
            let at = Moment::now();
            let sessions = sessions(&self.client).ok();
            let end = Moment::now();
            let holders = sessions.as_ref().and_then(|names| self.holders(names).ok());
            let is_theirs = |name: &String| name.starts_with(THEIRS);
            let sighting = Sighting {
                server: self.server,
                end,
                ours: sessions.as_ref().map(ours),
                nodes: nodes(&self.client).ok(),
                locks: sessions.map(|names| names.into_values().filter(is_theirs).collect()),
                holders: holders.unwrap_or_default(),
            };
            self.diary.write(at, sighting)?;
            thread::sleep(EVERY);
        }
        Ok(())
    }

    /// The names of the holders of each place. A holder whose session is gone appears with its id.
    fn holders(&self, names: &BTreeMap<String, String>) -> io::Result<Vec<Vec<String>>> {
        let of_place = |place: &Place| {
            let holders = holders(&self.client, place)?.into_iter();
            let name = |id: String| names.get(&id).cloned().unwrap_or(id);
            Ok(holders.map(name).collect())
        };
        self.places.iter().map(of_place).collect()
    }
}

fn ours(names: &BTreeMap<String, String>) -> Vec<String> {
    let ours = names.iter().filter(|(_, name)| name.starts_with(OURS));
    ours.map(|(id, _)| id.clone()).collect()
}

fn nodes(client: &Client) -> io::Result<Vec<String>> {
    let nodes = client.get("/v1/catalog/nodes?consistent")?.json()?;
    let nodes = nodes.as_array().map(Vec::as_slice).unwrap_or_default();
    let names = nodes.iter().filter_map(|node| node["Node"].as_str());
    Ok(names.map(str::to_owned).collect())
}

/// The sessions that hold, according to Consul.
fn holders(client: &Client, place: &Place) -> io::Result<BTreeSet<String>> {
    match place.what {
        What::Semaphore => Ok(client.leftovers(&place.prefix)?.holders),
        What::Election => match look(client, place)? {
            Sight::Led { session, .. } => Ok(BTreeSet::from([session])),
            _ => Ok(BTreeSet::new()),
        },
    }
}

/// What the cluster's leader says about an election.
///
/// # Errors
/// If there is no such answer.
pub(crate) fn look(client: &Client, place: &Place) -> io::Result<Sight> {
    let path = format!("/v1/kv/{}?consistent", place.record_key());
    let answer = client.get(&path)?;
    match answer.status {
        404 => return Ok(Sight::Leaderless { value: None }),
        200 => {}
        _ => return Err(io::Error::other(answer.text())),
    }
    let entry = &answer.json()?[0];
    // An empty value is null.
    let bytes = STANDARD.decode(entry["Value"].as_str().unwrap_or_default());
    let bytes = bytes.map_err(io::Error::other)?;
    let value = String::from_utf8_lossy(&bytes).into_owned();
    Ok(match entry["Session"].as_str() {
        Some(session) => Sight::Led {
            session: session.to_owned(),
            term: entry["LockIndex"].as_u64().unwrap_or_default(),
            value,
        },
        None => Sight::Leaderless { value: Some(value) },
    })
}

/// The names of all sessions by their ids, as the leader confirms them.
///
/// # Errors
/// If there is no such answer.
pub(crate) fn sessions(client: &Client) -> io::Result<BTreeMap<String, String>> {
    let answer = client.get("/v1/session/list?consistent")?;
    if answer.status != 200 {
        return Err(io::Error::other(answer.text()));
    }
    let Value::Array(sessions) = answer.json()? else {
        return Ok(BTreeMap::new());
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let named = |session: &Value| (text(&session["ID"]), text(&session["Name"]));
    Ok(sessions.iter().map(named).collect())
}
