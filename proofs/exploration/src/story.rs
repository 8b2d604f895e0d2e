//! A run as a list of steps.

use semaphore_core::Error;

use crate::action::Action;
use crate::scene::Scene;
use crate::world::{Actor, State};

/// Repeats the actions, and describes them.
pub(crate) fn tell<A: Actor>(scene: &Scene, actions: &[Action]) -> Result<Vec<String>, Error> {
    let mut state = State::<A>::new(scene)?;
    let start = state.now();
    let mut steps = Vec::new();
    for action in actions {
        let what = state.describe(*action);
        let at = state.now().saturating_since(start);
        let before = state.summary();
        match state.after(scene, *action) {
            Ok(next) => {
                state = next;
                steps.push(format!("{:>7.1} s  {what}", at.as_secs_f64()));
                let after = state.summary();
                if after != before {
                    steps.push(format!("{:>13}{after}", ""));
                }
            }
            Err(violation) => {
                steps.push(format!("{:>7.1} s  {what}", at.as_secs_f64()));
                steps.push(format!("{:>11}{violation}", ""));
            }
        }
    }
    Ok(steps)
}
