//! The scenes and their targets.

use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use examples::gauge::most_at_once;

use crate::failure::Failure;
use crate::go::{self, Turns};
use crate::leading::{self, Contest, Size};
use crate::measures::{
    errors, in_puts, limit_kept, mean_hold, percent, point, rate, requests, times, whole,
};
use crate::ours::{Figures, Runs};
use crate::peer::{self, Cost, Lockers};
use crate::plot::{Point, Series};
use crate::row::Row;
use crate::sizes::{self, Crowd};
use crate::world::World;
use crate::{election, fleet, pairs};

/// A scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scene {
    /// `consul lock -n`, alone and in crowds: the other scenes are compared with it
    Peer,
    /// One caller that acquires and releases, with sessions that are kept
    Cycle,
    /// The same with a new semaphore each time
    Cold,
    /// One participant with many contenders
    Contenders,
    /// A hundred contenders on threads
    Threads,
    /// A hundred contenders on smol
    Smol,
    /// Many participants with one contender each
    Participants,
    /// Three participants beside three `consul lock`
    Beside,
    /// One caller that only holds
    Hold,
    /// Leaders that follow one another, beside `consul lock -n 1`
    Election,
    /// Leading as services do it, beside Go's client
    Leading,
    /// A cluster of three servers
    Cluster,
    /// Many semaphores of one process
    Fleet,
    /// The second semaphore of a process
    Second,
    /// A hundred slots, and hundreds of callers
    Callers,
    /// Three slots, and processes with many callers each
    Few,
    /// A limit that is never reached
    Unreached,
    /// Two slots, and processes with one caller each
    Handles,
    /// One semaphore below the other
    Nested,
    /// Thousands of permits of one handle
    Permits,
    /// A new semaphore for each turn
    Built,
    /// Many slots given back at once
    Release,
    /// A turn on each backend, compared with only its two transactions
    Turn,
}

/// All figures so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// For the table.
    pub(crate) rows: Vec<Row>,
    /// For the plot.
    pub(crate) points: Vec<Point>,
    /// `consul lock` alone: requests for an acquisition.
    peer_alone: Option<f64>,
    /// `consul lock` in crowds.
    peer_crowds: Vec<Cost>,
    /// Callers of Go's client.
    go_crowds: Vec<(Crowd, Option<Turns>)>,
}

/// How thoroughly to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Care {
    /// How often each scene is run.
    pub(crate) runs: usize,
    /// Whether to leave out what takes long.
    pub(crate) quick: bool,
}

const LIMIT: &str = "--limit 3 --hold-ms 10 --timeout-s 60";

impl Scene {
    /// Runs the scene and adds its figures.
    ///
    /// # Errors
    /// [`Failure`] if it can't be run to its end.
    pub(crate) fn measure(
        self,
        world: &World,
        care: Care,
        found: &mut Findings,
    ) -> Result<(), Failure> {
        match self {
            Self::Peer => peers(world, care, found),
            Self::Cycle => cycle(world, care, found),
            Self::Cold => cold(world, care, found),
            Self::Contenders => contenders(world, care, found),
            Self::Threads => backend("threads", world, care, found),
            Self::Smol => backend("smol", world, care, found),
            Self::Participants => participants(world, care, found),
            Self::Beside => beside(world, found),
            Self::Hold => hold(world, care, found),
            Self::Election => elections(world, care, found),
            Self::Leading => leading(world, care, found),
            Self::Cluster => cluster(world, care, found),
            Self::Fleet => fleet::measure(world, care, found),
            Self::Nested => pairs::nested(world, care, found),
            Self::Built => pairs::built(world, care, found),
            Self::Second
            | Self::Callers
            | Self::Few
            | Self::Unreached
            | Self::Handles
            | Self::Permits
            | Self::Release
            | Self::Turn => sizes::measure(self, world, care, found),
        }
    }
}

fn peers(world: &World, care: Care, found: &mut Findings) -> Result<(), Failure> {
    let agent = world.agent()?;
    let alone = peer::alone(agent, peer::LIMIT)?;
    found.peer_alone = Some(alone);
    let requests = "requests per acquisition";
    found
        .rows
        .push(Row::new("`consul lock -n 3`, nobody else", requests, alone).floor(2.0));
    let crowds: &[usize] = if care.quick { &[15] } else { &[15, 30] };
    for waiters in crowds {
        let cost = peer::crowd(agent, peer::LIMIT, *waiters)?;
        let scene = format!("`consul lock -n 3`, {waiters} wait");
        found.rows.extend([
            Row::new(&scene, "handoffs per second", cost.per_s).floor(300.0),
            Row::new(&scene, requests, cost.requests).floor(2.0),
            Row::new(&scene, "connections", cost.connections),
        ]);
        found.points.push(Point {
            series: Series::Peer,
            waiters: *waiters,
            requests: cost.requests,
            per_s: cost.per_s,
        });
        found.peer_crowds.push(cost);
    }
    Ok(())
}

fn cycle(world: &World, care: Care, found: &mut Findings) -> Result<(), Failure> {
    let args = "--mode cycle --warm-up 20 --rounds 300";
    let runs = world.contend()?.runs(args, "bench/cycle", care.runs)?;
    let scene = "cycle, warm";
    let requests = requests(scene, &runs, found.peer_alone);
    found.rows.extend([
        requests.at_most(2.05),
        in_puts(scene, &runs, 0.0).at_most(2.4),
    ]);
    found.rows.extend(times(scene, &runs));
    found.rows.push(errors(scene, &runs));
    Ok(())
}

fn cold(world: &World, care: Care, found: &mut Findings) -> Result<(), Failure> {
    let args = "--mode cycle --cold --warm-up 5 --rounds 100";
    let runs = world.contend()?.runs(args, "bench/cold", care.runs)?;
    let scene = "cycle, cold";
    let writes = runs.median(|figures| figures.raft_writes_per_acquisition);
    let requests = requests(scene, &runs, found.peer_alone);
    found.rows.extend([
        requests.at_most(5.0),
        Row::new(scene, "Raft writes per acquisition", writes)
            .floor(2.0)
            .at_most(4.0),
        // This includes creating and destroying the session.
        in_puts(scene, &runs, 2.0).at_most(5.5),
    ]);
    found.rows.extend(times(scene, &runs));
    found.rows.push(errors(scene, &runs));
    Ok(())
}

fn contenders(world: &World, care: Care, found: &mut Findings) -> Result<(), Failure> {
    let crowds: &[usize] = if care.quick {
        &[15, 100]
    } else {
        &[15, 100, 1000]
    };
    for waiters in crowds {
        let args = format!("--participants 1 --contenders {waiters} {LIMIT}");
        let prefix = format!("bench/contenders-{waiters}");
        let runs = world.contend()?.runs(&args, &prefix, care.runs)?;
        let scene = format!("1 participant, {waiters} contenders");
        let peer = found.peer_of(*waiters);
        let mut requests = requests(&scene, &runs, peer.map(|peer| peer.requests));
        // Eleven sessions begin and end in the turns of fifteen: there is nothing to share that by.
        let least = (*waiters > 15).then_some(0.86);
        if least.is_some() {
            requests = requests.at_most(1.1);
        }
        let connections = runs.worst(|figures| whole(figures.peak_connections));
        let connections = Row::new(&scene, "connections", connections).at_most(8.0);
        found.rows.extend([
            rate(&scene, &runs, least, peer),
            requests,
            connections.peer(peer.map(|peer| peer.connections)),
            mean_hold(&scene, &runs),
            limit_kept(&scene, &runs),
            errors(&scene, &runs),
        ]);
        found
            .points
            .push(point(Series::OneParticipant, *waiters, &runs));
    }
    Ok(())
}

fn backend(name: &str, world: &World, care: Care, found: &mut Findings) -> Result<(), Failure> {
    let args = format!("--backend {name} --participants 1 --contenders 100 {LIMIT}");
    let prefix = format!("bench/{name}");
    let runs = world.contend()?.runs(&args, &prefix, care.runs)?;
    let scene = format!("1 participant, 100 contenders, {name}");
    found.rows.extend([
        rate(&scene, &runs, Some(0.86), None),
        requests(&scene, &runs, None),
        mean_hold(&scene, &runs),
        limit_kept(&scene, &runs),
        errors(&scene, &runs),
    ]);
    Ok(())
}

/// Those of several turns have their sessions all the time. The others count also what begins and ends with a session.
fn participants(world: &World, care: Care, found: &mut Findings) -> Result<(), Failure> {
    let crowds: &[(usize, u32)] = if care.quick {
        &[(15, 20), (50, 10), (100, 1)]
    } else {
        &[
            (15, 1),
            (15, 20),
            (30, 1),
            (50, 1),
            (50, 10),
            (100, 1),
            (200, 1),
            (400, 1),
        ]
    };
    let mut at_fifty = None;
    for (waiters, turns) in crowds {
        let args =
            format!("--participants {waiters} --contenders {waiters} --rounds {turns} {LIMIT}");
        let prefix = format!("bench/participants-{waiters}-{turns}");
        let runs = world.contend_from_many()?.runs(&args, &prefix, care.runs)?;
        let is_once = *turns == 1;
        let scene = if is_once {
            format!("{waiters} participants")
        } else {
            format!("{waiters} participants, {turns} turns each")
        };
        let peer = found.peer_of(*waiters).filter(|_| is_once);
        let mut requests = requests(&scene, &runs, peer.map(|peer| peer.requests));
        // The others are only there for the comparison with as many `consul lock`, and for the plot.
        let (least, most) = match (waiters, is_once) {
            (15 | 50, false) => (Some(0.78), Some(8.0)),
            (100, true) => (Some(0.66), Some(8.0)),
            (400, true) => (Some(0.55), Some(9.0)),
            _ => (None, None),
        };
        if let Some(most) = most {
            requests = requests.at_most(most);
        }
        if *waiters == 50 && is_once {
            at_fifty = Some(requests.reached);
        }
        let growth = at_fifty.filter(|_| *waiters == 400).map(|fewer| {
            let growth = requests.reached / fewer;
            Row::new(&scene, "requests per acquisition, to those of 50", growth).at_most(1.2)
        });
        let out_of_order = runs.worst(|figures| percent(figures.served_out_of_order));
        let out_of_order = Row::new(&scene, "pairs out of order, %", out_of_order);
        found
            .rows
            .extend([rate(&scene, &runs, least, peer), requests]);
        found.rows.extend(growth);
        found.rows.extend([
            if *waiters >= 50 {
                out_of_order.at_most(1.0)
            } else {
                out_of_order
            },
            limit_kept(&scene, &runs),
            errors(&scene, &runs),
        ]);
        if is_once {
            let point = point(Series::Participants, *waiters, &runs);
            found.points.push(point);
        }
    }
    Ok(())
}

fn beside(world: &World, found: &mut Findings) -> Result<(), Failure> {
    const OURS: u64 = 3 * 30;
    const TURNS: usize = 4;
    let lockers = Lockers::new(world.agent()?, "bench/beside", peer::LIMIT)?;
    let contend = world.contend()?;
    let args = "--participants 3 --contenders 3 --rounds 30 --limit 3 --hold-ms 50";
    let turns = || {
        (0..TURNS)
            .filter(|_| lockers.lock_once(200).is_ok())
            .count()
    };
    let (ours, theirs) = thread::scope(|scope| {
        let turns: Vec<_> = (0..3).map(|_| scope.spawn(turns)).collect();
        let ours: Result<Figures, _> = contend.run(args, "bench/beside", Some(&lockers.holds()));
        let theirs = turns
            .into_iter()
            .map(|turns| turns.join().unwrap_or_default());
        (ours, theirs.sum::<usize>())
    });
    let ours = ours?;
    let beliefs = lockers.beliefs()?;
    let scene = "3 participants beside 3 `consul lock -n 3`";
    let most = whole(u64::try_from(most_at_once(&beliefs)).ok());
    let missing = OURS.saturating_sub(ours.acquisitions);
    let missing = missing + u64::try_from((3 * TURNS).saturating_sub(theirs)).unwrap_or(u64::MAX);
    found.rows.extend([
        Row::new(scene, "held at once, by both", most).at_most(3.0),
        Row::new(scene, "not admitted, of 102", whole(Some(missing))).at_most(0.0),
        errors(scene, &ours.into()),
    ]);
    Ok(())
}

fn hold(world: &World, care: Care, found: &mut Findings) -> Result<(), Failure> {
    let seconds: u32 = if care.quick { 15 } else { 60 };
    let args = format!("--mode hold --hold-ms {seconds}000");
    let once: Figures = world.contend()?.run(&args, "bench/hold", None)?;
    let runs = Runs::from(once);
    let scene = format!("steady hold, {seconds} s");
    let share = f64::from(seconds) / 60.0;
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let [renewals, watches] = [
        runs.worst(|figures| figures.session_renews as f64),
        runs.worst(|figures| figures.kv_watches as f64),
    ];
    found.rows.extend([
        // At most one per sixteenth of 15 s: often enough for the silence of PROMISES, whenever
        // it begins.
        Row::new(&scene, "renewals", renewals).at_most((64.0 * share).ceil()),
        Row::new(&scene, "watch requests", watches).at_most((5.0 * share).ceil()),
        errors(&scene, &runs),
    ]);
    Ok(())
}

fn elections(world: &World, care: Care, found: &mut Findings) -> Result<(), Failure> {
    let agent = world.agent()?;
    let requests = "requests per leadership";
    let alone = election::alone(agent)?;
    let peer = peer::alone(agent, peer::ONE)?;
    let row = Row::new("1 candidate", requests, alone).floor(2.0);
    found.rows.push(row.peer(Some(peer)));
    let crowds: &[usize] = if care.quick { &[3] } else { &[3, 15] };
    for waiters in crowds {
        let ours = election::crowd(agent, *waiters, care.runs)?;
        let peer = peer::crowd(agent, peer::ONE, *waiters)?;
        let scene = format!("{waiters} candidates wait");
        let rate = Row::new(&scene, "handoffs per second", ours.per_s);
        let count = Row::new(&scene, requests, ours.requests);
        found.rows.extend([
            rate.floor(election::IDEAL_PER_S).peer(Some(peer.per_s)),
            count.floor(2.0).peer(Some(peer.requests)),
        ]);
    }
    Ok(())
}

/// Beside Go's client, where Go is installed.
fn leading(world: &World, care: Care, found: &mut Findings) -> Result<(), Failure> {
    let agent = world.agent()?;
    let url = agent.url();
    let at_once = Size {
        candidates: 20,
        terms: 500,
        term: Duration::ZERO,
    };
    let middle = |contest: &dyn Fn(usize) -> Result<Option<Contest>, Failure>| {
        let mut all = (0..care.runs)
            .map(contest)
            .collect::<Result<Option<Vec<_>>, _>>()?;
        if let Some(all) = &mut all {
            all.sort_by(|a, b| a.terms_per_s.total_cmp(&b.terms_per_s));
        }
        Ok::<_, Failure>(all.and_then(|all| all.get(all.len() / 2).copied()))
    };
    let go = middle(&|run| leading::go_contest(&url, &format!("bench/go-{run}"), at_once))?;
    for share in ["nothing", "handle", "client"] {
        let ours = middle(&|run| {
            leading::contest(&url, share, &format!("bench/{share}-{run}"), at_once).map(Some)
        })?;
        let Some(ours) = ours else { continue };
        let scene = format!("20 candidates that share {share}, terms of 0 ms");
        let peer = |figure: fn(Contest) -> f64| go.map(figure);
        found.rows.extend([
            Row::new(&scene, "terms per second", ours.terms_per_s)
                .at_least(250.0)
                .peer(peer(|it| it.terms_per_s)),
            Row::new(
                &scene,
                "p50 from one leader to the next, ms",
                ours.gap_p50_ms,
            )
            .at_most(3.0)
            .peer(peer(|it| it.gap_p50_ms)),
            Row::new(&scene, "p99 of the same, ms", ours.gap_p99_ms)
                .at_most(12.0)
                .peer(peer(|it| it.gap_p99_ms)),
            Row::new(&scene, "led at once", whole(Some(ours.max_leaders))).at_most(1.0),
        ]);
    }
    let many = Size {
        candidates: 200,
        terms: 50,
        term: Duration::from_millis(100),
    };
    let scene = "200 candidates of one client, terms of 100 ms";
    let ours = leading::counted_contest(agent, "bench/many", many)?;
    // Go's candidates have separate connections, more than this agent allows.
    let go = leading::counted_go(world.raised()?, "bench/go-many", many)?;
    found.rows.extend([
        Row::new(scene, "requests per term", ours.requests)
            .at_most(10.0)
            .peer(go.map(|it| it.requests)),
        Row::new(scene, "connections", ours.connections)
            .at_most(64.0)
            .peer(go.map(|it| it.connections)),
        Row::new(scene, "led at once", whole(Some(ours.contest.max_leaders))).at_most(1.0),
    ]);
    let time = Duration::from_secs(if care.quick { 2 } else { 5 });
    let scene = "tries of 5 ms beside a leader";
    let ours = leading::tries(agent, "bench/tries", time)?;
    let go = leading::go_tries(agent, "bench/go-tries", time)?;
    found.rows.extend([
        Row::new(scene, "tries per second", ours.per_s).peer(go.map(|it| it.per_s)),
        // Each try reads the key once. The session costs a few more requests now and then.
        Row::new(scene, "requests per try", ours.requests)
            .at_most(1.05)
            .peer(go.map(|it| it.requests)),
    ]);
    let scene = "50 followers of a missing key, 20 other writes a second";
    let ours = leading::followers(agent, "bench/missing", 50, time)?;
    let go = leading::go_followers(agent, "bench/missing", 50, time)?;
    found.rows.push(
        Row::new(scene, "requests per second", ours)
            .at_most(11.0)
            .peer(go),
    );
    Ok(())
}

/// For comparison only: the goals are for a single agent.
fn cluster(world: &World, care: Care, found: &mut Findings) -> Result<(), Failure> {
    let contend = world.contend_on_cluster()?;
    for (scene, args, more) in [
        (
            "cluster: cycle, warm",
            "--mode cycle --warm-up 20 --rounds 300",
            0.0,
        ),
        (
            "cluster: cycle, cold",
            "--mode cycle --cold --warm-up 5 --rounds 100",
            2.0,
        ),
    ] {
        let runs = contend.runs(args, "bench/cycle", care.runs)?;
        found
            .rows
            .extend([requests(scene, &runs, None), in_puts(scene, &runs, more)]);
        found.rows.extend(times(scene, &runs));
        found.rows.push(errors(scene, &runs));
    }
    for (scene, participants) in [
        ("cluster: 1 participant, 50 contenders", 1),
        ("cluster: 50 participants", 50),
    ] {
        let args = format!("--participants {participants} --contenders 50 {LIMIT}");
        let runs = contend.runs(&args, &format!("bench/crowd-{participants}"), care.runs)?;
        found.rows.extend([
            rate(scene, &runs, None, None),
            requests(scene, &runs, None),
            limit_kept(scene, &runs),
            errors(scene, &runs),
        ]);
    }
    Ok(())
}

impl Findings {
    fn peer_of(&self, waiters: usize) -> Option<Cost> {
        let mut crowds = self.peer_crowds.iter();
        crowds.find(|cost| cost.waiters == waiters).copied()
    }

    /// As many callers of Go's client, measured once. It makes no difference how they are spread
    /// over processes, since their clients share nothing.
    ///
    /// # Errors
    /// [`Failure`].
    pub(crate) fn turns_of_go(
        &mut self,
        crowd: Crowd,
        world: &World,
        care: Care,
    ) -> Result<Option<Turns>, Failure> {
        let mut known = self.go_crowds.iter();
        if let Some((_, turns)) = known.find(|(known, _)| known.is_like(crowd)) {
            return Ok(*turns);
        }
        let time = Duration::from_secs(if care.quick { 5 } else { 15 });
        let prefix = format!("bench/go-{}", self.go_crowds.len());
        let turns = go::turns(world.raised()?, &prefix, crowd, time)?;
        self.go_crowds.push((crowd, turns));
        Ok(turns)
    }
}
