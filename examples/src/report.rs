//! The report of a benchmark run.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::Serialize;

use crate::bare::Bare;
use crate::contender::Round;
use crate::fairness::out_of_order;
use crate::meter::{Reading, Requests};
use crate::percentile::Percentiles;
use crate::wall::Hold;

/// What was measured in one run.
#[derive(Debug)]
pub struct Measured {
    /// The completed acquisitions.
    pub rounds: Vec<Round>,
    /// How many contenders failed.
    pub errors: usize,
    /// How many of them failed because of a loss.
    pub lost: usize,
    /// How many believed at once to hold.
    pub max_held: usize,
    /// The limit.
    pub limit: NonZeroU32,
    /// How many wanted to.
    pub contenders: usize,
    /// How many slots each acquired at once.
    pub slots: NonZeroU32,
    /// How long each held.
    pub hold: Duration,
    /// From the first request for a slot to the last release.
    pub total: Duration,
    /// The lower bounds.
    pub bare: Bare,
    /// The traffic of the rounds, with what belongs to them in this mode.
    pub traffic: Reading,
    /// How many connections were open at once.
    pub peak_connections: Option<usize>,
    /// When the only hold of mode hold began and ended.
    pub wall: Option<Hold>,
}

/// The result, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// How many acquisitions were completed.
    pub acquisitions: usize,
    /// From the first request for a slot to the last release.
    pub total_ms: f64,
    /// `acquisitions` divided by `total_ms`.
    pub acquisitions_per_s: f64,
    /// The rate if a handover took no time: the limit divided by the hold. Null for a hold of zero.
    pub ideal_per_s: Option<f64>,
    /// How many believed at once to hold.
    pub max_held: usize,
    /// The average real duration of the holds.
    pub hold_mean_ms: f64,
    /// The share of all pairs of acquisitions in which the first in the queue was granted second.
    /// Null without a pair, or if no answer showed a place in the queue.
    pub served_out_of_order: Option<f64>,
    /// The median time from the request for a slot to the permit.
    pub wait_p50_ms: f64,
    /// The 99th percentile of that time.
    pub wait_p99_ms: f64,
    /// The maximum of that time.
    pub wait_max_ms: f64,
    /// The median time from giving it back until nothing of it is left.
    pub release_p50_ms: f64,
    /// The median time of an acquisition and its release without the hold. With `--cold` it
    /// includes creating and ending the semaphore.
    pub cycle_p50_us: u64,
    /// The 99th percentile of that time.
    pub cycle_p99_us: u64,
    /// The median time of one plain write on this agent in this run through this backend.
    pub put_p50_us: u64,
    /// The median time of only the two transactions of a turn, sent in the same way. Null if the
    /// agent accepts no transactions.
    pub bare_turn_p50_us: Option<u64>,
    /// Requests for the acquisitions, including sessions and long polls.
    pub http_requests: u64,
    /// The same per acquisition.
    pub http_requests_per_acquisition: f64,
    /// The same by purpose.
    #[serde(flatten)]
    pub requests: Requests,
    /// Writes that the agent put through Raft.
    pub raft_writes: u64,
    /// The same per acquisition.
    pub raft_writes_per_acquisition: f64,
    /// Bytes of the requests, without the headers that the client's library adds.
    pub bytes_up_per_acquisition: f64,
    /// Bytes of the answers, including headers.
    pub bytes_down_per_acquisition: f64,
    /// How many connections to the agent were open at once. Null if the system doesn't say.
    pub peak_connections: Option<usize>,
    /// How many contenders failed.
    pub errors: usize,
    /// How many of them failed because of a loss.
    pub lost: usize,
    /// In mode hold: when the slot was granted, and when it was no longer held.
    #[serde(flatten)]
    pub wall: Option<Hold>,
}

impl Report {
    /// Computes the report from the measurements.
    pub fn new(measured: &Measured) -> Self {
        let acquisitions = measured.rounds.len();
        let waits: Percentiles = measured.rounds.iter().map(|round| round.wait).collect();
        let cycles = measured
            .rounds
            .iter()
            .map(|round| round.wait + round.release);
        let cycles: Percentiles = cycles.collect();
        let in_all: Duration = measured.rounds.iter().map(|round| round.held).sum();
        let mean_hold = in_all.checked_div(u32::try_from(acquisitions).unwrap_or(u32::MAX));
        let traffic = &measured.traffic;
        let requests = traffic.requests.total();
        let hold = measured.hold.as_secs_f64();
        let at_once = measured.limit.get() / measured.slots.get();
        let wanted = u32::try_from(measured.contenders).unwrap_or(u32::MAX);
        let ideal = f64::from(at_once.min(wanted)) / hold;
        let releases: Percentiles = measured.rounds.iter().map(|round| round.release).collect();
        Self {
            acquisitions,
            total_ms: millis(measured.total),
            acquisitions_per_s: each_second(acquisitions as u64, measured.total.as_secs_f64()),
            ideal_per_s: (hold > 0.0).then(|| rounded(ideal)),
            max_held: measured.max_held,
            hold_mean_ms: millis(mean_hold.unwrap_or_default()),
            served_out_of_order: out_of_order(&measured.rounds).map(rounded),
            wait_p50_ms: millis(waits.at(50)),
            wait_p99_ms: millis(waits.at(99)),
            wait_max_ms: millis(waits.max()),
            release_p50_ms: millis(releases.at(50)),
            cycle_p50_us: micros(cycles.at(50)),
            cycle_p99_us: micros(cycles.at(99)),
            put_p50_us: micros(median(&measured.bare.puts)),
            bare_turn_p50_us: (!measured.bare.turns.is_empty())
                .then(|| micros(median(&measured.bare.turns))),
            http_requests: requests,
            http_requests_per_acquisition: each(requests, acquisitions),
            requests: traffic.requests,
            raft_writes: traffic.raft_writes,
            raft_writes_per_acquisition: each(traffic.raft_writes, acquisitions),
            bytes_up_per_acquisition: each(traffic.bytes_up, acquisitions),
            bytes_down_per_acquisition: each(traffic.bytes_down, acquisitions),
            peak_connections: measured.peak_connections,
            errors: measured.errors,
            lost: measured.lost,
            wall: measured.wall,
        }
    }

    /// Whether the limit was kept and nothing failed.
    pub fn is_well(&self, limit: NonZeroU32) -> bool {
        let limit = usize::try_from(limit.get()).unwrap_or(usize::MAX);
        self.max_held <= limit && self.errors == 0
    }
}

/// The bare turn, for comparison with a plain PUT.
struct Turn(Option<u64>);

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(micros) => write!(f, ", a bare turn: {micros} µs"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ideal = match self.ideal_per_s {
            Some(ideal) => format!(" of {ideal:.1} at best"),
            None => String::new(),
        };
        let connections = match self.peak_connections {
            Some(peak) => peak.to_string(),
            None => "not known here".to_owned(),
        };
        writeln!(
            f,
            "acquisitions    {} in {:.0} ms: {:.1} per s{ideal}",
            self.acquisitions, self.total_ms, self.acquisitions_per_s
        )?;
        writeln!(f, "held at once    {}", self.max_held)?;
        writeln!(f, "held for        {:.2} ms on average", self.hold_mean_ms)?;
        if let Some(share) = self.served_out_of_order {
            writeln!(f, "out of order    {:.1} % of pairs", share * 100.0)?;
        }
        writeln!(
            f,
            "wait            median {:.1} ms, p99 {:.1} ms, longest {:.1} ms",
            self.wait_p50_ms, self.wait_p99_ms, self.wait_max_ms
        )?;
        writeln!(f, "release         median {:.1} ms", self.release_p50_ms)?;
        writeln!(
            f,
            "cycle           median {} µs, p99 {} µs (a plain PUT: {} µs{})",
            self.cycle_p50_us,
            self.cycle_p99_us,
            self.put_p50_us,
            Turn(self.bare_turn_p50_us)
        )?;
        writeln!(
            f,
            "per acquisition {:.2} requests ({} in all), {:.2} Raft writes, {:.0} bytes up, {:.0} down",
            self.http_requests_per_acquisition,
            self.http_requests,
            self.raft_writes_per_acquisition,
            self.bytes_up_per_acquisition,
            self.bytes_down_per_acquisition
        )?;
        let Requests {
            session_creates,
            session_renews,
            session_destroys,
            session_reads,
            kv_reads,
            kv_watches,
            kv_writes,
            txns,
            other_requests,
        } = self.requests;
        writeln!(
            f,
            "requests        sessions: {session_creates} created, {session_renews} renewed, \
             {session_destroys} destroyed, {session_reads} read"
        )?;
        writeln!(
            f,
            "                keys: {kv_reads} read, {kv_watches} watched, {kv_writes} written; \
             {txns} transactions, {other_requests} others"
        )?;
        writeln!(f, "connections     {connections} at the peak")?;
        write!(f, "errors          {}", self.errors)
    }
}

pub(crate) fn millis(time: Duration) -> f64 {
    rounded(time.as_secs_f64() * 1000.0)
}

fn median(times: &[Duration]) -> Duration {
    times.iter().copied().collect::<Percentiles>().at(50)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Zero without acquisitions, since JSON has no infinity.
fn each(total: u64, acquisitions: usize) -> f64 {
    if acquisitions == 0 {
        return 0.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    rounded(total as f64 / acquisitions as f64)
}

/// The rate per second. Zero for no time, since JSON has no infinity.
pub(crate) fn each_second(count: u64, seconds: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let count = count as f64;
    if seconds > 0.0 {
        rounded(count / seconds)
    } else {
        0.0
    }
}

/// To three decimals.
fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use semaphore_core::FencingToken;

    use crate::contender::Turn;

    use super::*;

    const THREE: NonZeroU32 = NonZeroU32::new(3).expect("not zero");

    const REQUESTS: Requests = Requests {
        session_creates: 1,
        session_renews: 2,
        session_destroys: 1,
        session_reads: 0,
        kv_reads: 3,
        kv_watches: 1,
        kv_writes: 4,
        txns: 0,
        other_requests: 0,
    };

    fn measured() -> Measured {
        let round = |wait, release| Round {
            turn: Some(Turn::Entered(wait)),
            token: FencingToken(wait),
            wait: Duration::from_millis(wait),
            held: Duration::from_millis(wait),
            release: Duration::from_millis(release),
        };
        Measured {
            rounds: vec![round(10, 2), round(20, 3), round(30, 4)],
            errors: 0,
            lost: 0,
            max_held: 3,
            limit: THREE,
            contenders: 15,
            slots: NonZeroU32::MIN,
            hold: Duration::from_millis(10),
            total: Duration::from_millis(600),
            bare: Bare {
                puts: vec![Duration::from_micros(700)],
                turns: vec![Duration::from_micros(2100)],
            },
            traffic: Reading {
                requests: REQUESTS,
                sessions: 1,
                raft_writes: 6,
                bytes_up: 1500,
                bytes_down: 3000,
            },
            peak_connections: Some(5),
            wall: None,
        }
    }

    #[test]
    fn everything_follows_from_what_was_measured() {
        let expected = Report {
            acquisitions: 3,
            total_ms: 600.0,
            acquisitions_per_s: 5.0,
            ideal_per_s: Some(300.0),
            max_held: 3,
            hold_mean_ms: 20.0,
            served_out_of_order: Some(0.0),
            wait_p50_ms: 20.0,
            wait_p99_ms: 30.0,
            wait_max_ms: 30.0,
            release_p50_ms: 3.0,
            cycle_p50_us: 23_000,
            cycle_p99_us: 34_000,
            put_p50_us: 700,
            bare_turn_p50_us: Some(2100),
            http_requests: 12,
            http_requests_per_acquisition: 4.0,
            requests: REQUESTS,
            raft_writes: 6,
            raft_writes_per_acquisition: 2.0,
            bytes_up_per_acquisition: 500.0,
            bytes_down_per_acquisition: 1000.0,
            peak_connections: Some(5),
            errors: 0,
            lost: 0,
            wall: None,
        };
        assert_eq!(Report::new(&measured()), expected);
    }

    #[test]
    fn the_ideal_is_of_as_many_as_can_hold_at_once() {
        let ideal = |contenders, slots| {
            let slots = NonZeroU32::new(slots).expect("not zero");
            let (limit, of) = (NonZeroU32::new(100).expect("not zero"), measured());
            Report::new(&Measured {
                limit,
                contenders,
                slots,
                ..of
            })
            .ideal_per_s
        };
        assert_eq!(ideal(400, 1), Some(10_000.0));
        assert_eq!(ideal(80, 1), Some(8_000.0));
        assert_eq!(ideal(400, 32), Some(300.0));
    }

    #[test]
    fn a_run_is_well_only_when_the_limit_was_kept_and_nothing_failed() {
        let well = Report::new(&measured());
        assert!(well.is_well(THREE));
        assert!(
            !Report {
                max_held: 4,
                ..well.clone()
            }
            .is_well(THREE)
        );
        assert!(!Report { errors: 1, ..well }.is_well(THREE));
    }

    #[test]
    fn a_run_without_acquisitions_or_holds_has_no_infinite_numbers() {
        let report = Report::new(&Measured {
            rounds: Vec::new(),
            hold: Duration::ZERO,
            total: Duration::ZERO,
            ..measured()
        });
        let json = serde_json::to_value(&report).expect("no infinity");
        assert_eq!(json["ideal_per_s"], serde_json::Value::Null);
        assert_eq!(json["acquisitions_per_s"], 0.0);
        assert_eq!(json["http_requests_per_acquisition"], 0.0);
    }
}
