//! The common options of `run` and `elect run`: how long to wait, the shown value, and how the
//! command is supervised.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cli::duration;
use crate::exit::{Exit, Outcome};
use crate::failure::Failure;
use crate::identity::{self, Identity};
use crate::logs;
use crate::notices::{Event, Notices};
use crate::supervise::{Care, MARGIN, OnLost};

/// The default of `--ttl`.
pub(crate) const TTL: &str = "30s";

/// What `run` and `elect run` have in common.
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct Holding {
    /// Give up after this long
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    pub(crate) timeout: Option<Duration>,
    /// Take what is free at once, or give up
    #[arg(long = "try", conflicts_with = "timeout")]
    pub(crate) is_try: bool,
    /// The session's name; with --value the time is added [default: consul-semaphore on HOST since TIME]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The value that others see [default: host, process and time, as JSON]
    #[arg(long)]
    pub(crate) value: Option<String>,
    /// The least time for which a silent holder keeps its place: 10s to 24h
    #[arg(long, value_parser = duration::parse, default_value = TTL, value_name = "DURATION")]
    pub(crate) ttl: Duration,
    /// How long the command may take to end when it is told to
    #[arg(long, value_parser = duration::parse, default_value = "5s", value_name = "DURATION")]
    pub(crate) grace: Duration,
    /// What to do with the command when the slot or the lead is lost
    #[arg(long, value_enum, default_value_t = OnLost::Term)]
    pub(crate) on_lost: OnLost,
    /// The exit code when nothing was granted, in time or at once
    #[arg(long, value_name = "CODE")]
    pub(crate) conflict_exit_code: Option<u8>,
    /// Let $SHELL run the command, as one line
    #[arg(long)]
    pub(crate) shell: bool,
    /// Report each step
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Report each step as one line of JSON on standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// Report each step as one line of JSON at the end of this file, which nothing else writes
    #[arg(long, value_name = "FILE")]
    pub(crate) events: Option<PathBuf>,
}

impl Holding {
    /// Checks the options together.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        // The least time that a hold lasts after the last answer: see PROMISES, L4.
        let lease = self.ttl.min(Duration::from_secs(60)) * 3 / 4;
        if self.on_lost != OnLost::Ignore && self.grace + MARGIN >= lease {
            return Err(Failure::usage(format!(
                "a grace of {:?} leaves nothing of a TTL of {:?}: the command would be told to end at once; choose a \
                 longer --ttl or a shorter --grace",
                self.grace, self.ttl
            )));
        }
        Ok(())
    }

    pub(crate) fn value(&self) -> Vec<u8> {
        match &self.value {
            Some(value) => value.clone().into_bytes(),
            None => Identity::of_this_process().to_value(),
        }
    }

    /// It never has the command's arguments: they may be secret, and many can read session names.
    pub(crate) fn session_name(&self) -> String {
        match &self.name {
            Some(name) if self.value.is_some() => identity::with_since(name),
            Some(name) => name.clone(),
            None => identity::session_name(),
        }
    }

    /// The output of this program and of the libraries.
    pub(crate) fn notices(&self) -> Result<Notices, Failure> {
        let notices = Notices::new(self.json, self.verbose);
        if self.verbose && !self.json {
            logs::begin(notices.stderr());
        }
        match &self.events {
            Some(file) => notices.with_events(file),
            None => Ok(notices),
        }
    }

    pub(crate) fn care(&self) -> Care {
        Care {
            on_lost: self.on_lost,
            grace: self.grace,
        }
    }

    /// The exit code of a failure, which the user may have chosen.
    fn exit(&self, failure: &Failure) -> Exit {
        match (failure.exit(), self.conflict_exit_code) {
            (Exit::NOT_GRANTED, Some(code)) => Exit::of_code(code),
            (exit, _) => exit,
        }
    }
}

/// The end of the program: reports what went wrong, if something did.
pub(crate) fn conclude(
    holding: &Holding,
    notices: &Notices,
    ran: Result<Outcome, Failure>,
) -> Exit {
    match ran {
        Ok(outcome) => {
            let exit = outcome.exit();
            if matches!(outcome, Outcome::Lost) {
                let code = exit.code();
                let why = "what the command ran under was lost, and the command was ended";
                notices.tell(&Event::Failed { code, why });
            }
            exit
        }
        Err(failure) => {
            let exit = holding.exit(&failure);
            notices.fail(&failure, exit);
            exit
        }
    }
}
