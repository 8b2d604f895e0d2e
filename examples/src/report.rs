//! What a run of the benchmark says.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::Serialize;

use crate::contender::Round;
use crate::meter::Reading;
use crate::percentile::Percentiles;

/// What was measured in one run.
#[derive(Debug)]
pub struct Measured {
    /// The acquisitions that came to their end.
    pub rounds: Vec<Round>,
    /// How many contenders failed.
    pub errors: usize,
    /// How many believed to hold at once.
    pub max_held: usize,
    /// How many may.
    pub limit: NonZeroU32,
    /// How long each held.
    pub hold: Duration,
    /// From the first wish for a slot to the last release.
    pub total: Duration,
    /// A plain write.
    pub put_p50: Duration,
    /// What was sent and received, from the first acquisition to the end of the semaphores.
    pub traffic: Reading,
    /// How many connections were open at once.
    pub peak_connections: Option<usize>,
}

/// The result, as `--json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// How many acquisitions came to their end.
    pub acquisitions: usize,
    /// From the first wish for a slot to the last release.
    pub total_ms: f64,
    /// `acquisitions` by `total_ms`.
    pub acquisitions_per_s: f64,
    /// What would be if a handover took no time: the limit by the hold. Null for a hold of zero.
    pub ideal_per_s: Option<f64>,
    /// How many believed to hold at once.
    pub max_held: usize,
    /// From the wish for a slot to the permit: the median.
    pub wait_p50_ms: f64,
    /// The same, for 99 of 100.
    pub wait_p99_ms: f64,
    /// The same, at worst.
    pub wait_max_ms: f64,
    /// An acquisition and its release without the hold, the median; with `--cold` with the making
    /// and ending of the semaphore.
    pub cycle_p50_us: u64,
    /// The same, for 99 of 100.
    pub cycle_p99_us: u64,
    /// One plain write on this agent in this run through this backend, the median.
    pub put_p50_us: u64,
    /// Requests that were sent for the acquisitions, sessions and long polls included.
    pub http_requests: u64,
    /// The same for each acquisition.
    pub http_requests_per_acquisition: f64,
    /// Bytes of the answers, headers included.
    pub bytes_down_per_acquisition: f64,
    /// How many connections to the agent were open at once. Null where the system doesn't say.
    pub peak_connections: Option<usize>,
    /// How many contenders failed.
    pub errors: usize,
}

impl Report {
    /// Computes what follows from what was measured.
    pub fn new(measured: &Measured) -> Self {
        let acquisitions = measured.rounds.len();
        let waits: Percentiles = measured.rounds.iter().map(|round| round.wait).collect();
        let cycles = measured
            .rounds
            .iter()
            .map(|round| round.wait + round.release);
        let cycles: Percentiles = cycles.collect();
        let hold = measured.hold.as_secs_f64();
        let ideal = f64::from(measured.limit.get()) / hold;
        Self {
            acquisitions,
            total_ms: millis(measured.total),
            acquisitions_per_s: rounded(ratio(acquisitions, measured.total.as_secs_f64())),
            ideal_per_s: (hold > 0.0).then(|| rounded(ideal)),
            max_held: measured.max_held,
            wait_p50_ms: millis(waits.at(50)),
            wait_p99_ms: millis(waits.at(99)),
            wait_max_ms: millis(waits.max()),
            cycle_p50_us: micros(cycles.at(50)),
            cycle_p99_us: micros(cycles.at(99)),
            put_p50_us: micros(measured.put_p50),
            http_requests: measured.traffic.requests,
            http_requests_per_acquisition: each(measured.traffic.requests, acquisitions),
            bytes_down_per_acquisition: each(measured.traffic.bytes_down, acquisitions),
            peak_connections: measured.peak_connections,
            errors: measured.errors,
        }
    }

    /// Whether the limit was kept and nothing failed.
    pub fn is_well(&self, limit: NonZeroU32) -> bool {
        let limit = usize::try_from(limit.get()).unwrap_or(usize::MAX);
        self.max_held <= limit && self.errors == 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ideal = match self.ideal_per_s {
            Some(ideal) => format!(" of {ideal:.0} at best"),
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
        writeln!(
            f,
            "wait            median {:.1} ms, p99 {:.1} ms, longest {:.1} ms",
            self.wait_p50_ms, self.wait_p99_ms, self.wait_max_ms
        )?;
        writeln!(
            f,
            "cycle           median {} µs, p99 {} µs (a plain PUT: {} µs)",
            self.cycle_p50_us, self.cycle_p99_us, self.put_p50_us
        )?;
        writeln!(
            f,
            "per acquisition {:.2} requests ({} in all), {:.0} bytes down",
            self.http_requests_per_acquisition, self.http_requests, self.bytes_down_per_acquisition
        )?;
        writeln!(f, "connections     {connections} at the peak")?;
        write!(f, "errors          {}", self.errors)
    }
}

fn millis(time: Duration) -> f64 {
    rounded(time.as_secs_f64() * 1000.0)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Zero for nothing at all, since JSON has no infinity.
fn each(total: u64, acquisitions: usize) -> f64 {
    if acquisitions == 0 {
        return 0.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    rounded(total as f64 / acquisitions as f64)
}

fn ratio(count: usize, seconds: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let count = count as f64;
    if seconds > 0.0 { count / seconds } else { 0.0 }
}

/// To three digits after the point.
fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: NonZeroU32 = NonZeroU32::new(3).expect("not zero");

    fn measured() -> Measured {
        let round = |wait, release| Round {
            wait: Duration::from_millis(wait),
            release: Duration::from_millis(release),
        };
        Measured {
            rounds: vec![round(10, 2), round(20, 3), round(30, 4)],
            errors: 0,
            max_held: 3,
            limit: THREE,
            hold: Duration::from_millis(10),
            total: Duration::from_millis(600),
            put_p50: Duration::from_micros(700),
            traffic: Reading {
                requests: 12,
                bytes_down: 3000,
            },
            peak_connections: Some(5),
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
            wait_p50_ms: 20.0,
            wait_p99_ms: 30.0,
            wait_max_ms: 30.0,
            cycle_p50_us: 23_000,
            cycle_p99_us: 34_000,
            put_p50_us: 700,
            http_requests: 12,
            http_requests_per_acquisition: 4.0,
            bytes_down_per_acquisition: 1000.0,
            peak_connections: Some(5),
            errors: 0,
        };
        assert_eq!(Report::new(&measured()), expected);
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
