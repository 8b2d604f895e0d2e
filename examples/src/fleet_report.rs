//! The report of a run with many semaphores.

use std::fmt;

use serde::Serialize;

use crate::fleet::Outcome;
use crate::percentile::Percentiles;
use crate::report::{each_second, millis};

/// The result, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetReport {
    /// How many semaphores there were.
    pub semaphores: usize,
    /// How many of them were granted.
    pub granted: usize,
    /// How many acquisitions failed, including the waiters'.
    pub failed: usize,
    /// How many grants were lost, including the waiters'.
    pub lost: usize,
    /// How many sessions were made.
    pub sessions: u64,
    /// How often sessions were renewed per second while all were held; zero for a hold of zero.
    pub renewals_per_s: f64,
    /// How many requests were sent per second meanwhile, including long polls.
    pub requests_per_s: f64,
    /// How many connections to the agent were open at once. Null if the system doesn't say.
    pub peak_connections: Option<usize>,
    /// How many threads the process had at once, including those of a Consul in memory. Null if the
    /// system doesn't say.
    pub threads: Option<usize>,
    /// The median time from the request for a slot to the permit.
    pub acquire_p50_ms: f64,
    /// The 99th percentile of that time.
    pub acquire_p99_ms: f64,
    /// With waiters.
    #[serde(flatten)]
    pub turns: Option<Turns>,
}

/// The time from when a waiter's slots are free to its permit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Turns {
    /// The median.
    pub turn_p50_ms: f64,
    /// The 99th percentile.
    pub turn_p99_ms: f64,
}

impl FleetReport {
    /// Computes the report from the outcome.
    pub fn new(outcome: &Outcome) -> Self {
        let acquired: Percentiles = outcome.acquired.iter().copied().collect();
        let turns: Percentiles = outcome.turns.iter().copied().collect();
        let (steady, time) = outcome.steady;
        let seconds = time.as_secs_f64();
        Self {
            semaphores: outcome.semaphores,
            granted: outcome.acquired.len(),
            failed: outcome.failures.len(),
            lost: outcome.losses.len(),
            sessions: outcome.traffic.sessions,
            renewals_per_s: each_second(steady.requests.session_renews, seconds),
            requests_per_s: each_second(steady.requests.total(), seconds),
            peak_connections: outcome.peaks.connections,
            threads: outcome.peaks.threads,
            acquire_p50_ms: millis(acquired.at(50)),
            acquire_p99_ms: millis(acquired.at(99)),
            turns: (outcome.waiters > 0).then(|| Turns {
                turn_p50_ms: millis(turns.at(50)),
                turn_p99_ms: millis(turns.at(99)),
            }),
        }
    }
}

impl fmt::Display for FleetReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |peak: Option<usize>| match peak {
            Some(peak) => format!("{peak} at the peak"),
            None => "not known here".to_owned(),
        };
        writeln!(
            f,
            "semaphores      {}: {} granted, {} lost; {} acquisitions failed",
            self.semaphores, self.granted, self.lost, self.failed
        )?;
        writeln!(f, "sessions        {} made", self.sessions)?;
        writeln!(
            f,
            "while held      {:.1} renewals per s, {:.1} requests per s",
            self.renewals_per_s, self.requests_per_s
        )?;
        writeln!(f, "connections     {}", known(self.peak_connections))?;
        writeln!(f, "threads         {}", known(self.threads))?;
        write!(
            f,
            "granted after   median {:.1} ms, p99 {:.1} ms",
            self.acquire_p50_ms, self.acquire_p99_ms
        )?;
        if let Some(turns) = &self.turns {
            write!(
                f,
                "\nturns after     median {:.1} ms, p99 {:.1} ms",
                turns.turn_p50_ms, turns.turn_p99_ms
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use semaphore_core::Lost;

    use crate::meter::{Reading, Requests};
    use crate::peaks::Peaks;

    use super::*;

    fn outcome() -> Outcome {
        let requests = Requests {
            session_renews: 3,
            kv_watches: 4,
            ..Requests::default()
        };
        let reading = Reading {
            requests,
            sessions: 5,
            ..Reading::default()
        };
        Outcome {
            semaphores: 4,
            waiters: 1,
            acquired: [10, 20, 30].map(Duration::from_millis).into(),
            turns: vec![Duration::from_millis(7)],
            failures: vec![semaphore_core::error::ClosedBy::Owner.into()],
            losses: vec![Lost::SteppedDown, Lost::SteppedDown],
            unclean: Vec::new(),
            cleared: true,
            steady: (reading, Duration::from_secs(2)),
            traffic: reading,
            peaks: Peaks {
                connections: Some(6),
                threads: None,
            },
        }
    }

    #[test]
    fn everything_follows_from_what_became_of_them() {
        let expected = FleetReport {
            semaphores: 4,
            granted: 3,
            failed: 1,
            lost: 2,
            sessions: 5,
            renewals_per_s: 1.5,
            requests_per_s: 3.5,
            peak_connections: Some(6),
            threads: None,
            acquire_p50_ms: 20.0,
            acquire_p99_ms: 30.0,
            turns: Some(Turns {
                turn_p50_ms: 7.0,
                turn_p99_ms: 7.0,
            }),
        };
        assert_eq!(FleetReport::new(&outcome()), expected);
    }

    #[test]
    fn without_waiters_there_are_no_turns() {
        let report = FleetReport::new(&Outcome {
            waiters: 0,
            ..outcome()
        });
        let json = serde_json::to_value(&report).expect("JSON");
        assert_eq!(json.get("turn_p50_ms"), None);
        assert_eq!(json["threads"], serde_json::Value::Null);
        assert!(!report.to_string().contains("turns"), "{report}");
    }

    #[test]
    fn a_hold_of_no_time_has_no_infinite_numbers() {
        let report = FleetReport::new(&Outcome {
            steady: (Reading::default(), Duration::ZERO),
            ..Outcome::default()
        });
        let json = serde_json::to_value(&report).expect("no infinity");
        assert_eq!(json["requests_per_s"], 0.0);
    }
}
