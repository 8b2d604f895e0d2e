//! `list`: every semaphore and election below a prefix.

use jiff::Timestamp;
use semaphore_core::adapter::{Method, Request};
use semaphore_core::sans_io::Record;
use semaphore_core::sans_io::api::{Entry, KeyList, LOCK_FLAGS, ListKeys};
use serde::Serialize;
use std::fmt::Write as _;
use transport_ureq::Prefix;

use clap::Args;

use crate::agent::{Agent, AgentOptions};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::identity::{printable, shown};
use crate::output::{print, print_json};
use crate::overview::of_list;
use crate::status::ago;

/// List the semaphores and elections below a prefix
#[derive(Args, Clone, Debug)]
pub(crate) struct ListOptions {
    /// The prefix, such as service; the empty text means all of Consul
    prefix: String,
    /// One line of JSON for each
    #[arg(long)]
    json: bool,
}

/// A semaphore or an election.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Found {
    Semaphore {
        prefix: String,
        limit: u32,
        held: usize,
        waiting: usize,
        /// Since when the first in the queue has waited, by its own value.
        oldest_wait: Option<Timestamp>,
    },
    Election {
        key: String,
        /// The leader's value in few words. `None` if nobody leads.
        leader: Option<String>,
        session: Option<String>,
    },
}

pub(crate) fn list(agent: &AgentOptions, options: &ListOptions) -> Result<Exit, Failure> {
    let agent = agent.connect()?;
    let what = format!("what is below {:?}", printable(&options.prefix));
    let found = agent.wait_for(what, options.find(&agent))?;
    if options.json {
        for one in &found {
            print_json(one)?;
        }
    } else {
        print(&table(&found, Timestamp::now()))?;
    }
    Ok(if found.is_empty() {
        Exit::NO
    } else {
        Exit::SUCCESS
    })
}

impl ListOptions {
    async fn find(&self, agent: &Agent) -> Result<Vec<Found>, Failure> {
        let answer = agent.send(self.request(agent)?).await?;
        let list = ListKeys::parse(&answer)?;
        if list.filtered {
            let prefix = self.prefix.clone();
            return Err(Failure::Hidden { prefix });
        }
        let found = list.entries.iter().filter_map(|entry| of(entry, &list));
        found.collect()
    }

    fn request(&self, agent: &Agent) -> Result<Request, Failure> {
        let list = |prefix: &Prefix| {
            let list = ListKeys {
                prefix,
                wait: None,
                consistent: true,
            };
            list.request(&agent.scope())
        };
        if !self.prefix.trim_matches('/').is_empty() {
            return Ok(list(&Prefix::new(&self.prefix)?));
        }
        // The same question about all keys.
        let below = list(&Prefix::new("prefix")?);
        let query = below.target().split_once('?').map_or("", |it| it.1);
        let whole = Request::new(Method::Get, format!("/v1/kv/?{query}"));
        Ok(whole.with_token(agent.token()))
    }
}

/// The semaphore or election that this key belongs to, if it is the main key of one.
fn of(entry: &Entry<'_>, list: &KeyList<'_>) -> Option<Result<Found, Failure>> {
    if entry.flags() == LOCK_FLAGS {
        let value = match entry.value() {
            Ok(value) => value,
            Err(error) => return Some(Err(error.into())),
        };
        let session = entry.session().map(ToOwned::to_owned);
        return Some(Ok(Found::Election {
            key: entry.key().to_owned(),
            leader: session.is_some().then(|| shown(&value)),
            session,
        }));
    }
    let prefix = entry.key().strip_suffix("/.lock")?;
    Record::decode(&entry.value().ok()?, entry.flags()).ok()?;
    let prefix = Prefix::new(prefix).ok()?;
    let below = prefix.directory();
    let entries = list.entries.iter();
    let own = KeyList {
        index: list.index,
        filtered: list.filtered,
        entries: entries
            .filter(|entry| entry.key().starts_with(&below))
            .cloned()
            .collect(),
    };
    Some(of_list(&prefix, &own).map(|overview| Found::Semaphore {
        prefix: overview.prefix,
        limit: overview.limit,
        held: overview.holders.len(),
        waiting: overview.waiters.len(),
        oldest_wait: overview.waiters.iter().filter_map(|it| it.since).min(),
    }))
}

fn table(found: &[Found], now: Timestamp) -> String {
    let rows: Vec<(String, String)> = found
        .iter()
        .map(|one| match one {
            Found::Semaphore {
                prefix,
                limit,
                held,
                waiting,
                oldest_wait,
            } => {
                let mut said = format!("semaphore  {held} of {limit} held, {waiting} waiting");
                if let Some(since) = oldest_wait {
                    let _ = write!(said, ", the oldest since {}", ago(*since, now));
                }
                (printable(prefix), said)
            }
            Found::Election {
                key,
                leader: Some(leader),
                ..
            } => (printable(key), format!("election   led by {leader}")),
            Found::Election { key, .. } => (printable(key), "election   nobody leads".to_owned()),
        })
        .collect();
    let width = rows.iter().map(|(name, _)| name.chars().count()).max();
    let width = width.unwrap_or_default();
    let lines = rows
        .iter()
        .map(|(name, said)| format!("{name:<width$}  {said}\n"));
    lines.collect()
}
