//! The program: `scripts/model` runs it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use model::{Counts, End, Preset, Report, Scene, explore, presets, scenes, tell, walk};

const USAGE: &str = "usage:
  check [--quick] [--exact] [--most STATES] [PART OF A SCENE'S NAME …]
  defects [PART OF A DEFECT'S NAME …]
  trace NAME                         the shortest trace of a defect, or of the first scene whose name contains NAME, if it is violated
  walk [SECONDS [SEED]] [--single]   random walks; --single: without groups
  repeat SEED [--single]             one walk, with its steps";

/// The largest number of states with `--quick`.
const QUICK: usize = 100_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Some(true) => ExitCode::SUCCESS,
        Some(false) => ExitCode::FAILURE,
        None => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Whether nothing is wrong; nothing if this can't be understood.
fn run(arguments: &[String]) -> Option<bool> {
    let mut options = Options::default();
    let mut words = Vec::new();
    let mut rest = arguments.iter().map(String::as_str);
    let command = rest.next()?;
    while let Some(word) = rest.next() {
        match word {
            "--quick" => options.most = options.most.or(Some(QUICK)),
            "--exact" => options.exact = true,
            "--single" => options.single = true,
            "--most" => options.most = Some(rest.next()?.parse().ok()?),
            _ if word.starts_with("--") => return None,
            _ => words.push(word),
        }
    }
    let number = |at: usize, otherwise: Option<u64>| match words.get(at) {
        Some(word) => word.parse().ok(),
        None => otherwise,
    };
    match command {
        "check" => check(&words, &options),
        "defects" => find_defects(&words),
        "trace" => words.first().and_then(|name| trace(name)),
        "walk" => Some(walks(
            number(0, Some(60))?,
            number(1, Some(1))?,
            !options.single,
        )),
        "repeat" => {
            let (_, end) = walk(
                number(0, None)?,
                !options.single,
                true,
                &mut Counts::default(),
            );
            Some(is_good(&end))
        }
        _ => None,
    }
}

#[derive(Default)]
struct Options {
    exact: bool,
    single: bool,
    most: Option<usize>,
}

fn is_chosen(name: &str, words: &[&str]) -> bool {
    words.is_empty() || words.iter().any(|it| name.contains(it))
}

fn check(words: &[&str], options: &Options) -> Option<bool> {
    let (mut whole, mut cut, mut states, mut violated) = (0, 0, 0, 0);
    let start = Instant::now();
    println!("| scene | states | | verdict | s |\n|---|---|---|---|---|");
    for scene in scenes()
        .into_iter()
        .filter(|it| is_chosen(&it.name(), words))
    {
        let name = scene.name();
        let scene = if options.exact {
            scene.exactly()
        } else {
            scene
        };
        let scene = options
            .most
            .map_or(scene.clone(), |most| scene.at_most(most));
        let report = explore(&scene);
        whole += usize::from(report.is_whole());
        cut += usize::from(!report.is_whole());
        states += report.states();
        violated += usize::from(!report.is_clean());
        let steps = match report.steps() {
            0 => String::new(),
            steps => format!(" after {steps} steps"),
        };
        println!(
            "| {name} | {} | {} | {}{steps} | {:.1} |",
            report.states(),
            if report.is_whole() { "whole" } else { "cut" },
            report.verdict(),
            report.seconds()
        );
    }
    println!(
        "\n{} scenes, {states} states, {whole} whole, {cut} cut, {violated} violated, {} s",
        whole + cut,
        start.elapsed().as_secs()
    );
    (whole + cut > 0).then_some(violated == 0)
}

fn find_defects(words: &[&str]) -> Option<bool> {
    let (mut asked, mut found) = (0, 0);
    println!("| defect | found in | states | steps | as |\n|---|---|---|---|---|");
    for preset in presets().iter().filter(|it| is_chosen(it.name(), words)) {
        asked += 1;
        let row = if let Some((scene, report)) = preset.hunt() {
            found += 1;
            format!(
                "{} | {} | {} | {}",
                scene.name(),
                report.states(),
                report.steps(),
                report.verdict()
            )
        } else {
            "**not found** | | |".into()
        };
        println!("| `{}` {} | {row} |", preset.name(), preset.sentence());
    }
    println!("\n{asked} defects, {found} found");
    (asked > 0).then_some(asked == found)
}

fn trace(name: &str) -> Option<bool> {
    let (scene, report) = hunted(name)?;
    println!("{}: {}", scene.name(), report.verdict());
    print!("{}", tell(&scene, &report));
    Some(true)
}

fn hunted(name: &str) -> Option<(Scene, Report)> {
    if let Some(preset) = presets().iter().find(|it| it.name() == name) {
        println!("{}", preset.sentence());
        return Preset::hunt(preset);
    }
    let scene = scenes().into_iter().find(|it| it.name().contains(name))?;
    let report = explore(&scene);
    Some((scene, report))
}

fn is_good(end: &End) -> bool {
    match end {
        End::Bad(why) => println!("BAD: {why}"),
        End::Rest => println!("at rest"),
        End::Unnumbered => println!("no number of a session was left"),
    }
    !matches!(end, End::Bad(_))
}

fn walks(seconds: u64, seed: u64, groups: bool) -> bool {
    let start = Instant::now();
    let mut counts = Counts::default();
    let mut next = seed.wrapping_mul(1_000_003);
    let mut good = true;
    while good && start.elapsed() < Duration::from_secs(seconds) {
        next = next.wrapping_add(1);
        let (scene, end) = walk(next, groups, false, &mut counts);
        if matches!(end, End::Bad(_)) {
            println!("seed {next}: {scene:?}");
            good = is_good(&end);
        }
    }
    let verdict = if good {
        "no violation, none stuck"
    } else {
        "VIOLATION"
    };
    println!("{counts}: {verdict}");
    good
}
