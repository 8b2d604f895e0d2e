//! Every run of the small scenes, one by one. Only `scripts/nightly exploration`
//! runs the long ones.

use exploration::{Bounds, Fault, Furniture, Outcome, Scene, explore};

#[test]
fn one_caller() {
    assert_proved(&one());
}

#[test]
fn one_caller_who_may_give_up() {
    assert_proved(&one().with_cancels());
}

#[test]
fn one_caller_behind_a_stranger_who_never_claims() {
    assert_proved(&one().with(Furniture::Stranger));
}

#[test]
fn one_caller_and_a_record_that_is_garbage() {
    assert_proved(&one().with(Furniture::Garbage));
}

#[test]
fn one_caller_and_a_lost_answer() {
    let scene = one().with_faults(1, &[Fault::LoseAnswer]);
    assert_proved(&scene);
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn one_caller_and_a_broken_connection_or_a_lost_answer() {
    assert_proved(&cut_or_without_answer());
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn one_caller_and_a_request_that_arrives_twice() {
    let scene = one().with_faults(1, &[Fault::Repeat]);
    assert_proved(&scene);
}

#[test]
fn one_caller_who_crashes() {
    assert_proved(&one().with_faults(1, &[Fault::Crash]));
}

#[test]
fn one_caller_whose_session_is_destroyed() {
    assert_proved(&one().with_faults(1, &[Fault::Destroy]));
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn one_caller_who_is_lost_with_its_server() {
    assert_proved(&one().with_faults(1, &[Fault::LoseServer]));
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn one_candidate_that_is_lost_with_its_server() {
    assert_proved(&candidate().with_faults(1, &[Fault::LoseServer]));
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn two_callers_of_one_participant() {
    assert_proved(&two_callers());
}

#[test]
fn two_participants() {
    assert_proved(&two());
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn two_participants_in_a_rolling_deploy() {
    assert_proved(&two().rolling());
}

#[test]
fn one_candidate() {
    assert_proved(&candidate());
}

#[test]
fn one_candidate_that_may_give_up() {
    assert_proved(&candidate().with_cancels());
}

#[test]
fn one_candidate_while_another_client_leads() {
    assert_proved(&candidate().with(Furniture::Stranger));
}

#[test]
fn one_candidate_and_a_key_that_is_no_elections() {
    assert_proved(&candidate().with(Furniture::Garbage));
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn one_candidate_and_a_broken_connection_or_a_lost_answer() {
    let scene = candidate().with_faults(1, &[Fault::Cut, Fault::LoseAnswer]);
    assert_proved(&scene);
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn one_candidate_and_a_request_that_arrives_twice() {
    assert_proved(&candidate().with_faults(1, &[Fault::Repeat]));
}

#[test]
fn one_candidate_that_crashes() {
    assert_proved(&candidate().with_faults(1, &[Fault::Crash]));
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn one_candidate_whose_session_is_destroyed() {
    assert_proved(&candidate().with_faults(1, &[Fault::Destroy]));
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn two_callers_of_one_candidate() {
    assert_proved(&Scene::election(&[2]).in_round_trips());
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn two_candidates() {
    assert_proved(&duel());
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn one_leader_that_changes_its_value_and_may_give_up() {
    assert_proved(&changing(1).with_cancels());
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn one_leader_that_changes_its_value_twice() {
    assert_proved(&changing(2).in_round_trips());
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn one_leader_that_changes_its_value_and_a_broken_connection() {
    let scene = changing(1).with_faults(1, &[Fault::Cut]);
    assert_proved(&scene.in_round_trips());
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn one_leader_that_changes_its_value_and_a_request_that_arrives_twice() {
    let scene = changing(1).with_faults(1, &[Fault::Repeat]);
    assert_proved(&scene.in_round_trips());
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn one_leader_that_changes_its_value_and_crashes() {
    assert_proved(&changing(1).with_faults(1, &[Fault::Crash]).in_round_trips());
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn one_leader_that_changes_its_value_and_whose_session_is_destroyed() {
    assert_proved(
        &changing(1)
            .with_faults(1, &[Fault::Destroy])
            .in_round_trips(),
    );
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn two_callers_of_one_candidate_that_change_its_value() {
    assert_proved(&Scene::election(&[2]).with_changes(1).in_round_trips());
}

#[test]
fn one_candidate_in_a_client() {
    assert_proved(&candidate().in_clients());
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn one_candidate_in_a_client_that_may_give_up() {
    let scene = candidate().with_cancels().in_clients();
    assert_proved(&scene);
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn one_candidate_in_a_client_that_leads_twice_on_one_session() {
    let scene = candidate().with_rounds(2).in_clients();
    assert_proved(&scene);
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn one_candidate_in_a_client_that_crashes() {
    let scene = candidate().with_faults(1, &[Fault::Crash]).in_clients();
    assert_proved(&scene);
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn one_candidate_in_a_client_whose_session_is_destroyed() {
    let scene = candidate().in_round_trips().in_clients();
    let scene = scene.with_faults(1, &[Fault::Destroy]);
    assert_proved(&scene);
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn one_candidate_in_a_client_and_a_lost_answer() {
    let scene = candidate().in_round_trips().in_clients();
    let scene = scene.with_faults(1, &[Fault::LoseAnswer]);
    assert_proved(&scene);
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn one_candidate_in_a_client_and_a_request_that_arrives_twice() {
    let scene = candidate().in_round_trips().in_clients();
    let scene = scene.with_faults(1, &[Fault::Repeat]);
    assert_proved(&scene);
}

#[test]
fn one_caller_of_a_client() {
    assert_proved(&one().in_clients());
}

#[test]
fn one_caller_of_a_client_who_may_give_up() {
    let scene = one().with_cancels().in_clients();
    assert_proved(&scene);
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn one_candidate_whose_neighbour_comes_and_goes_at_any_time() {
    assert_proved(&candidate().in_round_trips().beside_neighbours());
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn one_caller_whose_neighbour_comes_and_goes_at_any_time() {
    assert_proved(&one().in_round_trips().beside_neighbours());
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn states_beside_neighbours_that_are_taken_for_one_lead_to_the_same_ones() {
    for scene in [candidate(), one()] {
        let scene = scene.in_round_trips().beside_neighbours();
        assert_proved_within(&scene, with_check());
    }
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn states_of_clients_that_are_taken_for_one_lead_to_the_same_ones() {
    let scenes = [
        candidate().with_cancels(),
        candidate().with_rounds(2),
        candidate().with_faults(1, &[Fault::Destroy]),
        one().with_cancels(),
        one().with_faults(1, &[Fault::Destroy]),
    ];
    for scene in scenes.map(Scene::in_clients) {
        assert_proved_within(&scene, with_check());
    }
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn states_of_elections_that_are_taken_for_one_lead_to_the_same_ones() {
    let scenes = [
        candidate().with_cancels(),
        candidate().with_faults(1, &[Fault::Destroy]),
        Scene::election(&[2]).in_round_trips(),
        duel(),
        candidate().with(Furniture::Stranger),
    ];
    assert_same(&scenes);
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn states_with_changes_of_values_that_are_taken_for_one_lead_to_the_same_ones() {
    assert_same(&[changing(1)]);
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn states_that_are_taken_for_one_lead_to_the_same_ones() {
    let scenes = [
        one().with_cancels(),
        one().with_faults(1, &[Fault::Destroy]),
    ];
    assert_same(&scenes);
    let lost = one().with_faults(1, &[Fault::LoseServer]);
    assert_proved_within(&lost, with_check());
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn states_with_broken_connections_that_are_taken_for_one_lead_to_the_same_ones() {
    assert_same(&[cut_or_without_answer()]);
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn states_of_two_that_are_taken_for_one_lead_to_the_same_ones() {
    let scenes = [
        two_callers(),
        two(),
        two().rolling(),
        two().with(Furniture::Stranger),
        two().with_faults(1, &[Fault::Crash]),
        two().with_faults(1, &[Fault::Destroy]),
    ];
    assert_same(&scenes);
}

#[test]
fn a_search_that_was_cut_proves_nothing() {
    let bounds = Bounds {
        states: 50,
        ..Bounds::default()
    };
    let report = explore(&one(), bounds).expect("a scene");
    assert!(matches!(report.outcome, Outcome::Cut));
}

#[test]
fn a_scene_is_the_same_every_time() {
    let figures = || {
        let report = explore(&one(), Bounds::default()).expect("a scene");
        (report.states, report.transitions, report.depth)
    };
    assert_eq!(figures(), figures());
}

fn one() -> Scene {
    Scene::new(1, &[1])
}

fn cut_or_without_answer() -> Scene {
    one().with_faults(1, &[Fault::Cut, Fault::LoseAnswer])
}

fn two() -> Scene {
    Scene::new(1, &[1, 1]).together().in_round_trips()
}

fn two_callers() -> Scene {
    Scene::new(1, &[2]).in_round_trips()
}

fn candidate() -> Scene {
    Scene::election(&[1])
}

/// One candidate that changes its value this often while it leads.
fn changing(changes: u8) -> Scene {
    candidate().with_changes(changes)
}

fn duel() -> Scene {
    Scene::election(&[1, 1]).together().in_round_trips()
}

#[track_caller]
fn assert_same(scenes: &[Scene]) {
    for scene in scenes {
        assert_proved_within(scene, with_check());
    }
}

fn with_check() -> Bounds {
    Bounds {
        checks_sameness: true,
        ..Bounds::default()
    }
}

#[track_caller]
fn assert_proved(scene: &Scene) {
    assert_proved_within(scene, Bounds::default());
}

#[track_caller]
fn assert_proved_within(scene: &Scene, bounds: Bounds) {
    let report = explore(scene, bounds);
    let end = match report.map(|report| report.outcome) {
        Ok(Outcome::Proved) => return,
        Ok(Outcome::Cut) => "not seen whole".to_owned(),
        Ok(Outcome::Broken { violation, story }) => format!("{violation}\n{}", story.join("\n")),
        Err(error) => error.to_string(),
    };
    assert!(end.is_empty(), "{}: {end}", scene.name);
}
