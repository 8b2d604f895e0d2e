//! Reduces a failing plan to what the failure needs.

use crate::check::Violation;
use crate::plan::{Piece, Pieces, Plan};
use crate::run::run;

/// The shortest plan that was found.
#[derive(Debug)]
pub struct Shrunk {
    /// The plan, which still fails.
    pub plan: Plan,
    /// Its violation.
    pub violation: Violation,
    /// How many plans were run.
    pub runs: usize,
}

/// Leaves out of a plan what can be left out while it violates the same invariant. This is delta
/// debugging: first halves, then quarters, down to single pieces, until none can go. Runs at most
/// `most` plans.
pub fn shrink(plan: &Plan, violation: &Violation, most: usize) -> Shrunk {
    let mut found = Shrunk {
        plan: plan.clone(),
        violation: violation.clone(),
        runs: 0,
    };
    while found.pass(most) {}
    found
}

impl Shrunk {
    /// Returns whether anything could be left out.
    fn pass(&mut self, most: usize) -> bool {
        let original = self.plan.clone();
        let pieces = Pieces::of(&original);
        let all = pieces.all();
        let mut left_out: Vec<Piece> = Vec::new();
        let mut size = all.len().div_ceil(2).max(1);
        loop {
            for chunk in all.chunks(size) {
                if self.runs >= most {
                    return false;
                }
                let mut tried: Vec<_> = left_out.iter().chain(chunk).copied().collect();
                tried.sort_unstable();
                tried.dedup();
                if tried.len() > left_out.len() && self.still_fails(&pieces.without(&tried)) {
                    left_out = tried;
                }
            }
            if size <= 1 {
                return !left_out.is_empty();
            }
            size /= 2;
        }
    }

    /// Runs a plan, and keeps it if it violates the same invariant.
    fn still_fails(&mut self, plan: &Plan) -> bool {
        self.runs += 1;
        match run(plan, false).violation {
            Some(violation) if violation.invariant == self.violation.invariant => {
                self.plan = plan.clone();
                self.violation = violation;
                true
            }
            _ => false,
        }
    }
}
