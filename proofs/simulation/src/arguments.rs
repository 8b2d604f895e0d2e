//! The command line.

use std::fmt;
use std::num::NonZero;
use std::ops::Range;
use std::str::FromStr;

use lexopt::prelude::*;
use simulation::Figures;
use simulation::branches::{self, Of};
use simulation::check::LEAST_DECIDED;
use simulation::plan::{Place, Plan};

/// What `--help` says.
pub(crate) const USAGE: &str = "\
Runs semaphores and elections through everything that can go wrong, and judges every step.

  --seeds N       how many seeds to try (1000); each is a schedule
  --from SEED     the first seed (0)
  --jobs N        how many threads (as many as there are processors)
  --fail-fast     stop at the first seed that fails
  --no-story      name what failed, without its story
  --digests       a digest of the story of each seed, for a comparison with another state of the code
  --stories       the whole story of each seed, whether it fails or not
  --defect NAME   with this deliberate defect in the semaphore
  --defects       each defect in turn, and the invariant that finds it. The remembered seed comes first;
                  others are tried if it finds nothing
  --search        the same without remembered seeds: how many seeds it takes to find each
  --remember FILE writes into FILE which seed found each
  --only WORLDS   only worlds of one kind: elections; semaphores; shared: one host shares few connections among
                  all that it runs; clients: a host uses a client
  --semaphores N  in every world some hosts share connections among N separate semaphores. By default one world
                  in 32 has such hosts, with 1 to 300
  --most N        how many schedules one defect may survive (5000)
  --help

A run of 600 seeds and more must take every rare branch of the core and let each check decide, of which it says how often.
Exit status: 0 without a violation, 1 with one, with a branch that was never taken or with an idle check, 2 when it was called in a wrong way.";

#[derive(Debug)]
pub(crate) struct Arguments {
    count: u64,
    from: u64,
    pub(crate) jobs: usize,
    pub(crate) fails_fast: bool,
    pub(crate) tells: bool,
    pub(crate) shows: Shows,
    pub(crate) defects: Defects,
    pub(crate) remember: Option<String>,
    pub(crate) most: u64,
    pub(crate) worlds: Worlds,
}

/// Which worlds are drawn, and which of them run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Worlds {
    pub(crate) only: Only,
    /// The number of separate semaphores of hosts that share connections.
    semaphores: Option<usize>,
}

impl fmt::Display for Worlds {
    /// As it is written on the command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.semaphores {
            Some(semaphores) => write!(f, " --semaphores {semaphores}"),
            None => Ok(()),
        }
    }
}

impl Worlds {
    /// The plan of this seed, if it is to run.
    pub(crate) fn plan(self, seed: u64) -> Option<Plan> {
        let plan = match self.semaphores {
            Some(semaphores) => Plan::draw_with_semaphores(seed, semaphores),
            None => Plan::draw(seed),
        };
        Some(plan).filter(|it| self.only.includes(it))
    }
}

/// What to show of each seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shows {
    /// Nothing but what failed.
    #[default]
    Nothing,
    /// A digest of its story.
    Digest,
    /// Its story.
    Story,
}

/// The deliberate defects of the semaphore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Defects {
    /// None.
    #[default]
    None,
    /// The one of this name.
    One(String),
    /// Each in turn. The seed that is remembered for it comes first.
    Remembered,
    /// Each in turn, with one seed after the other.
    Searched,
}

/// Which worlds run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Only {
    /// All.
    #[default]
    Any,
    /// Those with only elections.
    Elections,
    /// Those with only semaphores.
    Semaphores,
    /// Those with hosts that share connections.
    Shared,
    /// Those with hosts that use a client.
    Clients,
}

impl Only {
    fn includes(self, plan: &Plan) -> bool {
        let mut places = plan.prefixes.iter();
        match self {
            Self::Any => true,
            Self::Elections => places.all(Place::is_election) && !plan.has_own(),
            Self::Semaphores => !places.any(Place::is_election),
            Self::Shared => plan.shares_connections(),
            Self::Clients => plan.has_client(),
        }
    }
}

impl FromStr for Only {
    type Err = &'static str;

    fn from_str(places: &str) -> Result<Self, Self::Err> {
        match places {
            "elections" => Ok(Self::Elections),
            "semaphores" => Ok(Self::Semaphores),
            "shared" => Ok(Self::Shared),
            "clients" => Ok(Self::Clients),
            _ => Err("there are elections, semaphores, shared and clients"),
        }
    }
}

/// This many seeds must take every rare branch.
const ENOUGH_SEEDS: u64 = 600;

impl Arguments {
    /// `None` if only help is wanted.
    pub(crate) fn parse() -> Result<Option<Self>, lexopt::Error> {
        let mut arguments = Self {
            count: 1_000,
            from: 0,
            jobs: std::thread::available_parallelism().map_or(1, NonZero::get),
            fails_fast: false,
            tells: true,
            shows: Shows::default(),
            defects: Defects::None,
            remember: None,
            most: 5_000,
            worlds: Worlds::default(),
        };
        let mut parser = lexopt::Parser::from_env();
        while let Some(argument) = parser.next()? {
            match argument {
                Long("seeds") => arguments.count = parser.value()?.parse()?,
                Long("from") => arguments.from = parser.value()?.parse()?,
                Long("jobs") => {
                    let jobs: NonZero<usize> = parser.value()?.parse()?;
                    arguments.jobs = jobs.get();
                }
                Long("fail-fast") => arguments.fails_fast = true,
                Long("digests") => arguments.shows = Shows::Digest,
                Long("stories") => arguments.shows = Shows::Story,
                Long("no-story") => arguments.tells = false,
                Long("defect") => arguments.defects = Defects::One(parser.value()?.string()?),
                Long("defects") => arguments.defects = Defects::Remembered,
                Long("search") => arguments.defects = Defects::Searched,
                Long("remember") => arguments.remember = Some(parser.value()?.string()?),
                Long("only") => arguments.worlds.only = parser.value()?.parse()?,
                Long("semaphores") => {
                    let semaphores: NonZero<usize> = parser.value()?.parse()?;
                    arguments.worlds.semaphores = Some(semaphores.get());
                }
                Long("most") => arguments.most = parser.value()?.parse()?,
                Long("help") => return Ok(None),
                other => return Err(other.unexpected()),
            }
        }
        if arguments.from.checked_add(arguments.count).is_none() {
            return Err("there are no seeds beyond 18446744073709551615".into());
        }
        Ok(Some(arguments))
    }

    /// The branches of the core that this many seeds should have taken, but did not.
    pub(crate) fn branches_missed(&self, figures: &Figures) -> Vec<&'static str> {
        if self.count < ENOUGH_SEEDS || self.defects != Defects::None {
            return Vec::new();
        }
        let of = match self.worlds.only {
            Only::Any => Of::Both,
            // A thousand seeds have some thirty worlds with shared connections. Some branches only
            // appear in other worlds.
            Only::Shared | Only::Clients => return Vec::new(),
            Only::Elections => Of::Elections,
            Only::Semaphores => Of::Semaphores,
        };
        branches::missed(&figures.branches, of)
    }

    /// The checks that decided less often than so many seeds must lead them to.
    pub(crate) fn idle_checks(&self, figures: &Figures) -> Vec<String> {
        let all_worlds = self.worlds == Worlds::default();
        if self.count < ENOUGH_SEEDS || self.defects != Defects::None || !all_worlds {
            return Vec::new();
        }
        let decided = |name| figures.checks.get(name).map_or(0, |counts| counts.decided);
        let idle = LEAST_DECIDED
            .iter()
            .filter(|(name, least)| decided(name) < *least);
        let said = idle.map(|(name, least)| {
            let decided = decided(name);
            format!("the check {name:?} decided {decided} times; {least} are the least")
        });
        said.collect()
    }

    pub(crate) fn seeds(&self) -> Range<u64> {
        self.from..self.from + self.count
    }
}
