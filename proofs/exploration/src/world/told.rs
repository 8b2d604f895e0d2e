//! What callers learn, and whether that was right.

use std::sync::Arc;

use semaphore_core::Error;
use semaphore_core::sans_io::Event;

use super::State;
use super::actor::Actor;
use super::node::{Change, Step};
use super::values;
use crate::scene::{Furniture, Scene};
use crate::violation::Violation;

impl<A: Actor> State<A> {
    /// A caller learns something.
    pub(super) fn take(
        &mut self,
        scene: &Scene,
        at: usize,
        event: Event<A::Grant>,
    ) -> Result<(), Violation> {
        let command = event.command();
        if let (Some(change), Event::Done { result, .. }) =
            (self.nodes[at].change_of(command), &event)
        {
            return self.take_change(at, change, result);
        }
        let Some(caller) = self.nodes[at].caller_of(command) else {
            return Err(Violation::ToldForNothing {
                node: self.nodes[at].name.into(),
                outcome: format!("{event:?}"),
            });
        };
        let name = self.nodes[at].name_of(caller);
        let monitor = Arc::clone(&self.monitor);
        let it = &mut self.node(at).callers[caller];
        let is_excused = scene.may_lose_leases()
            || it
                .sessions
                .iter()
                .any(|session| monitor.is_destroyed(session));
        match event {
            Event::Granted { grant, .. } => {
                let won = A::won(&grant);
                it.step = Step::Holds;
                it.sessions.clone_from(&won.sessions);
                let monitor = Arc::make_mut(&mut self.monitor);
                monitor.judge_grant(&won.sessions, won.token)?;
                monitor.refresh(&self.agent, None);
            }
            Event::Lost { reason, .. } => {
                it.step = Step::Lost;
                if !is_excused {
                    let (caller, reason) = (name, reason.to_string());
                    return Err(Violation::LostForNothing { caller, reason });
                }
            }
            Event::Done { result, .. } => {
                it.end();
                if let Err(error) = result
                    && !is_excused
                {
                    let (caller, error) = (name, error.to_string());
                    return Err(Violation::FailedForNothing { caller, error });
                }
            }
            Event::Failed { error, .. } => {
                it.rounds_left = 1;
                it.end();
                if scene.furniture != Furniture::Garbage {
                    let (caller, error) = (name, error.to_string());
                    return Err(Violation::FailedForNothing { caller, error });
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A neighbour that comes and goes at any time lost its hold, or failed.
    pub(super) fn complain(
        &self,
        scene: &Scene,
        at: usize,
        reason: String,
    ) -> Result<(), Violation> {
        let is_excused = scene.may_lose_leases() || self.monitor.has_destroyed();
        if !scene.has_free_neighbours() || is_excused {
            return Ok(());
        }
        let caller = format!("{}'s neighbour", self.nodes[at].name);
        Err(Violation::LostForNothing { caller, reason })
    }

    /// A leader learns the result of a change of its value. The change must not fail while the
    /// leadership lasts.
    fn take_change(
        &mut self,
        at: usize,
        (caller, place): (usize, usize),
        result: &Result<(), Error>,
    ) -> Result<(), Violation> {
        let name = self.nodes[at].name_of(caller);
        if place != 0 {
            return Err(Violation::ToldOutOfOrder { caller: name });
        }
        let Change { value, .. } = self.node(at).callers[caller].changes.remove(0);
        let leads = self.nodes[at].believes(self.now, caller);
        let monitor = Arc::make_mut(&mut self.monitor);
        match result {
            Ok(()) => {
                if !monitor.values.told(value) {
                    let (caller, value) = (name, values::text(value));
                    return Err(Violation::ToldUnshown { caller, value });
                }
            }
            Err(error) if leads => {
                let (caller, error) = (name, error.to_string());
                return Err(Violation::FailedForNothing { caller, error });
            }
            Err(_) => monitor.values.ended(value),
        }
        monitor.refresh(&self.agent, None);
        Ok(())
    }
}
