//! `status`: who holds and who waits, once or as it changes.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::mem;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use semaphore_core::adapter::Runtime as _;
use semaphore_core::sans_io::Index;

use crate::agent::{Agent, AgentOptions};
use crate::cli::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::identity::{printable, semaphore};
use crate::output::{print, print_json, redraw};
use crate::overview::{Member, Overview, Reader};
use crate::queue::clock;
use crate::text;
use crate::timeline::Timeline;

/// Show who holds a semaphore and who waits
#[derive(Args, Clone, Debug)]
pub(crate) struct StatusOptions {
    /// The semaphore, such as service/db
    prefix: String,
    /// Show each change, and who held when
    #[arg(long)]
    watch: bool,
    /// One line of JSON for each state
    #[arg(long)]
    json: bool,
}

/// How long one request waits for a change. An index that has gone backwards is seen only after it.
const POLL: Duration = Duration::from_secs(10);

/// The pause after a read. A gateway may answer polls at once, whether something changed or not.
const BETWEEN: Duration = Duration::from_millis(100);

/// The pause between two tries while Consul does not answer, and between two reads that can't wait.
const PAUSE: Duration = Duration::from_secs(1);

const WITHOUT_INDEX: &str = "the answers have no X-Consul-Index, as if a gateway had dropped that header: without it nothing \
                             can be waited for, so it is read once a second";

pub(crate) fn status(agent: &AgentOptions, options: &StatusOptions) -> Result<Exit, Failure> {
    let agent = agent.connect()?;
    agent.wait_for(semaphore(&options.prefix), options.show(&agent))
}

impl StatusOptions {
    async fn show(&self, agent: &Agent) -> Result<Exit, Failure> {
        let mut reader = Reader::new(agent, &self.prefix)?;
        if self.watch {
            return self.watch(agent, &mut reader).await;
        }
        let (_, overview) = reader.read(None).await?;
        if self.json {
            print_json(&overview)?;
        } else {
            print(&table(&overview, Timestamp::now()))?;
        }
        Ok(Exit::SUCCESS)
    }

    /// Only the first read must succeed: later the semaphore may be deleted and created again, and
    /// Consul may be away.
    async fn watch(&self, agent: &Agent, reader: &mut Reader<'_>) -> Result<Exit, Failure> {
        let mut timeline = Timeline::default();
        let mut wait = None;
        let mut shown = None;
        let mut trouble = None;
        let mut can_wait = true;
        loop {
            match reader.read(wait).await {
                Ok((index, overview)) => {
                    wait = next(wait, index);
                    trouble = None;
                    if shown.as_ref() != Some(&overview) {
                        let now = Timestamp::now();
                        timeline.note(&overview, now);
                        self.draw(&overview, &timeline, now)?;
                        shown = Some(overview);
                    }
                    if index != Index::ZERO {
                        agent.transport.sleep(BETWEEN).await;
                        continue;
                    }
                    // Some of several gateways may drop it, so it is said once.
                    if mem::take(&mut can_wait) {
                        self.tell(agent, WITHOUT_INDEX);
                    }
                    agent.transport.sleep(PAUSE).await;
                }
                Err(failure) if shown.is_some() && may_pass(&failure) => {
                    // An agent that was restarted may count from the beginning.
                    wait = None;
                    let why = failure.whole();
                    if trouble.as_ref() != Some(&why) {
                        self.tell(agent, &format!("not up to date: {why}"));
                        trouble = Some(why);
                    }
                    agent.transport.sleep(PAUSE).await;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    fn tell(&self, agent: &Agent, what: &str) {
        let place = agent.place(semaphore(&self.prefix));
        let line = format!("consul-semaphore: {place}: {what}\n");
        // If the output is closed, nobody can be told that either.
        let _ = io::stderr().write_all(text::safe(&line).as_bytes());
    }

    fn draw(
        &self,
        overview: &Overview,
        timeline: &Timeline,
        now: Timestamp,
    ) -> Result<(), Failure> {
        if self.json {
            return print_json(overview);
        }
        redraw(&format!(
            "{}{}\n",
            table(overview, now),
            timeline.drawn(now)
        ))
    }
}

/// Whether a later read may succeed.
fn may_pass(failure: &Failure) -> bool {
    match failure {
        Failure::NoSemaphore => true,
        Failure::Request(error) => !error.is_permanent(),
        _ => false,
    }
}

/// If the index went backwards, or there is none, the watch starts again.
fn next(wait: Option<(Index, Duration)>, index: Index) -> Option<(Index, Duration)> {
    match wait {
        Some((before, _)) if index < before => None,
        _ if index == Index::ZERO => None,
        _ => Some((index, POLL)),
    }
}

/// A table that is readable without colours.
fn table(overview: &Overview, now: Timestamp) -> String {
    let Overview {
        prefix,
        limit,
        holders,
        waiters,
    } = overview;
    let mut text = format!(
        "{prefix}: {} of {limit} held, {} waiting\n",
        holders.len(),
        waiters.len()
    );
    let held = holders.iter().map(|member| ("held".to_owned(), member));
    let waits = waiters.iter().zip(1..);
    let waits = waits.map(|(member, place)| (format!("waits {place}"), member));
    let rows: Vec<_> = held.chain(waits).collect();
    let states = rows.iter().map(|(state, _)| state.chars().count());
    let states = states.max().unwrap_or_default();
    let width = rows.iter().map(|(_, member)| member.value.chars().count());
    let width = width.max().unwrap_or_default();
    for (state, member) in rows {
        let Member {
            session,
            value,
            since,
            node,
            alive,
            ..
        } = member;
        let since = since.map_or_else(|| "-".to_owned(), |since| ago(since, now));
        let node = printable(node.as_deref().unwrap_or("-"));
        let remark = if *alive {
            ""
        } else {
            "  its session has ended; free when its lock delay is over"
        };
        let _ = writeln!(
            text,
            "  {state:<states$}  {value:<width$}  since {since:<20}  node {node}  session {session}{remark}"
        );
    }
    text
}

/// `12:00:01 (35s)`. A clock that is ahead of ours does not begin in the future.
pub(crate) fn ago(since: Timestamp, now: Timestamp) -> String {
    let since = since.min(now);
    let past = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    format!("{} ({})", clock(since), duration::shown(past))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_goes_backwards_or_is_missing_starts_anew() {
        let first = next(None, Index(7));
        assert_eq!(first, Some((Index(7), POLL)));
        assert_eq!(next(first, Index(9)), Some((Index(9), POLL)));
        assert_eq!(next(first, Index(3)), None);
        assert_eq!(next(None, Index::ZERO), None);
    }
}
