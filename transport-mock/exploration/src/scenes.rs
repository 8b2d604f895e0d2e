//! The scenes that are explored.

use crate::scene::{Fault, Furniture, Scene};

/// Those that take seconds, for every test run.
pub fn small() -> Vec<Scene> {
    let one = || Scene::new(1, &[1]);
    let two = || Scene::new(1, &[1, 1]).in_round_trips();
    vec![
        one(),
        one().with_cancels(),
        one().with(Furniture::Stranger),
        one().with(Furniture::Garbage),
        one().with_faults(2, &[Fault::Cut, Fault::LoseAnswer]),
        one().with_faults(1, &[Fault::Repeat]),
        one().with_faults(1, &[Fault::Pause]),
        one().with_faults(1, &[Fault::Destroy]),
        Scene::new(1, &[2]).in_round_trips(),
        two(),
        two().together().with_faults(1, &[Fault::Crash]),
    ]
}

/// Those that take longer.
pub fn large() -> Vec<Scene> {
    let two = || Scene::new(1, &[1, 1]).in_round_trips();
    vec![
        Scene::new(1, &[2]),
        Scene::new(2, &[2]).in_round_trips(),
        Scene::new(2, &[1, 1]).in_round_trips(),
        two().together().with_cancels(),
        two().together().with_faults(1, &[Fault::Cut, Fault::LoseAnswer]),
        two().together().with_faults(1, &[Fault::Repeat]),
        two().together().with_faults(1, &[Fault::Pause]),
        two().together().with_faults(1, &[Fault::Destroy]),
        two().together().with_faults(2, &[Fault::Crash, Fault::Cut]),
        two().with(Furniture::Stranger).together(),
        Scene::new(1, &[1, 1, 1]).in_round_trips().together(),
        Scene::new(1, &[1, 1]).together(),
    ]
}
