//! first
use std::time::Duration;
use exploration::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let limit: u32 = args[1].parse().unwrap();
    let callers: Vec<usize> = args[2].split('+').map(|n| n.parse().unwrap()).collect();
    let secs: u64 = args[3].parse().unwrap();
    let mut scene = Scene::new(limit, &callers);
    for a in &args[4..] {
        if a == "together" { scene = scene.together(); continue; }
        if a == "trips" { scene = scene.in_round_trips(); continue; }
        if a == "cancels" { scene = scene.with_cancels(); continue; }
        if a == "stranger" { scene = scene.with(Furniture::Stranger); continue; }
        if a == "garbage" { scene = scene.with(Furniture::Garbage); continue; }
        if let Some(f) = Fault::ALL.iter().find(|f| f.name() == a) { scene.faults.push(*f); continue; }
        if let Some(n) = a.strip_prefix("b") { scene.budget = n.parse().unwrap(); continue; }
        if let Some(n) = a.strip_prefix("t") { scene.tick = Duration::from_millis(n.parse().unwrap()); continue; }
        if let Some(n) = a.strip_prefix("r") { scene = scene.with_rounds(n.parse().unwrap()); }
    }
    let report = explore(&scene, Bounds { time: Duration::from_secs(secs), ..Bounds::default() }).unwrap();
    println!("{} | {} states {} transitions {} depth {} frontier {:?}", scene.name, report.states, report.transitions, report.depth, report.frontier, report.time);
    match report.outcome {
        Outcome::Broken { violation, story } => { for l in story { println!("{l}"); } println!("{violation}"); }
        other => println!("{other:?}"),
    }
}
