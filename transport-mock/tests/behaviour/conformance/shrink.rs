//! The shortest script that still shows a difference.

use crate::script::Script;

/// The most runs of a script to find a shorter one.
const MOST_RUNS: usize = 600;

/// Removes as many steps as possible while `differs` stays true, but not the first `kept`. It tries
/// long runs of steps first, then single ones.
pub(crate) fn shrink(
    mut script: Script,
    kept: usize,
    mut differs: impl FnMut(&Script) -> bool,
) -> Script {
    let mut runs = 0;
    let mut length = script.steps.len() / 2;
    while length > 0 && runs < MOST_RUNS {
        let mut removed = false;
        let mut end = script.steps.len();
        while end > kept && runs < MOST_RUNS {
            let start = end.saturating_sub(length).max(kept);
            let mut steps = script.steps.clone();
            steps.drain(start..end);
            let shorter = Script {
                name: script.name.clone(),
                steps,
            };
            runs += 1;
            if differs(&shorter) {
                script = shorter;
                removed = true;
            }
            end = start.min(script.steps.len());
        }
        if !removed || length > 1 {
            length /= 2;
        }
    }
    script
}
