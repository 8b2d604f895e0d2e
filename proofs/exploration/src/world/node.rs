//! A machine and its callers.

use std::fmt::Write as _;

use semaphore_core::Error;
use semaphore_core::sans_io::{CommandId, Instant, RequestId, Response, TransportError};

use super::actor::Actor;
use super::agent::Agent;
use super::shown::{Shown, number};
use super::turns::{self, Told, Waiter};
use crate::canon::{Token, tokens};
use crate::scene::{Contest, Scene};

#[derive(Clone)]
pub(crate) struct Node<A> {
    pub(crate) name: char,
    /// `None` after a crash.
    pub(crate) actor: Option<A>,
    pub(crate) callers: Vec<Caller>,
    pub(crate) is_paused: bool,
    /// The waiters of whom it was told.
    pub(super) known: Vec<Waiter>,
    /// Since when each record of which it was told has left room.
    pub(super) room_since: Option<Instant>,
    /// The limit that it asks for.
    limit: u32,
    shown: Shown,
}

/// A caller that wants a slot.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) step: Step,
    pub(crate) command: Option<CommandId>,
    pub(crate) rounds_left: u8,
    /// The sessions of its hold.
    pub(crate) sessions: Vec<String>,
    /// The changes of its value whose results it does not know yet, in order.
    pub(crate) changes: Vec<Change>,
}

/// A requested change of the value.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) command: CommandId,
    pub(crate) value: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Away,
    Waits,
    Holds,
    /// It has learned that its hold is lost.
    Lost,
    /// It is releasing its hold.
    Releases,
    Done,
}

impl<A: Actor> Node<A> {
    pub(crate) fn new(at: usize, scene: &Scene) -> Result<Self, Error> {
        let caller = Caller {
            step: Step::Away,
            command: None,
            rounds_left: scene.rounds,
            sessions: Vec::new(),
            changes: Vec::new(),
        };
        let mut node = Self {
            name: char::from(b'A' + u8::try_from(at).unwrap_or(25)),
            actor: Some(A::new(scene, at, SEED)?),
            callers: vec![caller; scene.callers[at]],
            is_paused: false,
            known: Vec::new(),
            room_since: None,
            limit: scene.limit_of(at),
            shown: Shown::default(),
        };
        node.show();
        Ok(node)
    }

    /// Calls the machine. The machine always draws from the same seed, whatever it has done before.
    pub(crate) fn call<T>(&mut self, call: impl FnOnce(&mut A) -> T) -> Option<T> {
        let actor = self.actor.as_mut()?;
        actor.reseed(SEED);
        Some(call(actor))
    }

    /// It is told of contenders.
    pub(super) fn hear(
        &mut self,
        scene: &Scene,
        now: Instant,
        agent: &Agent,
        answer: &Result<Response, TransportError>,
    ) {
        let (Contest::Semaphore, Ok(answer)) = (scene.contest, answer) else {
            return;
        };
        let told = Told::by(answer);
        let named = told.served.iter().filter_map(|it| agent.came(it));
        if let Some(last) = named.chain(told.touched).max() {
            self.known.retain(|(_, came)| *came > last);
        }
        match told.has_room {
            Some(true) => _ = self.room_since.get_or_insert(now),
            Some(false) => self.room_since = None,
            None => {}
        }
        for waiter in turns::shown_in(answer) {
            if !self.known.contains(&waiter) {
                self.known.push(waiter);
            }
        }
        self.known.sort_by_key(|(_, came)| *came);
    }

    /// Whether a caller waits here, or will.
    pub(super) fn may_wait(&self) -> bool {
        let may_wait = |it: &Caller| match it.step {
            Step::Away | Step::Waits => true,
            Step::Done => false,
            Step::Holds | Step::Lost | Step::Releases => it.rounds_left > 1,
        };
        self.actor.is_some() && self.callers.iter().any(may_wait)
    }

    /// Whether a caller waits here.
    pub(super) fn waits(&self) -> bool {
        self.actor.is_some() && self.callers.iter().any(|it| it.step == Step::Waits)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.actor.is_some() && !self.is_paused
    }

    pub(crate) fn believes(&self, now: Instant, caller: usize) -> bool {
        let command = self.callers[caller].command;
        let held = |actor: &A| command.is_some_and(|command| actor.is_held(now, command));
        self.actor.as_ref().is_some_and(held)
    }

    /// Whether all its callers are served and gone, as far as it knows.
    pub(crate) fn is_done(&self) -> bool {
        let is_served = |it: &Caller| it.step == Step::Done && it.changes.is_empty();
        self.callers.iter().all(is_served) && self.actor.as_ref().is_none_or(A::is_idle)
    }

    /// Whether the neighbour may go: at any time, or when all callers are served and gone.
    pub(crate) fn may_dismiss(&self, scene: &Scene) -> bool {
        let is_done = self.callers.iter().all(|it| it.step == Step::Done);
        (is_done || scene.has_free_neighbours())
            && self.actor.as_ref().is_some_and(A::has_neighbour)
    }

    pub(crate) fn caller_of(&self, command: CommandId) -> Option<usize> {
        self.callers
            .iter()
            .position(|caller| caller.command == Some(command))
    }

    /// The caller of a change, and the change's position among the caller's.
    pub(crate) fn change_of(&self, command: CommandId) -> Option<(usize, usize)> {
        let mut callers = self.callers.iter().enumerate();
        callers.find_map(|(at, caller)| {
            let mut changes = caller.changes.iter();
            let place = changes.position(|it| it.command == command)?;
            Some((at, place))
        })
    }

    pub(crate) fn name_of(&self, caller: usize) -> String {
        format!("{}{}", self.name, caller + 1)
    }

    pub(crate) fn tokens(&self) -> &[Token] {
        &self.shown.tokens
    }

    /// The part of the machine that waits for the answer.
    pub(crate) fn request(&self, id: RequestId) -> &[Token] {
        let id = number(id);
        let mut waiting = self.shown.waiting.iter();
        let found = waiting.find(|(known, _)| Some(*known) == id);
        found.map_or(&[], |(_, tokens)| tokens)
    }

    /// Must be called at the end of a step that changed it.
    pub(crate) fn show(&mut self) {
        let mut callers = String::new();
        for caller in &self.callers {
            if caller.step == Step::Done && caller.changes.is_empty() {
                callers.push_str("served;");
                continue;
            }
            // The command of a finished caller does not matter any more.
            let command = caller.command.filter(|_| caller.step != Step::Done);
            let _ = write!(
                callers,
                "{:?} {command:?} {} {:?} {:?};",
                caller.step, caller.rounds_left, caller.sessions, caller.changes
            );
        }
        let _ = write!(callers, "{} {}", self.is_paused, self.limit);
        for (session, _) in &self.known {
            let _ = write!(callers, " knows {session}");
        }
        if let Some(since) = self.room_since {
            let _ = write!(callers, " released_at: {since:?}");
        }
        self.shown = match &self.actor {
            Some(actor) if !self.is_done() => actor.shown(self.may_wait()),
            // It has no effect any more.
            Some(_) => Shown::new("done", core::iter::empty()),
            None => Shown::new("", core::iter::empty()),
        };
        self.shown.tokens.extend(tokens(&callers));
    }
}

impl Caller {
    /// Ends one acquisition.
    pub(crate) fn end(&mut self) {
        self.rounds_left -= 1;
        self.step = if self.rounds_left == 0 {
            Step::Done
        } else {
            Step::Away
        };
        self.command = None;
        self.sessions.clear();
    }
}

const SEED: u64 = 1;
