//! The scenes that are explored.

use crate::scene::{Fault, Furniture, Scene};

/// The scenes that take seconds, for every test run.
pub fn small() -> Vec<Scene> {
    let mut scenes = small_semaphores();
    scenes.extend(small_elections());
    scenes.extend(small_changes());
    scenes.extend(small_clients());
    scenes.extend(small_neighbours());
    scenes
}

/// The scenes that take longer.
pub fn large() -> Vec<Scene> {
    let mut scenes = large_semaphores();
    scenes.extend(large_elections());
    scenes.extend(large_changes());
    scenes.extend(large_clients());
    scenes
}

fn small_semaphores() -> Vec<Scene> {
    let one = || Scene::new(1, &[1]);
    let two = || Scene::new(1, &[1, 1]).together().in_round_trips();
    let scenes = [
        one(),
        one().with_cancels(),
        one().with(Furniture::Stranger),
        one().with(Furniture::Garbage),
        one().with_faults(1, &[Fault::Cut, Fault::LoseAnswer]),
        one().with_faults(1, &[Fault::Repeat]),
        one().with_faults(1, &[Fault::Crash]),
        one().with_faults(1, &[Fault::Destroy]),
        one().with_faults(1, &[Fault::LoseServer]),
        Scene::new(1, &[2]).in_round_trips(),
        two(),
        two().rolling(),
    ];
    scenes.to_vec()
}

fn small_elections() -> Vec<Scene> {
    let one = || Scene::election(&[1]);
    vec![
        one(),
        one().with_cancels(),
        one().with(Furniture::Stranger),
        one().with(Furniture::Garbage),
        one().with_faults(1, &[Fault::Cut, Fault::LoseAnswer]),
        one().with_faults(1, &[Fault::Repeat]),
        one().with_faults(1, &[Fault::Crash]),
        one().with_faults(1, &[Fault::Destroy]),
        one().with_faults(1, &[Fault::LoseServer]),
        Scene::election(&[2]).in_round_trips(),
        Scene::election(&[1, 1]).together().in_round_trips(),
    ]
}

/// Leaders that change their value.
fn small_changes() -> Vec<Scene> {
    let one = || Scene::election(&[1]).with_changes(1);
    let trips = || one().in_round_trips();
    vec![
        one(),
        one().with_cancels(),
        one().with_faults(1, &[Fault::Crash]),
        trips().with_faults(1, &[Fault::Cut, Fault::LoseAnswer]),
        trips().with_faults(1, &[Fault::Repeat]),
        trips().with_faults(1, &[Fault::Destroy]),
        Scene::election(&[1]).with_changes(2),
        Scene::election(&[2]).with_changes(1).in_round_trips(),
    ]
}

fn large_semaphores() -> Vec<Scene> {
    use Fault::{Crash, Cut, Delay, Destroy, LoseAnswer, LoseServer, Pause, Repeat};

    let one = || Scene::new(1, &[1]);
    let each = |limit, callers: &[usize]| Scene::new(limit, callers).together();
    let trips = |limit, callers: &[usize]| each(limit, callers).in_round_trips();
    vec![
        one().with_faults(2, &[Cut, LoseAnswer, Crash]),
        one().with_faults(1, &[Pause]),
        one().with_faults(1, &[Delay]),
        // Callers of one participant.
        Scene::new(1, &[2]),
        Scene::new(2, &[2]),
        each(1, &[2]).with_faults(1, &[Cut, LoseAnswer, Crash]),
        each(1, &[3]),
        each(2, &[3]),
        each(1, &[4]),
        each(2, &[4]),
        trips(2, &[3]),
        trips(2, &[4]),
        // Two participants, in every order.
        Scene::new(1, &[1, 1]),
        each(2, &[1, 1]),
        each(1, &[1, 1]).with_cancels(),
        each(1, &[1, 1]).with(Furniture::Stranger),
        each(1, &[1, 1]).with_faults(1, &[Crash]),
        each(1, &[1, 1]).with_faults(1, &[LoseAnswer]),
        each(1, &[1, 1]).with_faults(1, &[Cut]),
        each(2, &[1, 1]).with_faults(1, &[Crash]),
        // Two participants, in round trips.
        trips(1, &[1, 1]).with(Furniture::Stranger),
        trips(1, &[1, 1]).with_faults(1, &[Crash]),
        trips(1, &[1, 1]).with_faults(1, &[LoseAnswer]),
        trips(1, &[1, 1]).with_faults(1, &[Cut]),
        trips(1, &[1, 1]).with_faults(1, &[Destroy]),
        trips(1, &[1, 1]).with_faults(1, &[LoseServer]),
        trips(1, &[1, 1]).with_faults(1, &[Repeat]),
        trips(1, &[1, 1]).with_faults(1, &[Pause]),
        trips(1, &[1, 1]).with_faults(1, &[Delay]),
        trips(1, &[1, 1]).with_faults(2, &[Crash, LoseAnswer]),
        trips(1, &[1, 1]).with_faults(2, &[Crash, Cut]),
        trips(1, &[1, 1]).with_faults(2, &[Cut, LoseAnswer]),
        // Three and four contenders.
        trips(1, &[2, 1]),
        trips(2, &[2, 1]),
        trips(1, &[1, 1, 1]),
        trips(2, &[1, 1, 1]),
        trips(1, &[1, 1, 1]).with_faults(1, &[Crash]),
        trips(1, &[1, 1, 1]).with_faults(1, &[LoseServer]),
        trips(2, &[1, 1, 1]).with_faults(1, &[LoseServer]),
        trips(1, &[2, 2]),
        trips(2, &[2, 2]),
        trips(1, &[1, 1, 1, 1]),
        trips(2, &[1, 1, 1, 1]),
        // A rolling deploy.
        each(1, &[1, 1]).rolling(),
        trips(1, &[1, 1]).rolling().with_rounds(2),
        trips(1, &[1, 1]).rolling().with_faults(1, &[Crash]),
        trips(1, &[1, 1]).rolling().with_faults(1, &[Cut]),
        trips(1, &[1, 1]).rolling().with_faults(1, &[LoseAnswer]),
        trips(1, &[1, 1]).rolling().with_faults(1, &[Destroy]),
        trips(1, &[1, 1]).rolling().with_faults(1, &[LoseServer]),
        trips(1, &[1, 1]).rolling().with(Furniture::Stranger),
        trips(1, &[2, 1]).rolling(),
        trips(1, &[1, 1, 1]).rolling(),
        // A session is kept for the next turn, and a slot passes from caller to caller.
        one().with_rounds(2),
        trips(1, &[2]).with_rounds(2),
        trips(1, &[1, 1]).with_rounds(2),
        trips(1, &[2]).with_faults(1, &[Cut, LoseAnswer, Destroy]),
    ]
}

fn large_elections() -> Vec<Scene> {
    use Fault::{Crash, Cut, Delay, Destroy, LoseAnswer, LoseServer, Pause, Repeat};

    let one = || Scene::election(&[1]);
    let each = |callers: &[usize]| Scene::election(callers).together();
    let trips = |callers: &[usize]| each(callers).in_round_trips();
    vec![
        one().with_faults(2, &[Cut, LoseAnswer, Crash]),
        one().with_faults(1, &[Pause]),
        one().with_faults(1, &[Delay]),
        one()
            .with_faults(1, &[Destroy, Cut, LoseAnswer])
            .with(Furniture::Stranger),
        one().with_rounds(2),
        // Callers of one candidate.
        Scene::election(&[2]),
        each(&[2]).with_faults(1, &[Cut, LoseAnswer, Crash]),
        each(&[3]),
        // Two candidates, in every order.
        each(&[1, 1]),
        Scene::election(&[1, 1]),
        each(&[1, 1]).with_cancels(),
        each(&[1, 1]).with(Furniture::Stranger),
        each(&[1, 1]).with_faults(1, &[Crash]),
        each(&[1, 1]).with_faults(1, &[LoseAnswer]),
        each(&[1, 1]).with_faults(1, &[Cut]),
        // Two candidates, in round trips.
        trips(&[1, 1]).with_cancels(),
        trips(&[1, 1]).with(Furniture::Stranger),
        trips(&[1, 1]).with_faults(1, &[Crash]),
        trips(&[1, 1]).with_faults(1, &[LoseAnswer]),
        trips(&[1, 1]).with_faults(1, &[Cut]),
        trips(&[1, 1]).with_faults(1, &[Destroy]),
        trips(&[1, 1]).with_faults(1, &[LoseServer]),
        trips(&[1, 1]).with_faults(1, &[Repeat]),
        trips(&[1, 1]).with_faults(1, &[Pause]),
        trips(&[1, 1]).with_faults(1, &[Delay]),
        trips(&[1, 1]).with_faults(2, &[Crash, LoseAnswer]),
        trips(&[1, 1]).with_faults(2, &[Cut, LoseAnswer]),
        trips(&[2, 1]),
        // Three and four.
        trips(&[1, 1, 1]),
        trips(&[1, 1, 1]).with(Furniture::Stranger),
        trips(&[1, 1, 1]).with_faults(1, &[Crash]),
        trips(&[1, 1, 1]).with_faults(1, &[Destroy]),
        trips(&[1, 1, 1, 1]),
    ]
}

fn large_changes() -> Vec<Scene> {
    use Fault::{Crash, Cut, Delay, Destroy, LoseAnswer, Pause, Repeat};

    let one = |changes| Scene::election(&[1]).with_changes(changes);
    let trips = |callers: &[usize], changes| {
        let scene = Scene::election(callers).with_changes(changes);
        scene.together().in_round_trips()
    };
    vec![
        one(1).with(Furniture::Stranger),
        one(1).with_faults(1, &[Cut, LoseAnswer]),
        one(1).with_faults(1, &[Repeat]),
        one(1).with_faults(1, &[Destroy]),
        one(1).with_faults(1, &[Pause]),
        one(1).with_faults(1, &[Delay]),
        one(1).with_faults(2, &[Cut, LoseAnswer, Crash]),
        one(1).with_cancels().with_faults(1, &[Cut, LoseAnswer]),
        one(1).with_cancels().with_faults(1, &[Destroy]),
        one(1).with_rounds(2),
        one(2).with_cancels(),
        one(2).with_faults(1, &[Cut, LoseAnswer]),
        one(2).with_faults(1, &[Repeat]),
        one(2).with_faults(1, &[Crash]),
        one(2).with_faults(1, &[Destroy]),
        one(2).with_rounds(2),
        // In round trips.
        trips(&[1], 2).with_faults(1, &[Cut, LoseAnswer]),
        trips(&[1], 2).with_faults(1, &[Repeat]),
        trips(&[1], 1).with_faults(2, &[Cut, LoseAnswer, Repeat]),
        trips(&[1], 1).with_faults(1, &[Pause]),
        trips(&[1], 1).with_faults(1, &[Delay]),
        trips(&[2], 2).with_cancels(),
        // Two and three candidates.
        trips(&[1, 1], 1),
        trips(&[1, 1], 1).with_cancels(),
        trips(&[1, 1], 1).with_faults(1, &[Cut]),
        trips(&[1, 1], 1).with_faults(1, &[LoseAnswer]),
        trips(&[1, 1], 1).with_faults(1, &[Repeat]),
        trips(&[1, 1], 1).with_faults(1, &[Crash]),
        trips(&[1, 1], 1).with_faults(1, &[Pause]),
        trips(&[1, 1], 1).with_faults(1, &[Delay]),
        trips(&[1, 1], 1).with_faults(1, &[Destroy]),
        trips(&[1, 1], 2),
        Scene::election(&[1, 1]).together().with_changes(1),
        trips(&[1, 1, 1], 1),
    ]
}

/// Contenders whose sessions live on.
fn small_clients() -> Vec<Scene> {
    let candidate = || Scene::election(&[1]);
    let trips = || candidate().in_round_trips();
    let participant = || Scene::new(1, &[1]);
    let scenes = [
        candidate(),
        candidate().with_cancels(),
        candidate().with_rounds(2),
        candidate().with_faults(1, &[Fault::Crash]),
        trips().with_faults(1, &[Fault::Destroy]),
        trips().with_faults(1, &[Fault::Repeat]),
        trips().with_faults(1, &[Fault::LoseAnswer]),
        trips().with_rounds(2).with_cancels(),
        participant(),
        participant().with_cancels(),
        participant()
            .in_round_trips()
            .with_faults(1, &[Fault::Destroy]),
    ];
    scenes.map(Scene::in_clients).into()
}

/// Contenders whose neighbours come and go at any time.
fn small_neighbours() -> Vec<Scene> {
    let scenes = [Scene::new(1, &[1]), Scene::election(&[1])].map(|scene| {
        let scene = scene.in_round_trips();
        [scene.clone(), scene.with_faults(1, &[Fault::Crash])]
    });
    let scenes = scenes.into_iter().flatten();
    scenes.map(Scene::beside_neighbours).collect()
}

fn large_clients() -> Vec<Scene> {
    use Fault::{Crash, Cut, Destroy, LoseAnswer, Repeat};

    let candidate = || Scene::election(&[1]);
    let participant = || Scene::new(1, &[1]);
    // The next turn follows with the same session.
    let again = |scene: Scene| {
        let trips = scene.clone().in_round_trips();
        [
            scene.clone().with_cancels(),
            scene.clone().with_faults(1, &[Cut, LoseAnswer]),
            scene.clone().with_faults(1, &[Repeat]),
            scene.with_faults(1, &[Destroy]),
            trips.clone().with_faults(1, &[Cut]),
            trips.clone().with_faults(1, &[LoseAnswer]),
            trips.clone().with_faults(1, &[Repeat]),
            trips.clone().with_faults(1, &[Destroy]),
            trips.with_cancels().with_faults(1, &[Cut, LoseAnswer]),
        ]
    };
    let one = [candidate(), participant()].map(|scene| {
        [
            scene.clone().with_faults(1, &[Cut, LoseAnswer]),
            scene.clone().with_faults(1, &[Repeat]),
            scene.clone().with_faults(1, &[Destroy]),
            scene.clone().in_round_trips().with_faults(1, &[Cut]),
            scene.clone().in_round_trips().with_faults(1, &[LoseAnswer]),
            scene.in_round_trips().with_faults(2, &[Cut, LoseAnswer]),
        ]
    });
    let change = || candidate().with_changes(1).in_round_trips();
    let changes = [
        change().with_rounds(2),
        change().with_faults(1, &[Cut, LoseAnswer]),
        change().with_faults(1, &[Repeat]),
    ];
    let two = [Scene::election(&[1, 1]), Scene::new(1, &[1, 1])].map(|scene| {
        let scene = scene.together().in_round_trips();
        [
            scene.clone(),
            scene.clone().with_cancels(),
            scene.clone().with_faults(1, &[Cut]),
            scene.clone().with_faults(1, &[LoseAnswer]),
            scene.clone().with_faults(1, &[Repeat]),
            scene.clone().with_faults(1, &[Crash]),
            scene.clone().with_faults(1, &[Destroy]),
            scene.with_rounds(2),
        ]
    });
    let scenes = one.into_iter().flatten();
    let scenes = scenes.chain(again(candidate().with_rounds(2)));
    let scenes = scenes.chain(again(participant().with_rounds(2)));
    let scenes = scenes.chain([
        participant().with_rounds(2),
        participant().with_rounds(2).in_round_trips(),
    ]);
    let scenes = scenes.chain(changes).chain(two.into_iter().flatten());
    scenes.map(Scene::in_clients).collect()
}
