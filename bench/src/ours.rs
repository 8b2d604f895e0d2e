//! Runs `contend` as a user does, and reads its report.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, io};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// The part of the output of `contend --json` that is used here.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Figures {
    /// How many acquisitions were completed.
    pub(crate) acquisitions: u64,
    /// How many there were per second.
    pub(crate) acquisitions_per_s: f64,
    /// How many there would be if handovers took no time.
    pub(crate) ideal_per_s: Option<f64>,
    /// The most that were held at the same time.
    pub(crate) max_held: u64,
    /// How long they held.
    pub(crate) hold_mean_ms: f64,
    /// The share of pairs that were served out of order.
    pub(crate) served_out_of_order: Option<f64>,
    /// The longest time from asking for a slot to the permit.
    pub(crate) wait_max_ms: f64,
    /// From giving a slot back to the confirmation that nothing of it is left.
    pub(crate) release_p50_ms: f64,
    /// Bytes of the answers.
    pub(crate) bytes_down_per_acquisition: f64,
    /// An acquisition with its release.
    pub cycle_p50_us: f64,
    /// A plain write.
    pub put_p50_us: f64,
    /// Only the transactions of an acquisition with its release.
    pub bare_turn_p50_us: Option<f64>,
    /// Requests of all kinds.
    pub(crate) http_requests_per_acquisition: f64,
    /// Renewals.
    pub(crate) session_renews: u64,
    /// Blocking queries.
    pub(crate) kv_watches: u64,
    /// Writes through Raft.
    pub(crate) raft_writes_per_acquisition: f64,
    /// Connections at the peak.
    pub(crate) peak_connections: Option<u64>,
    /// How many contenders failed.
    pub(crate) errors: u64,
}

/// The program, and the agent that it talks to.
#[derive(Clone, Debug)]
pub(crate) struct Contend {
    program: PathBuf,
    address: String,
}

impl Contend {
    /// The `contend` that was built beside this program.
    ///
    /// # Errors
    /// [`Failure::System`] if this program does not know where it is.
    pub(crate) fn at(address: &str) -> Result<Self, Failure> {
        let here = env::current_exe().map_err(Failure::system("this program is nowhere"))?;
        Ok(Self {
            program: here.with_file_name("contend"),
            address: address.to_owned(),
        })
    }

    /// Runs it once. Failed contenders are a figure, not a failure.
    ///
    /// # Errors
    /// [`Failure::NoReport`], [`Failure::Report`], [`Failure::System`].
    pub(crate) fn run<T: DeserializeOwned>(
        &self,
        args: &str,
        prefix: &str,
        holds: Option<&Path>,
    ) -> Result<T, Failure> {
        let mut command = Command::new(&self.program);
        without_consul(&mut command)
            .env("CONSUL_HTTP_ADDR", &self.address)
            .args(args.split_whitespace())
            .args(["--prefix", prefix, "--json"])
            .stdin(Stdio::null());
        if let Some(file) = holds {
            command.arg("--holds").arg(file);
        }
        let output = command.output().map_err(Failure::system(
            "`contend` can't be run: build it with the same profile",
        ))?;
        if output.stdout.is_empty() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said: Vec<_> = said.lines().rev().take(3).collect();
            return Err(Failure::NoReport {
                args: format!("contend {args}"),
                said: said.join("; "),
            });
        }
        serde_json::from_slice(&output.stdout).map_err(Failure::Report)
    }

    /// Runs it on several prefixes, one after the other.
    ///
    /// # Errors
    /// As [`Contend::run`].
    pub(crate) fn runs(&self, args: &str, prefix: &str, runs: usize) -> Result<Runs, Failure> {
        let run = |number| self.run(args, &format!("{prefix}-{number}"), None);
        Ok(Runs((0..runs).map(run).collect::<Result<_, _>>()?))
    }
}

/// Removes Consul's variables from what the child inherits.
pub(crate) fn without_consul(command: &mut Command) -> &mut Command {
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("CONSUL_") {
            command.env_remove(name);
        }
    }
    command
}

/// Several runs of one scene.
#[derive(Clone, Debug)]
pub(crate) struct Runs(Vec<Figures>);

impl Runs {
    /// The figure of the median run.
    pub(crate) fn median(&self, figure: impl Fn(&Figures) -> f64) -> f64 {
        let mut all: Vec<_> = self.0.iter().map(figure).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// The largest of all runs.
    pub(crate) fn worst(&self, figure: impl Fn(&Figures) -> f64) -> f64 {
        self.0.iter().map(figure).fold(f64::NAN, f64::max)
    }
}

impl From<Figures> for Runs {
    fn from(figures: Figures) -> Self {
        Self(vec![figures])
    }
}

/// Reads a file that may not be there yet.
pub(crate) fn read_or_empty(file: &Path) -> Result<String, Failure> {
    match std::fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(Failure::system("holds can't be read")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(rates: &[f64]) -> Runs {
        let json = r#"{"acquisitions":1,"acquisitions_per_s":0,"ideal_per_s":null,"max_held":1,
            "hold_mean_ms":1,"wait_max_ms":1,"release_p50_ms":1,"bytes_down_per_acquisition":1,"served_out_of_order":null,"cycle_p50_us":1,"put_p50_us":1,"bare_turn_p50_us":1,
            "http_requests_per_acquisition":1,"session_renews":0,"kv_watches":0,
            "raft_writes_per_acquisition":1,"peak_connections":null,"errors":0,"txns":3}"#;
        let figures: Figures = serde_json::from_str(json).expect("a report");
        let with = |rate: &f64| Figures {
            acquisitions_per_s: *rate,
            ..figures
        };
        Runs(rates.iter().map(with).collect())
    }

    #[test]
    fn of_several_runs_the_middle_and_the_worst_are_told() {
        let rate = |figures: &Figures| figures.acquisitions_per_s;
        let runs = runs(&[7.0, 1.0, 5.0]);
        assert_eq!(runs.median(rate).total_cmp(&5.0), std::cmp::Ordering::Equal);
        assert_eq!(runs.worst(rate).total_cmp(&7.0), std::cmp::Ordering::Equal);
    }

    #[test]
    fn what_is_missing_is_no_figure() {
        assert!(runs(&[]).median(|_| 1.0).is_nan());
        assert!(serde_json::from_str::<Figures>(r#"{"errors":0}"#).is_err());
    }
}
