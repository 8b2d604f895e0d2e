//! Judges the logs of a run.
//!
//! The crate `judge` judges what the simulator judges, too. `told` translates the logs for it.

mod acquires;
mod delays;
mod farewells;
mod followers;
mod holds;
mod lease;
mod leftovers;
mod losses;
mod reach;
mod report;
mod sessions;
#[cfg(test)]
mod story;
mod told;
mod turns;

use std::fs;

use serde::de::DeserializeOwned;

use crate::diary::{self, Line};
use crate::failure::{Failure, Try as _};
use crate::moment::Moment;
use crate::record::{
    Belief, Deed, End, Folder, Hold, Kind, Phase, Run, Sighting, Standing, Target, What,
};
pub use report::{Figures, Report};

/// Everything that a run has written.
#[derive(Clone, Debug)]
pub struct Logs {
    /// The decisions before the run.
    pub run: Run,
    /// The beliefs of each incarnation of each client.
    pub clients: Vec<ClientLog>,
    /// What the children of `consul lock` wrote.
    pub locks: Vec<Line<Hold>>,
    /// What the nemesis did.
    pub deeds: Vec<Line<Deed>>,
    /// What the witnesses saw.
    pub sightings: Vec<Line<Sighting>>,
    /// Who stood in the queues.
    pub queues: Vec<Line<Standing>>,
    /// What was left at the end.
    pub end: End,
}

/// The log of one process.
#[derive(Clone, Debug)]
pub struct ClientLog {
    /// The number of the client.
    pub client: usize,
    /// How often the client had been started by then, from 1.
    pub incarnation: u32,
    /// The lines in the order in which they were written.
    pub lines: Vec<Line<Belief>>,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which promise was broken.
    pub invariant: Invariant,
    /// The place, or an empty text.
    pub place: String,
    /// What happened.
    pub story: String,
}

/// A promise, with the names from the semaphore's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// S1: never more than the limit believe that they hold.
    Limit,
    /// S2: belief ends with the lease.
    Lease,
    /// S5: tokens rise.
    Fencing,
    /// L1: every waiter gets in, and every acquisition ends.
    Admission,
    /// L2: nothing is left.
    NothingLeft,
    /// Queue: waiters are served in the order in which they came.
    Queue,
    /// L4: a transient failure costs nothing while the lease lasts.
    TransientFailures,
    /// Nobody leads until the session of a killed leader and its lock delay have ended.
    LockDelay,
    /// Followers see an election's leaders in order, and its final state.
    Discovery,
    /// No process crashes.
    NoCrash,
}

impl ClientLog {
    fn name(&self) -> String {
        format!("client {}-{}", self.client, self.incarnation)
    }

    /// Names an acquisition of this client.
    fn acquire(&self, acquire: u64) -> String {
        format!("{} acquire {acquire}", self.name())
    }

    /// The place of an acquisition.
    fn place(&self, number: u64) -> &str {
        let wanted = self.lines.iter().find_map(|line| match &line.event {
            Belief::Wanted {
                acquire, prefix, ..
            } if *acquire == number => Some(prefix.as_str()),
            _ => None,
        });
        wanted.unwrap_or_default()
    }

    fn has_stopped(&self) -> bool {
        self.lines.last().map(|line| &line.event) == Some(&Belief::Stopped)
    }
}

impl Invariant {
    /// The name in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Limit => "S1 (never more than the limit believe that they hold)",
            Self::Lease => "S2 (belief ends with the lease, a tenth of the TTL before Consul's)",
            Self::Fencing => "S5 (tokens rise strictly)",
            Self::Admission => "L1 (every acquisition ends, and all slots can be had again)",
            Self::Queue => "Queue (waiters are served in the order in which they came)",
            Self::NothingLeft => "L2 (nothing is left behind)",
            Self::TransientFailures => {
                "L4 (a transient failure costs nothing while the lease lasts)"
            }
            Self::LockDelay => {
                "lock delay (nobody leads while the session of a killed leader, or its delay, lasts)"
            }
            Self::Discovery => {
                "discovery (who follows sees the leaders in their order, and the last of all)"
            }
            Self::NoCrash => "no client ends on its own",
        }
    }
}

impl Logs {
    /// Reads the logs of a run.
    ///
    /// # Errors
    /// If one is missing or is not what it should be.
    pub fn read(folder: &Folder) -> Result<Self, Failure> {
        let mut clients = Vec::new();
        let run: Run = json(&folder.run())?;
        for client in 0..run.clients.len() {
            for incarnation in 1.. {
                let path = folder.client(client, incarnation);
                if !path.exists() {
                    break;
                }
                let lines = diary::read(&path).doing("reading a client's log")?;
                clients.push(ClientLog {
                    client,
                    incarnation,
                    lines,
                });
            }
        }
        Ok(Self {
            run,
            clients,
            locks: diary::read(&folder.locks()).doing("reading the log of consul lock")?,
            deeds: diary::read(&folder.deeds()).doing("reading the log of deeds")?,
            sightings: diary::read(&folder.sightings()).doing("reading the log of sightings")?,
            // Earlier runs had none.
            queues: if folder.queues().exists() {
                diary::read(&folder.queues()).doing("reading the log of the queues")?
            } else {
                Vec::new()
            },
            end: json(&folder.end())?,
        })
    }

    /// The place with this prefix.
    fn number(&self, prefix: &str) -> Option<judge::Place> {
        let mut places = self.run.places.iter();
        let number = places.position(|place| place.prefix == prefix)?;
        Some(judge::Place(number))
    }

    /// The kind of the place at this prefix.
    fn what(&self, prefix: &str) -> Option<What> {
        let mut places = self.run.places.iter();
        Some(places.find(|place| place.prefix == prefix)?.what)
    }

    /// When the nemesis killed the process or told it to end in a hurry.
    fn killed_at(&self, log: &ClientLog) -> Option<Moment> {
        self.ended_at(log).map(|(at, _)| at)
    }

    /// When the nemesis ended a process, and how.
    fn ended_at(&self, log: &ClientLog) -> Option<(Moment, Kind)> {
        let is_end = |line: &&Line<Deed>| {
            let Deed {
                deed,
                target,
                phase,
                ..
            } = line.event;
            let begun = (Target::Client(log.client), Phase::Begin);
            matches!(deed, Kind::Kill | Kind::Leave) && (target, phase) == begun
        };
        let number = usize::try_from(log.incarnation).ok()?.checked_sub(1)?;
        let end = self.deeds.iter().filter(is_end).nth(number)?;
        Some((end.at, end.event.deed))
    }
}

fn json<T: DeserializeOwned>(path: &std::path::Path) -> Result<T, Failure> {
    let text = fs::read(path).doing("reading a log")?;
    serde_json::from_slice(&text).doing("reading a log")
}

/// Judges the logs.
pub fn check(logs: &Logs) -> Report {
    let holds = holds::of(logs);
    let sessions = sessions::Sessions::of(logs);
    let mut report = Report::new(logs);
    sessions::count(logs, &holds, &sessions, &mut report);
    told::check(logs, &holds, &sessions, &mut report);
    turns::check(logs, &holds, &mut report);
    acquires::check(logs, &mut report);
    farewells::check(logs, &mut report);
    leftovers::check(logs, &mut report);
    followers::check(logs, &mut report);
    report
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use serde::Serialize;

    use super::story::{Story, millis};
    use super::*;
    use crate::diary::Diary;
    use crate::record::{Sight, Way};

    fn save<E: Serialize + Clone>(path: &Path, lines: &[Line<E>]) {
        let diary = Diary::open(path).unwrap();
        for line in lines {
            diary.write(line.at, line.event.clone()).unwrap();
        }
    }

    #[test]
    fn saved_logs_are_judged_as_they_were() {
        let mut story = Story::new(1);
        story.held(0, 10, 100, 500);
        story.held(1, 11, 400, 600);
        story.wanted(2, 700, 1, Way::Plain);
        story.deed(800, Kind::Kill, Target::Client(2), Phase::Begin);
        story.sighting(900, 0, Some(&["chaos-lock-0-0"]));
        story.lock("chaos-lock-0-0", 850, 950);
        story.saw(950, Sight::Interrupted);
        let again = ClientLog {
            client: 2,
            incarnation: 2,
            lines: vec![Line {
                at: millis(1_000),
                event: Belief::Stopped,
            }],
        };
        story.logs().clients.push(again);
        let logs = story.logs().clone();

        let scratch = tempfile::tempdir().unwrap();
        let folder = Folder(scratch.path().to_owned());
        fs::create_dir(folder.clients()).unwrap();
        fs::write(folder.run(), serde_json::to_vec(&logs.run).unwrap()).unwrap();
        fs::write(folder.end(), serde_json::to_vec(&logs.end).unwrap()).unwrap();
        for log in &logs.clients {
            save(&folder.client(log.client, log.incarnation), &log.lines);
        }
        save(&folder.locks(), &logs.locks);
        save(&folder.deeds(), &logs.deeds);
        save(&folder.sightings(), &logs.sightings);

        let read = Logs::read(&folder).unwrap();
        assert_eq!(read.clients.len(), 5);
        assert_eq!(read.clients[4].lines, logs.clients[3].lines);
        assert_eq!(check(&read).violations, check(&logs).violations);
        assert_eq!(check(&read).figures.overlaps, 1);
        // The killed client need not have ended its acquisition.
        assert_eq!(check(&read).figures.unended, 0);
    }

    #[test]
    fn a_report_names_what_was_violated() {
        let mut story = Story::new(1);
        assert!(story.check().to_string().ends_with("violations: 0\n"));
        story.held(0, 10, 100, 500);
        story.held(1, 11, 400, 600);
        let report = story.check().to_string();
        assert!(report.contains("VIOLATED on chaos/shared: S1"), "{report}");
        assert!(
            report.contains("2 are held at once of 1: client 0-1"),
            "{report}"
        );
    }

    #[test]
    fn it_counts_how_often_two_servers_stood_still_for_longer_than_a_client_waits() {
        let mut story = Story::new(1);
        let mut stop = |server, from, until| {
            story.deed(from, Kind::Stop, Target::Leader(server), Phase::Begin);
            story.deed(until, Kind::Stop, Target::Leader(server), Phase::End);
        };
        stop(0, 1_000, 9_000);
        stop(1, 2_000, 6_000);
        // One server alone, and two for a moment.
        stop(0, 20_000, 40_000);
        stop(2, 39_000, 41_000);
        story.logs().deeds.sort_by_key(|line| line.at);
        story.logs().end.given_up = 7;
        story.logs().end.applied_late = 2;
        let figures = story.check().figures;
        assert_eq!(figures.without_majority, 1);
        assert_eq!(figures.given_up, (7, 2, Duration::ZERO));
    }
}
