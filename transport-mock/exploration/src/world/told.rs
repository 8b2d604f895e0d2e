//! What callers learn, and whether they had to.

use std::sync::Arc;

use semaphore_core::Outcome;

use super::State;
use super::actor::Actor;
use super::node::Step;
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
        let Some(caller) = self.nodes[at].caller_of(command) else {
            return Ok(());
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
}
