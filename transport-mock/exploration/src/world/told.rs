//! What callers learn, and whether they had to.

use std::sync::Arc;

use semaphore_core::{Error, Outcome};

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
        outcome: Outcome<A::Grant>,
    ) -> Result<(), Violation> {
        let (Outcome::Granted(command, _)
        | Outcome::NotAvailable(command)
        | Outcome::Failed(command, _)
        | Outcome::Lost(command, _)
        | Outcome::Done(command, _)) = outcome;
        if let (Some(change), Outcome::Done(_, result)) =
            (self.nodes[at].change_of(command), &outcome)
        {
            return self.take_change(at, change, result);
        }
        let Some(caller) = self.nodes[at].caller_of(command) else {
            return Err(Violation::ToldForNothing {
                node: self.nodes[at].name.into(),
                outcome: format!("{outcome:?}"),
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
        match outcome {
            Outcome::Granted(_, grant) => {
                let won = A::won(&grant);
                it.step = Step::Holds;
                it.sessions.clone_from(&won.sessions);
                let monitor = Arc::make_mut(&mut self.monitor);
                monitor.judge_grant(&won.sessions, won.token)?;
                monitor.refresh(&self.agent, None);
            }
            Outcome::Lost(_, reason) => {
                it.step = Step::Lost;
                if !is_excused {
                    let (caller, reason) = (name, reason.to_string());
                    return Err(Violation::LostForNothing { caller, reason });
                }
            }
            Outcome::Done(_, result) => {
                it.end();
                if let Err(error) = result
                    && !is_excused
                {
                    let (caller, error) = (name, error.to_string());
                    return Err(Violation::FailedForNothing { caller, error });
                }
            }
            Outcome::Failed(_, error) => {
                it.rounds_left = 1;
                it.end();
                if scene.furniture != Furniture::Garbage {
                    let (caller, error) = (name, error.to_string());
                    return Err(Violation::FailedForNothing { caller, error });
                }
            }
            Outcome::NotAvailable(_) => {}
        }
        Ok(())
    }

    /// A leader learns what became of a change of its value. That fails only with the leadership: whoever leads on is
    /// served.
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
