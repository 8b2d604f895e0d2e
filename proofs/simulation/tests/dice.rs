//! What a seed may draw happens, and breaks nothing.

use std::collections::BTreeMap;

use simulation::plan::Plan;
use simulation::run;

/// Runs some of the worlds of this kind, and returns how often each fault happened.
fn faults_of(is_of_kind: impl Fn(&Plan) -> bool, most: usize) -> BTreeMap<&'static str, u64> {
    let plans = (0..2_000).map(|seed| (seed, Plan::draw(seed)));
    let plans = plans.filter(|(_, plan)| is_of_kind(plan)).take(most);
    let mut sum = BTreeMap::new();
    for (seed, plan) in plans {
        let outcome = run(&plan, false);
        assert_eq!(outcome.violation, None, "seed {seed}");
        for (name, count) in outcome.figures.faults {
            *sum.entry(name).or_default() += count;
        }
    }
    sum
}

#[test]
fn one_session_holds_at_several_prefixes_that_others_want() {
    let is_elsewhere = |plan: &Plan| plan.hosts.iter().any(|it| !it.also.is_empty());
    let faults = faults_of(is_elsewhere, 12);
    assert!(
        faults.contains_key("session that holds at several contested prefixes"),
        "{faults:?}"
    );
}
