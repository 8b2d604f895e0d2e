//! The scenes that are explored.

use crate::scene::{Fault, Furniture, Scene};

/// Those that take seconds, for every test run.
pub fn small() -> Vec<Scene> {
    let one = || Scene::new(1, &[1]);
    let two = || Scene::new(1, &[1, 1]).in_round_trips().together();
    vec![
        one(),
        one().with_cancels(),
        one().with(Furniture::Stranger),
        one().with(Furniture::Garbage),
        one().with_faults(1, &[Fault::Cut, Fault::LoseAnswer]),
        one().with_faults(1, &[Fault::Repeat]),
        one().with_faults(1, &[Fault::Crash]),
        one().with_faults(1, &[Fault::Destroy]),
        Scene::new(1, &[2]).in_round_trips(),
        two(),
    ]
}

/// Those that take longer.
pub fn large() -> Vec<Scene> {
    let one = || Scene::new(1, &[1]);
    let two = || Scene::new(1, &[1, 1]).in_round_trips();
    let both = || two().together();
    vec![
        two(),
        both().with_faults(1, &[Fault::Crash]),
        both().with_faults(1, &[Fault::Destroy]),
        both().with_faults(1, &[Fault::LoseAnswer]),
        both().with_faults(1, &[Fault::Cut]),
        both().with_faults(1, &[Fault::Repeat]),
        both().with(Furniture::Stranger),
        both().with_cancels(),
        Scene::new(2, &[2]).in_round_trips(),
        Scene::new(2, &[1, 1]).in_round_trips(),
        one().with_faults(2, &[Fault::Cut, Fault::LoseAnswer]),
        one().with_faults(1, &[Fault::Pause]),
        one().with_faults(1, &[Fault::Delay]),
        Scene::new(1, &[2]),
        both().with_faults(1, &[Fault::Pause]),
        both().with_faults(1, &[Fault::Delay]),
        both().with_faults(2, &[Fault::Crash, Fault::Cut]),
        Scene::new(1, &[1, 1, 1]).in_round_trips().together(),
        Scene::new(1, &[1, 1]).together(),
        Scene::new(2, &[1, 1, 1, 1]).in_round_trips().together(),
    ]
}
