//! What to measure: the flags, completed by their defaults.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, ValueEnum};
use examples::backend::{Backend, Transports};
use examples::flags;
use semaphore_core::{Builder, Prefix, Semaphore};

/// Measures the semaphore on a Consul in memory, or on the agent that `CONSUL_HTTP_ADDR` names.
///
/// Exits with 1 if more than the limit held at once, or anything failed or was lost.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Flags {
    /// What sends the requests and runs the contenders
    #[arg(long, value_enum, default_value_t = Backend::Tokio)]
    pub(crate) backend: Backend,
    /// What to measure
    #[arg(long, value_enum, default_value_t = Mode::Contend)]
    pub(crate) mode: Mode,
    /// Use a new semaphore for each acquisition, in mode cycle also with a new session. With
    /// `--transports client` in mode cycle, another semaphore of the client is held meanwhile, so
    /// that each is the second one of the process
    #[arg(long)]
    pub(crate) cold: bool,
    /// How many hosts [default: 4, or one for each contender if there are fewer]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) participants: Option<u16>,
    /// How many contenders, spread over the hosts [default: 15, in modes cycle and hold 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) contenders: Option<u32>,
    /// In mode fleet: how many semaphores [default: 250]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) semaphores: Option<u16>,
    /// In mode fleet: how many waiters, spread over the semaphores [default: 0]
    #[arg(long)]
    pub(crate) waiters: Option<u16>,
    /// Whether all share one client, share only the connections of one transport, or each host (in
    /// mode fleet each handle) has its own [default: each, in mode fleet client]
    #[arg(long, value_enum)]
    pub(crate) transports: Option<Transports>,
    /// How many may hold at once [default: 3, in mode fleet 2]
    #[arg(long)]
    pub(crate) limit: Option<NonZeroU32>,
    /// How many slots each acquires at once
    #[arg(long, default_value = "1")]
    pub(crate) slots: NonZeroU32,
    /// The size of each contender's value in bytes
    #[arg(long, value_parser = clap::value_parser!(u32).range(..=327_680))]
    pub(crate) value_bytes: Option<u32>,
    /// How long each holds, in milliseconds [default: 10, in mode cycle 0, in modes hold and fleet
    /// 60000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=3_600_000))]
    pub(crate) hold_ms: Option<u64>,
    /// How often each contender acquires [default: 1, in mode cycle 100]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rounds: Option<u32>,
    /// How often each acquires before the measurement. Only the later rounds are counted, without
    /// creating and ending sessions
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub(crate) warm_up: u32,
    /// Appends a line for each hold to this file: its beginning and end in nanoseconds since 1970
    #[arg(long, value_name = "FILE")]
    pub(crate) holds: Option<PathBuf>,
    /// The TTL in seconds: the session of a crashed contender ends after one to two of these
    /// [default: 15]
    #[arg(long, value_parser = clap::value_parser!(u64).range(10..=86_400))]
    pub(crate) ttl: Option<u64>,
    /// How many seconds a slot is left alone after its session has ended
    /// [default: as the TTL, at most 60]
    #[arg(long, value_parser = clap::value_parser!(u64).range(0..=60))]
    pub(crate) lock_delay: Option<u64>,
    /// The name of a node without an agent for the sessions: then no agent or server that goes ends
    /// a hold. It is registered if it is missing
    #[arg(long, value_name = "NAME", value_parser = flags::own_node)]
    pub(crate) own_node: Option<String>,
    /// The semaphore's prefix in Consul
    #[arg(long, default_value = "examples/contend", value_parser = flags::prefix)]
    pub(crate) prefix: Prefix,
    /// Gives up this many seconds after the time that the holds need
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout_s: u64,
    /// Prints one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Acquire and release, one after the other: nobody waits
    Cycle,
    /// All at once
    Contend,
    /// One long hold that is only kept; reports its beginning and end
    Hold,
    /// Many semaphores in one process, holding one slot of each
    Fleet,
}

/// The flags, completed by their defaults.
pub(crate) struct Plan {
    pub(crate) flags: Flags,
    pub(crate) contenders: usize,
    pub(crate) participants: usize,
    pub(crate) semaphores: usize,
    pub(crate) waiters: usize,
    pub(crate) transports: Transports,
    pub(crate) limit: NonZeroU32,
    pub(crate) hold: Duration,
    pub(crate) rounds: usize,
    pub(crate) timeout: Duration,
}

impl Flags {
    /// Fills in the defaults.
    ///
    /// # Errors
    /// For flags that don't fit together.
    pub(crate) fn plan(self) -> Result<Plan, clap::Error> {
        let is_fleet = self.mode == Mode::Fleet;
        let default = |cycle, contend, hold| match self.mode {
            Mode::Cycle => cycle,
            Mode::Contend => contend,
            Mode::Hold | Mode::Fleet => hold,
        };
        let contenders = self.contenders.unwrap_or(default(1, 15, 1));
        let participants = self.participants.map_or(contenders.min(4), u32::from);
        let conflict = |text: &str| Err(Self::command().error(ErrorKind::ArgumentConflict, text));
        if participants > contenders {
            return conflict("there are more participants than contenders to spread over them");
        }
        if self.cold && matches!(self.mode, Mode::Hold | Mode::Fleet) {
            return conflict("--cold is for --mode cycle and --mode contend");
        }
        if self.mode == Mode::Hold
            && (contenders > 1 || self.rounds.is_some_and(|rounds| rounds > 1))
        {
            return conflict("in --mode hold one holds once");
        }
        if is_fleet && let Some(flag) = self.of_contenders() {
            return conflict(&format!("{flag} is not for --mode fleet"));
        }
        if !is_fleet && (self.semaphores.is_some() || self.waiters.is_some()) {
            return conflict("--semaphores and --waiters are for --mode fleet");
        }
        let (limit, transports) = if is_fleet {
            (2, Transports::Client)
        } else {
            (3, Transports::Each)
        };
        let limit = self.limit.or(NonZeroU32::new(limit));
        if limit.is_some_and(|limit| limit < self.slots) {
            return conflict("--slots is more than --limit");
        }
        let hold = Duration::from_millis(self.hold_ms.unwrap_or(default(0, 10, 60_000).into()));
        let rounds = self.rounds.unwrap_or(default(100, 1, 1));
        let in_turn = contenders.saturating_mul(rounds.max(self.warm_up));
        Ok(Plan {
            contenders: contenders as usize,
            participants: participants as usize,
            semaphores: self.semaphores.unwrap_or(250).into(),
            waiters: self.waiters.unwrap_or(0).into(),
            transports: self.transports.unwrap_or(transports),
            limit: limit.unwrap_or(NonZeroU32::MIN),
            hold,
            rounds: rounds as usize,
            timeout: Duration::from_secs(self.timeout_s) + hold.saturating_mul(in_turn),
            flags: self,
        })
    }

    /// A given flag that only makes sense for contenders of one semaphore.
    fn of_contenders(&self) -> Option<&'static str> {
        let given = [
            ("--contenders", self.contenders.is_some()),
            ("--participants", self.participants.is_some()),
            ("--rounds", self.rounds.is_some()),
            ("--warm-up", self.warm_up > 0),
            ("--slots", self.slots.get() > 1),
            ("--holds", self.holds.is_some()),
        ];
        given
            .into_iter()
            .find_map(|(flag, is_given)| is_given.then_some(flag))
    }
}

impl Plan {
    /// The semaphore at `prefix`, with the settings of the flags.
    pub(crate) fn builder(&self, prefix: &str) -> Builder {
        let flags = &self.flags;
        let mut builder = Semaphore::builder(prefix, self.limit.get());
        if let Some(bytes) = flags.value_bytes {
            builder = builder.value(vec![b'x'; bytes as usize]);
        }
        if let Some(ttl) = flags.ttl {
            builder = builder.ttl(Duration::from_secs(ttl));
        }
        if let Some(delay) = flags.lock_delay {
            builder = builder.lock_delay(Duration::from_secs(delay));
        }
        if let Some(name) = &flags.own_node {
            builder = builder.own_node(name);
        }
        builder
    }
}
