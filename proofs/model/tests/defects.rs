//! The model can fail: a rule that is changed breaks its promise.
#![expect(clippy::panic, reason = "helpers of tests are tests")]

use std::collections::BTreeSet;

use model::{Preset, presets, scenes, tell};

#[test]
fn grants_that_the_record_does_not_name_and_tokens_that_do_not_rise_are_found() {
    assert_found("handover-blind", "S1: ");
    assert_found("token-of-record", "S5: ");
    assert_found("tokens-per-caller", "S5: ");
    assert_found("serves-later", "S5: ");
}

#[test]
fn a_second_holder_after_a_name_was_removed_too_soon_is_found() {
    assert_found("prune-at-once", "S1: ");
    assert_found("prune-without-lock", "S1: ");
}

#[test]
fn a_name_beyond_a_limit_that_was_lowered_is_found() {
    assert_found("free-never-negative", "S1: more names");
}

#[test]
fn a_slot_that_is_taken_again_past_a_waiter_is_found() {
    assert_found("gives-up-alone", "queue: ");
}

#[test]
fn what_a_key_that_may_not_be_deleted_leaves_behind_is_found() {
    assert_found("denied-left", "L2: ");
    assert_found("denied-forgotten", "L2: ");
}

#[test]
fn keys_deleted_by_hand_that_are_waited_for_are_found() {
    assert_found("wiped-is-filtered", "L3: ");
}

#[test]
fn what_an_entry_that_came_late_leaves_behind_is_found() {
    assert_found("entry-unchecked", "L2: ");
    assert_found("absent-settles-entry", "L2: ");
    assert_found("open-kept", "L2: ");
    assert_found("open-destroyed", "L2: ");
}

#[test]
fn waiters_that_nobody_wakes_are_found() {
    assert_found("polls-nothing", "L1: lost wakeup");
    assert_found("polls-own-key", "L1: lost wakeup");
    assert_found("no-patience", "L1: ");
    assert_found("suspect-is-no-room", "L1: ");
    assert_found("suspects-forgotten", "L1: lost wakeup");
}

#[test]
fn slots_that_never_leave_their_process_are_found() {
    assert_found("no-rotation", "L1: somebody waits for ever");
}

#[test]
fn a_group_that_claims_slot_by_slot_is_found() {
    assert_found("slot-by-slot", "groups: ");
}

#[test]
fn each_defect_has_a_name_and_scenes_of_the_list() {
    let all: BTreeSet<String> = scenes().iter().map(model::Scene::name).collect();
    let names: BTreeSet<&str> = presets().iter().map(Preset::name).collect();
    assert_eq!(names.len(), presets().len());
    for preset in presets() {
        for scene in preset.scenes() {
            assert!(all.contains(*scene), "{}: {scene}", preset.name());
        }
    }
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn each_defect_is_found() {
    for preset in presets() {
        assert!(preset.hunt().is_some(), "{}", preset.name());
    }
}

/// It is found by this promise, and the way to it can be told.
fn assert_found(name: &str, promise: &str) {
    let preset = presets().iter().find(|it| it.name() == name);
    let preset = preset.unwrap_or_else(|| panic!("no defect is called {name}"));
    let Some((scene, report)) = preset.hunt() else {
        panic!("{name}: not found");
    };
    let verdict = report.verdict();
    assert!(verdict.starts_with(promise), "{name}: {verdict}");
    let told = tell(&scene, &report);
    let last = format!("\n{:>3}  ", report.steps());
    assert!(report.steps() == 0 || told.contains(&last), "{told}");
    assert!(!told.contains("not possible"), "{told}");
}
