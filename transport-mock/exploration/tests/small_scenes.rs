//! Every run of the small scenes.

use exploration::{Bounds, Outcome, Scene, explore, scenes};

fn assert_proved(scene: &Scene) {
    let report = explore(scene, Bounds::default()).expect("a scene");
    match report.outcome {
        Outcome::Proved => println!("{}: {} states", scene.name, report.states),
        Outcome::Cut => panic!("{}: not seen whole", scene.name),
        Outcome::Broken { violation, story } => {
            panic!("{}: {violation}\n{}", scene.name, story.join("\n"))
        }
    }
}

macro_rules! each_holds {
    ($($name:ident: $at:literal,)*) => {
        $(#[test]
        fn $name() {
            assert_proved(&scenes::small()[$at]);
        })*
    };
}
