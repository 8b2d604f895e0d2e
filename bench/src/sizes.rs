//! The sizes of real fleets: many slots, and many callers in few processes.
//! Each scene is a row of the table below, with the arguments of `contend` and the targets.

use crate::failure::Failure;
use crate::go::Turns;
use crate::measures::whole;
use crate::ours::{Contend, Figures, Runs};
use crate::row::Row;
use crate::scenes::{Care, Findings, Scene};
use crate::world::World;

/// A scene.
#[derive(Clone, Copy, Debug)]
struct Size {
    scene: Scene,
    who: Who,
    /// Further arguments for `contend`, and what they add to the scene's name.
    more: [&'static str; 2],
    /// How often each caller acquires: usually, and with `--quick`.
    rounds: [u32; 2],
    /// Whether it is left out with `--quick`.
    is_long: bool,
    wants: &'static [Want],
}

#[derive(Clone, Copy, Debug)]
enum Who {
    /// All at once.
    Crowd(Crowd),
    /// One after the other.
    One(u32),
}

/// How many callers contend for how many slots, and how long each holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crowd {
    pub(crate) limit: u32,
    pub(crate) callers: u32,
    pub(crate) processes: u32,
    pub(crate) hold_ms: u32,
}

/// What a figure must reach.
#[derive(Clone, Copy, Debug)]
enum Want {
    /// At least this percentage of the ideal rate.
    Share(f64),
    /// At most this many requests per acquisition.
    Requests(f64),
    /// At most this many Raft writes per acquisition.
    RaftWrites(f64),
    /// At most this many thousand bytes of answers per acquisition.
    Kilobytes(f64),
    /// Each slot is used.
    AllSlots,
    /// Everybody has had a slot after at most this many seconds.
    LongestWait(f64),
    /// At most this many milliseconds for the median release.
    Release(f64),
    /// An acquisition with its release takes at most this many times as long as only its two
    /// transactions.
    ToBareTurn(f64),
}
use Want::{AllSlots, Kilobytes, LongestWait, RaftWrites, Release, Requests, Share, ToBareTurn};

const SIZES: &[Size] = &[
    // A hundred slots. 80 callers never take them all.
    crowd(Scene::Callers, [100, 400, 1, 50]).wants(&[
        Share(90.0),
        AllSlots,
        Requests(0.5),
        Kilobytes(10.0),
    ]),
    crowd(Scene::Callers, [100, 400, 4, 50]).wants(&[
        Share(88.0),
        AllSlots,
        Requests(0.8),
        Kilobytes(10.0),
    ]),
    crowd(Scene::Callers, [100, 400, 20, 50]).wants(&[
        Share(72.0),
        AllSlots,
        Requests(1.3),
        Kilobytes(10.0),
    ]),
    crowd(Scene::Callers, [100, 80, 1, 50])
        .rounds([20, 5])
        .wants(&[Share(90.0)]),
    crowd(Scene::Callers, [100, 80, 4, 50])
        .rounds([20, 5])
        .wants(&[Share(75.0)]),
    crowd(Scene::Callers, [100, 80, 20, 50])
        .rounds([20, 5])
        .wants(&[Share(60.0)]),
    // Few slots, and processes with many callers each.
    crowd(Scene::Few, [3, 100, 1, 10])
        .rounds([20, 4])
        .wants(&[Share(86.0), Requests(1.1)]),
    crowd(Scene::Few, [3, 100, 2, 10])
        .rounds([20, 4])
        .wants(&[Share(85.0)]),
    crowd(Scene::Few, [3, 100, 4, 10])
        .rounds([20, 4])
        .wants(&[Share(85.0), Requests(1.5)]),
    crowd(Scene::Few, [3, 60, 15, 10])
        .rounds([20, 4])
        .wants(&[Share(85.0), Requests(2.2)]),
    crowd(Scene::Few, [3, 100, 15, 10])
        .rounds([20, 4])
        .wants(&[Share(80.0)]),
    // A limit that is never reached.
    crowd(Scene::Unreached, [100, 90, 90, 2_000])
        .rounds([6, 2])
        .wants(&[Share(95.0), Requests(3.0), Kilobytes(5.0)]),
    crowd(Scene::Unreached, [100, 48, 48, 20])
        .rounds([50, 10])
        .wants(&[Share(90.0)]),
    // A few processes with one caller each.
    crowd(Scene::Handles, [2, 4, 4, 10])
        .rounds([200, 50])
        .wants(&[Share(85.0)]),
    crowd(Scene::Handles, [2, 8, 8, 10])
        .rounds([100, 25])
        .wants(&[Share(85.0)]),
    crowd(Scene::Handles, [2, 9, 9, 10])
        .rounds([100, 25])
        .wants(&[Share(85.0)]),
    // Many permits of one handle at the same time.
    crowd(Scene::Permits, [5_000, 1_000, 1, 15_000])
        .rounds([1, 1])
        .wants(&[LongestWait(2.0)]),
    crowd(Scene::Permits, [5_000, 2_000, 1, 15_000])
        .rounds([1, 1])
        .long()
        .wants(&[LongestWait(10.0)]),
    crowd(Scene::Permits, [5_000, 5_000, 1, 15_000])
        .rounds([1, 1])
        .long()
        .wants(&[LongestWait(10.0)]),
    // There are no other callers.
    one(Scene::Second, 3, "second semaphore of a process, cold")
        .told("--cold --transports client --warm-up 5")
        .rounds([200, 50])
        .wants(&[Requests(2.0), RaftWrites(2.0)]),
    one(Scene::Release, 31, "31 slots at once")
        .told("--slots 31 --warm-up 2")
        .rounds([20, 5])
        .wants(&[Release(20.0)]),
    one(Scene::Turn, 3, "cycle, warm, tokio")
        .told("--warm-up 20")
        .rounds([300, 100])
        .wants(&[ToBareTurn(1.3)]),
    one(Scene::Turn, 3, "cycle, warm, threads")
        .told("--warm-up 20 --backend threads")
        .rounds([300, 100])
        .wants(&[ToBareTurn(1.3)]),
    one(Scene::Turn, 3, "cycle, warm, smol")
        .told("--warm-up 20 --backend smol")
        .rounds([300, 100])
        .wants(&[ToBareTurn(1.3)]),
];

const fn crowd(scene: Scene, [limit, callers, processes, hold_ms]: [u32; 4]) -> Size {
    let crowd = Crowd {
        limit,
        callers,
        processes,
        hold_ms,
    };
    Size {
        scene,
        who: Who::Crowd(crowd),
        more: ["", ""],
        rounds: [5, 2],
        is_long: false,
        wants: &[],
    }
}

const fn one(scene: Scene, limit: u32, name: &'static str) -> Size {
    Size {
        who: Who::One(limit),
        more: ["", name],
        ..crowd(scene, [0; 4])
    }
}

impl Size {
    const fn rounds(self, rounds: [u32; 2]) -> Self {
        Self { rounds, ..self }
    }

    const fn told(self, args: &'static str) -> Self {
        let [_, name] = self.more;
        Self {
            more: [args, name],
            ..self
        }
    }

    const fn long(self) -> Self {
        Self {
            is_long: true,
            ..self
        }
    }

    const fn wants(self, wants: &'static [Want]) -> Self {
        Self { wants, ..self }
    }

    fn name(&self) -> String {
        let [_, more] = self.more;
        let mut name = match self.who {
            Who::One(_) => return more.to_owned(),
            Who::Crowd(crowd) => crowd.name(),
        };
        if !more.is_empty() {
            name = format!("{name}, {more}");
        }
        name
    }

    fn args(&self, care: Care) -> String {
        let [rounds, fewer] = self.rounds;
        let rounds = if care.quick { fewer } else { rounds };
        let [more, _] = self.more;
        match self.who {
            Who::One(limit) => format!("--mode cycle --limit {limit} --rounds {rounds} {more}"),
            Who::Crowd(crowd) => format!("{} --rounds {rounds} {more}", crowd.args()),
        }
    }

    fn limit(&self) -> u32 {
        match self.who {
            Who::One(limit) | Who::Crowd(Crowd { limit, .. }) => limit,
        }
    }

    fn measure(
        &self,
        number: usize,
        world: &World,
        care: Care,
        found: &mut Findings,
    ) -> Result<(), Failure> {
        let prefix = format!("bench/size-{number}");
        // To this agent, many processes are one client, since all have the same address.
        let agent = match self.who {
            Who::Crowd(crowd) if crowd.processes > 10 => world.raised()?,
            _ => world.agent()?,
        };
        let contend = Contend::at(&agent.url())?;
        let runs = contend.runs(&self.args(care), &prefix, care.runs)?;
        let go = match self.who {
            Who::Crowd(crowd) if self.is_beside_go() => found.turns_of_go(crowd, world, care)?,
            _ => None,
        };
        let name = self.name();
        let rows = self
            .wants
            .iter()
            .map(|want| want.row(&name, self, &runs, go));
        found.rows.extend(rows);
        let most = u64::from(self.limit());
        let wrong = runs.worst(|it| whole(Some(it.errors + it.max_held.saturating_sub(most))));
        let wrong = Row::new(&name, "errors, and held beyond the limit", wrong);
        found.rows.push(wrong.at_most(0.0));
        Ok(())
    }

    /// Whether Go's client can do it, too.
    fn is_beside_go(&self) -> bool {
        matches!(
            self.scene,
            Scene::Callers | Scene::Few | Scene::Unreached | Scene::Handles
        )
    }
}

impl Crowd {
    pub(crate) fn name(self) -> String {
        let Self {
            limit,
            callers,
            processes,
            hold_ms,
        } = self;
        let within = if processes == 1 {
            "process"
        } else {
            "processes"
        };
        format!("limit {limit}, {hold_ms} ms, {callers} callers in {processes} {within}")
    }

    pub(crate) fn args(self) -> String {
        let Self {
            limit,
            callers,
            processes,
            hold_ms,
        } = self;
        format!(
            "--limit {limit} --contenders {callers} --participants {processes} --hold-ms {hold_ms}"
        )
    }

    /// Whether the two differ at most in the number of processes.
    pub(crate) fn is_like(self, other: Self) -> bool {
        let processes = self.processes;
        self == Self { processes, ..other }
    }
}

impl Want {
    fn row(self, name: &str, size: &Size, runs: &Runs, go: Option<Turns>) -> Row {
        let median = |figure: &dyn Fn(&Figures) -> f64| runs.median(figure);
        match self {
            Share(least) => {
                let rate = median(&|it| it.acquisitions_per_s);
                let ideal = median(&|it| it.ideal_per_s.unwrap_or(f64::NAN));
                Row::new(name, "turns per second", rate)
                    .floor(ideal)
                    .at_least(least / 100.0 * ideal)
                    .peer(go.map(|go| go.per_s))
            }
            Requests(most) => {
                let requests = median(&|it| it.http_requests_per_acquisition);
                Row::new(name, "requests per acquisition", requests)
                    .floor(2.0)
                    // The slots that are held meanwhile add a few renewals per hundred
                    // acquisitions.
                    .at_most(most + 0.05)
                    .peer(go.map(|go| go.requests))
            }
            RaftWrites(most) => {
                let writes = median(&|it| it.raft_writes_per_acquisition);
                Row::new(name, "Raft writes per acquisition", writes)
                    .floor(2.0)
                    .at_most(most)
            }
            Kilobytes(most) => {
                let bytes = median(&|it| it.bytes_down_per_acquisition);
                Row::new(name, "kB received per acquisition", bytes / 1e3).at_most(most)
            }
            AllSlots => {
                let held = median(&|it| whole(Some(it.max_held)));
                Row::new(name, "held at once", held).at_least(f64::from(size.limit()))
            }
            LongestWait(most) => {
                let wait = runs.worst(|it| it.wait_max_ms);
                Row::new(name, "all had one after, s", wait / 1e3).at_most(most)
            }
            Release(most) => {
                let release = median(&|it| it.release_p50_ms);
                Row::new(name, "p50 of release, ms", release).at_most(most)
            }
            ToBareTurn(most) => {
                let bare = |it: &Figures| it.bare_turn_p50_us.unwrap_or(f64::NAN);
                let turn = median(&|it| it.cycle_p50_us / bare(it));
                Row::new(
                    name,
                    "p50 of acquire and release, in two transactions",
                    turn,
                )
                .floor(1.0)
                .at_most(most)
            }
        }
    }
}

/// Runs the rows of one scene.
///
/// # Errors
/// [`Failure`] if one can't be run to its end.
pub(crate) fn measure(
    scene: Scene,
    world: &World,
    care: Care,
    found: &mut Findings,
) -> Result<(), Failure> {
    for (number, size) in SIZES.iter().enumerate() {
        if size.scene == scene && !(size.is_long && care.quick) {
            size.measure(number, world, care, found)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_a_name_and_something_to_reach() {
        let mut names: Vec<_> = SIZES.iter().map(Size::name).collect();
        assert!(SIZES.iter().all(|size| !size.wants.is_empty()));
        names.sort();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn contend_is_told_what_the_row_says() {
        let size = crowd(Scene::Handles, [2, 10, 5, 20])
            .told("--value-bytes 9")
            .rounds([7, 3]);
        let care = |quick| Care { runs: 1, quick };
        let args = "--limit 2 --contenders 10 --participants 5 --hold-ms 20";
        assert_eq!(
            size.args(care(false)),
            format!("{args} --rounds 7 --value-bytes 9")
        );
        assert_eq!(
            size.args(care(true)),
            format!("{args} --rounds 3 --value-bytes 9")
        );
        assert_eq!(size.name(), "limit 2, 20 ms, 10 callers in 5 processes");
    }
}
