//! What a process runs: a participant in a semaphore, or a candidate in an election. A scene has
//! one kind of them. The rest of the world only uses what both have in common.

use core::fmt;

use semaphore_core::sans_io::{
    Candidate, CommandId, ElectionSettings, Grant, Instant, Machine, Participant, Settings, Term,
    Transmit, Value,
};
use semaphore_core::{Error, LockKey, Prefix};

use super::agent::{LEADER, PREFIX};
use super::shown::Shown;
use super::{candidate, participant, values};
use crate::scene::Scene;

/// A machine that takes commands and can be cloned and shown.
pub(crate) trait Actor: Machine + Clone + fmt::Debug {
    /// The machine at this position of the scene.
    fn new(scene: &Scene, at: usize, seed: u64) -> Result<Self, Error>;
    /// Somebody wants a slot, or wants to lead. `None` if that was refused.
    fn ask(&mut self, now: Instant) -> Option<CommandId>;
    /// A leader wants to change its value. `None` if this machine has no values.
    fn change(&mut self, now: Instant, command: CommandId, value: &str) -> Option<CommandId>;
    /// From now on, the machine draws its jitter from this seed.
    fn reseed(&mut self, seed: u64);
    /// The content of a grant.
    fn won(grant: &Self::Grant) -> Won;
    /// What decides what it does next. `may_wait`: whether a caller waits, or will.
    fn shown(&self, may_wait: bool) -> Shown;
    /// The texts that show all its parts.
    #[cfg(test)]
    fn texts(&self) -> Vec<String> {
        vec![format!("{self:?}")]
    }

    /// A request that is answered before anything else happens.
    fn poll_prompt(&mut self, _: Instant) -> Option<Transmit> {
        None
    }
    /// Whether somebody else in its process uses its session.
    fn has_neighbour(&self) -> bool {
        false
    }
    /// Whether a neighbour may come.
    fn may_invite(&self) -> bool {
        false
    }
    /// The neighbour comes.
    fn invite(&mut self) {}
    /// The sessions of what the neighbour believes that it holds.
    fn neighbour_holds(&self, _: Instant) -> &[String] {
        &[]
    }
    /// Why the neighbour lost something or failed, told once.
    fn complaint(&mut self) -> Option<String> {
        None
    }
    /// The neighbour gives back what it holds.
    fn dismiss(&mut self, _: Instant) {}
    /// Whether nothing of it may be left except its session.
    fn is_at_rest(&self) -> bool {
        self.is_idle()
    }
}

/// A grant.
#[derive(Debug)]
pub(crate) struct Won {
    /// The sessions of the hold.
    pub(crate) sessions: Vec<String>,
    pub(crate) token: Fencing,
}

/// The parts of a fencing token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fencing {
    /// The index of the key.
    pub(crate) index: u64,
    /// The number among the grants of one write.
    pub(crate) number: u64,
}

/// One write of the record admits fewer contenders than this.
const GRANTS_OF_A_WRITE: u64 = 1_024;

impl Actor for Participant {
    fn new(scene: &Scene, at: usize, seed: u64) -> Result<Self, Error> {
        Ok(Self::new(participation(scene, at, PREFIX)?, seed))
    }

    fn ask(&mut self, now: Instant) -> Option<CommandId> {
        self.acquire(now, 1, None).ok()
    }

    fn change(&mut self, _: Instant, _: CommandId, _: &str) -> Option<CommandId> {
        None
    }

    fn reseed(&mut self, seed: u64) {
        self.reseed(seed);
    }

    fn won(grant: &Grant) -> Won {
        let sequencers = grant.sequencers.iter();
        Won {
            sessions: sequencers.map(|it| it.session.to_string()).collect(),
            token: Fencing {
                index: grant.token.0 / GRANTS_OF_A_WRITE,
                number: grant.token.0 % GRANTS_OF_A_WRITE,
            },
        }
    }

    fn shown(&self, may_wait: bool) -> Shown {
        participant::shown(&format!("{self:?}"), may_wait)
    }
}

impl Actor for Candidate {
    fn new(_: &Scene, _: usize, seed: u64) -> Result<Self, Error> {
        Ok(Self::new(candidacy(LEADER)?, seed))
    }

    fn ask(&mut self, now: Instant) -> Option<CommandId> {
        self.campaign(now, None).ok()
    }

    fn change(&mut self, now: Instant, command: CommandId, value: &str) -> Option<CommandId> {
        let value = Value::new(value).ok()?;
        Some(self.set_value(now, command, &value))
    }

    fn reseed(&mut self, seed: u64) {
        self.reseed(seed);
    }

    fn won(term: &Term) -> Won {
        Won {
            sessions: vec![term.sequencer.session.to_string()],
            token: Fencing {
                index: term.token.0,
                number: 0,
            },
        }
    }

    fn shown(&self, _: bool) -> Shown {
        candidate::shown(&format!("{self:?}"))
    }
}

/// The settings of the participant at this position, for this prefix.
pub(super) fn participation(scene: &Scene, at: usize, prefix: &str) -> Result<Settings, Error> {
    Ok(Settings::new(Prefix::new(prefix)?, scene.limit_of(at))?
        .with_limit_adopted(scene.is_rolling)
        .with_limit_replaced_if_idle(scene.is_rolling))
}

/// The settings of a candidate, for this key.
pub(super) fn candidacy(key: &str) -> Result<ElectionSettings, Error> {
    Ok(ElectionSettings::new(LockKey::new(key)?)
        .with_value(Value::new(values::text(values::FIRST))?))
}
