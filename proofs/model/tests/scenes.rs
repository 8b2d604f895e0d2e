//! The protocol breaks no promise: in small scenes that are seen whole, and on walks through larger ones.
#![expect(clippy::panic, reason = "helpers of tests are tests")]

use model::{Counts, End, Scene, explore, scenes, walk};

#[test]
fn everybody_is_woken_while_nothing_fails() {
    assert_clean("calm P11 Q1 limit1");
    assert_clean("calm P2 Q2 limit2 turns22 quick");
}

#[test]
fn writes_that_are_lost_or_late_leave_nothing_behind() {
    assert_clean("lost1 P1 Q1 limit1");
    assert_clean("lost3 cancel1 P1 limit1");
    assert_clean("lost2 cancel1 P2 limit2");
}

#[test]
fn writes_on_a_session_that_lives_on_leave_nothing_behind() {
    assert_clean("lost1 cancel1 P11 limit1 shared");
}

#[test]
fn a_session_that_ends_early_and_a_crash_cost_no_promise() {
    assert_clean("lost1 early1 P2 limit2");
    assert_clean("crash1 P1 Q1 limit1");
    assert_clean("crash1 P2 Q2 limit2");
}

#[test]
fn answers_of_a_former_leader_cost_no_promise() {
    assert_clean("former1 P2 Q1 limit2 quick");
}

#[test]
fn operators_who_delete_names_and_keys_cost_no_promise() {
    assert_clean("unname1 P1 Q1 limit1");
    assert_clean("unkey1 P1 Q1 limit1");
    assert_clean("wipe1 P1 limit1 turns2");
}

#[test]
fn a_limit_that_is_lowered_under_holders_costs_no_promise() {
    assert_clean("lower1 P11 limit2 dead2");
    assert_clean("lower1 P2 Q1 limit2");
}

#[test]
fn a_key_that_may_not_be_deleted_leaves_nothing_behind() {
    assert_clean("lost2 cancel1 deny1 P1 limit1");
}

#[test]
fn names_of_dead_holders_are_removed_without_waiting_for_another_list() {
    assert_clean("calm P11 limit2 dead2");
}

#[test]
fn waiters_who_never_act_are_passed() {
    assert_clean("stuck P1 Q1 limit1");
    assert_clean("stuck-group P2 Q1 limit2");
    assert_clean("crash1 stuck P1 Q1 limit1");
}

#[test]
fn callers_who_come_for_ever_keep_nobody_out() {
    assert_clean("calm P2* Q1 limit2 stay slow quick");
}

#[test]
fn walks_through_larger_scenes_end_with_everybody_served() {
    walk_from(1, 400);
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn no_scene_breaks_a_promise_in_its_first_states() {
    for scene in scenes() {
        let name = scene.name();
        let report = explore(&scene.exactly().at_most(30_000));
        assert!(report.is_clean(), "{name}: {}", report.verdict());
    }
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn many_walks_through_larger_scenes_end_with_everybody_served() {
    walk_from(1_000_000, 40_000);
}

fn walk_from(first: u64, walks: u64) {
    let mut counts = Counts::default();
    for seed in first..first + walks {
        let (_, end) = walk(seed, true, false, &mut counts);
        if let End::Bad(why) = end {
            panic!("seed {seed}: {why}");
        }
    }
}

fn assert_clean(name: &str) {
    let report = explore(&named(name));
    assert!(report.is_clean(), "{name}: {}", report.verdict());
    assert!(report.is_whole(), "{name}: cut at {}", report.states());
}

fn named(name: &str) -> Scene {
    let scene = scenes().into_iter().find(|it| it.name() == name);
    scene.unwrap_or_else(|| panic!("no scene is called {name}"))
}
