//! The program's flags.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt as _};
use semaphore_core::Prefix;

use crate::failure::Failure;

pub(crate) const HELP: &str = "\
Contenders share the slots of one semaphore. Each is a participant with separate connections.

It runs on the agent at CONSUL_HTTP_ADDR, or else on a Consul in memory and on virtual time, where one
contender is cut off from Consul while it holds a slot.

Usage: quickstart [OPTIONS]

Options:
      --contenders NUMBER  How many contend, 1 to 60 [default: 15]
      --limit NUMBER       How many may hold at once [default: 3]
      --prefix PREFIX      Where the semaphore is in Consul [default: examples/quickstart]
      --hold-ms NUMBER     The longest hold in milliseconds, up to 600000. Each is at random between a third
                           of it and this [default: 1800, in memory 18000]
      --seed NUMBER        Repeats the holds of another run, and in memory all of it
      --svg FILE           Draws the run into this file
  -h, --help               Shows this";

/// What the program should do.
pub(crate) enum Asked {
    Help,
    Run(Flags),
}

pub(crate) struct Flags {
    pub(crate) contenders: u32,
    pub(crate) limit: NonZeroU32,
    pub(crate) prefix: String,
    pub(crate) longest_hold: Option<Duration>,
    pub(crate) seed: Option<u64>,
    pub(crate) svg: Option<PathBuf>,
}

/// Parses the command line, including the program's name.
pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Asked, Failure> {
    parse(arguments).map_err(Failure::Usage)
}

fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Asked, lexopt::Error> {
    let mut parser = Parser::from_iter(arguments);
    let mut flags = Flags {
        contenders: 15,
        limit: NonZeroU32::MIN.saturating_add(2),
        prefix: "examples/quickstart".to_owned(),
        longest_hold: None,
        seed: None,
        svg: None,
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("contenders") => {
                flags.contenders = parser.value()?.parse()?;
                within("--contenders", flags.contenders.into(), 60)?;
            }
            Arg::Long("limit") => flags.limit = parser.value()?.parse()?,
            Arg::Long("prefix") => {
                let text = parser.value()?.string()?;
                Prefix::new(&text).map_err(|error| custom("--prefix", error))?;
                flags.prefix = text;
            }
            Arg::Long("hold-ms") => {
                let millis = parser.value()?.parse()?;
                within("--hold-ms", millis, 600_000)?;
                flags.longest_hold = Some(Duration::from_millis(millis));
            }
            Arg::Long("seed") => flags.seed = Some(parser.value()?.parse()?),
            Arg::Long("svg") => flags.svg = Some(parser.value()?.into()),
            Arg::Short('h') | Arg::Long("help") => return Ok(Asked::Help),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Asked::Run(flags))
}

fn within(flag: &str, value: u64, most: u64) -> Result<(), lexopt::Error> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    Err(custom(flag, format!("{value} is not in 1 to {most}")))
}

fn custom(flag: &str, error: impl std::fmt::Display) -> lexopt::Error {
    lexopt::Error::Custom(format!("{flag}: {error}").into())
}
