//! `chaos run`, `chaos check DIR`, and the processes that a run starts.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use chaos::check::{Figures, Logs, check};
use chaos::failure::Failure;
use chaos::record::{Folder, Kind, Release, Run};
use clap::{Parser, Subcommand};

/// Disturbs a real cluster and its clients, and checks what they believed.
///
/// Exits with 0 if no promise was broken, with 1 if one was, and with 2 if the run could not be
/// done.
#[derive(Debug, Parser)]
struct Flags {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Do a run and check it
    Run {
        /// How long things go wrong; the calm afterwards takes half a minute more
        #[arg(long, default_value_t = 1.0, value_parser = minutes)]
        minutes: f64,
        /// The seed of everything that is done [default: another one each time]
        #[arg(long)]
        seed: Option<u64>,
        /// Whether servers are away for so long that their sessions end, and every session has its
        /// own TTL and the default lock delay [default: as the seed says, false below a minute]
        #[arg(long)]
        reaped: Option<bool>,
        /// The release of Consul, such as 1.22, or `any` that is found [default: 1.8 or 1.22, as the
        /// seed says]
        #[arg(long, value_parser = wanted_release)]
        release: Option<Wanted>,
        /// Whether agents ask for tokens, and tokens lose permissions or are deleted for a while
        /// [default: as the seed says]
        #[arg(long)]
        acls: Option<bool>,
        /// Switch on a deliberate defect of the semaphore
        #[arg(long)]
        defect: Option<String>,
        /// Keep the logs in this folder [default: a temporary folder, kept after a violation]
        #[arg(long)]
        logs: Option<PathBuf>,
    },
    /// Check the logs of a run
    Check {
        /// The folder of the logs
        folder: PathBuf,
    },
    /// A client of a run
    #[command(hide = true)]
    Client { plan: String },
    /// The child of a `consul lock`
    #[command(hide = true)]
    Hold {
        name: String,
        prefix: String,
        millis: u64,
        log: PathBuf,
    },
}

fn main() -> ExitCode {
    let done = match Flags::parse().what {
        What::Run {
            minutes,
            seed,
            reaped,
            release,
            acls,
            defect,
            logs,
        } => {
            let seed = seed.unwrap_or_else(|| fastrand::u64(..));
            let chaos = Duration::from_secs_f64(minutes * 60.0);
            let mut made = Run::new(seed, chaos, reaped);
            match release {
                Some(Wanted::Any) => made.release = None,
                Some(Wanted::One(release)) => made.release = Some(release),
                None => {}
            }
            made.acls = acls.unwrap_or(made.acls);
            run(&made, defect.as_deref(), logs)
        }
        What::Check { folder } => judge(&Folder(folder)),
        What::Client { plan } => serde_json::from_str(&plan)
            .map_err(|error| Failure::step("reading a client's plan", error))
            .and_then(|plan| chaos::client::run(&plan))
            .map(|()| true),
        What::Hold {
            name,
            prefix,
            millis,
            log,
        } => chaos::lockers::hold(&name, &prefix, Duration::from_millis(millis), &log)
            .map_err(|error| Failure::step("holding", error))
            .map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(failure) => {
            eprintln!("chaos: {}", failure.with_causes());
            ExitCode::from(2)
        }
    }
}

/// Returns whether no promise was broken.
fn run(made: &Run, defect: Option<&str>, logs: Option<PathBuf>) -> Result<bool, Failure> {
    chaos::defect::switch_on(defect)?;
    let scratch = match logs {
        Some(_) => None,
        None => Some(
            tempfile::Builder::new()
                .prefix("chaos-")
                .tempdir()
                .map_err(|error| Failure::step("making a folder", error))?,
        ),
    };
    let path = logs.or_else(|| scratch.as_ref().map(|scratch| scratch.path().to_owned()));
    let folder = Folder(path.unwrap_or_default());
    let kind = if made.reaped {
        "are taken out"
    } else {
        "are kept"
    };
    let release = made.release.map_or("any".to_owned(), |it| it.to_string());
    let acls = if made.acls { "on" } else { "off" };
    println!(
        "seed {}, dead servers {kind}, Consul {release}, ACLs {acls}",
        made.seed
    );
    let clean = chaos::run::run(made, &folder, defect).and_then(|()| judge(&folder));
    if !matches!(clean, Ok(true)) {
        println!("the logs are in {}", folder.path().display());
        if let Some(scratch) = scratch {
            let _ = scratch.keep();
        }
    }
    clean
}

fn judge(folder: &Folder) -> Result<bool, Failure> {
    let logs = Logs::read(folder)?;
    let report = check(&logs);
    print!("{report}");
    let is_clean = report.violations.is_empty();
    if is_clean && let Some(missed) = missed(&logs, &report.figures) {
        return Err(Failure::step("striking", missed));
    }
    Ok(is_clean)
}

/// What a run should have disturbed but did not, so that it shows nothing about it.
fn missed(logs: &Logs, figures: &Figures) -> Option<&'static str> {
    let deeds = |kind| figures.deeds.get(&("client", kind)).copied();
    let deeds = |kind| deeds(kind).unwrap_or_default();
    if logs.run.chaos < STRIKING {
        return None;
    }
    if logs.run.reaped && figures.early_ends == 0 {
        return Some("no session ended while its holder believed");
    }
    if deeds(Kind::Gateway) >= GATEWAYS && figures.refusals == 0 {
        return Some("no gateway was ever asked");
    }
    if figures.without_majority >= SILENCES && figures.given_up.1 == 0 {
        return Some("no write that was given up without a leader was applied later");
    }
    if figures.on_one_session == 0 {
        return Some("no session of a `Client` ever held at several places at once");
    }
    if logs.run.acls && deeds(Kind::Restrict) + deeds(Kind::Disown) == 0 {
        return Some("no token lost anything");
    }
    if figures.turns.1 == 0 {
        return Some("no turn could be judged");
    }
    if deeds(Kind::Leave) >= HURRIES && figures.farewells == 0 {
        return Some("no program that ended in a hurry held anything");
    }
    None
}

/// A run of this length meets everything that is drawn.
const STRIKING: Duration = Duration::from_mins(3);
/// At least one in this many gateways stays until somebody asks it.
const GATEWAYS: u64 = 3;
/// At least one in this many times without a leader has a write that was given up and is applied
/// later.
const SILENCES: u64 = 3;
/// At least one in this many programs that end in a hurry holds and reaches Consul.
const HURRIES: u64 = 40;

/// Which release is wanted.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    Any,
    One(Release),
}

fn wanted_release(text: &str) -> Result<Wanted, String> {
    match text {
        "any" => Ok(Wanted::Any),
        _ => text.parse().map(Wanted::One),
    }
}

fn minutes(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(minutes) if (0.05..=1_440.0).contains(&minutes) => Ok(minutes),
        _ => Err("a number of minutes from 0.05 to 1440".to_owned()),
    }
}
