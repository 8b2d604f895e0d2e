//! Explores scenes and prints a table of the results.

use std::process::ExitCode;
use std::time::Duration;

use exploration::{Bounds, Outcome, Report, Scene, explore, scenes};

type Failure = Box<dyn std::error::Error>;

const USAGE: &str = "\
Explores small scenes: every order of everything that can happen, with every fault.

  --small         the small scenes only, those of the tests
  --only TEXT     the scenes that contain this, as `SCENE: FAULTS`
  --seconds N     how long each scene may take; a search that this cuts is said to be cut
  --states N      how many states each scene may have, likewise
  --check         looks, too, whether all states that are taken for one lead to the same ones
  --defect NAME   with one deliberate defect, until a scene shows it
  --defects       with each deliberate defect in turn
  --help          this text

Exits with 0 if nothing is wrong, with 1 if a promise is broken, with 2 if it could not run.";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("explore: {error}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode, Failure> {
    let Some(wish) = Wish::read()? else {
        println!("{USAGE}");
        return Ok(ExitCode::SUCCESS);
    };
    let scenes: Vec<_> = wish.scenes().collect();
    if scenes.is_empty() {
        return Err("no scene is called so; without --only, all are shown".into());
    }
    match &wish.defects {
        Defects::None => table(&scenes, wish.bounds),
        Defects::One(name) => {
            let found = defects::find(name.parse()?, &scenes, wish.bounds, true)?;
            Ok(ExitCode::from(u8::from(found)))
        }
        Defects::All => {
            for defect in semaphore_core::defect::Defect::ALL {
                defects::find(*defect, &scenes, wish.bounds, false)?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The options of the command line.
struct Wish {
    only_small: bool,
    only: Option<String>,
    bounds: Bounds,
    defects: Defects,
}

enum Defects {
    None,
    One(String),
    All,
}

impl Wish {
    /// `None` if only help is wanted.
    fn read() -> Result<Option<Self>, Failure> {
        use lexopt::prelude::*;

        let mut wish = Self {
            only_small: false,
            only: None,
            bounds: Bounds::default(),
            defects: Defects::None,
        };
        let mut parser = lexopt::Parser::from_env();
        while let Some(argument) = parser.next()? {
            match argument {
                Long("help") | Short('h') => return Ok(None),
                Long("small") => wish.only_small = true,
                Long("only") => wish.only = Some(parser.value()?.string()?),
                Long("seconds") => {
                    wish.bounds.time = Duration::from_secs(parser.value()?.parse()?);
                }
                Long("check") => wish.bounds.checks_sameness = true,
                Long("states") => wish.bounds.states = parser.value()?.parse()?,
                Long("defect") => wish.defects = Defects::One(parser.value()?.string()?),
                Long("defects") => wish.defects = Defects::All,
                _ => return Err(argument.unexpected().into()),
            }
        }
        Ok(Some(wish))
    }

    fn scenes(&self) -> impl Iterator<Item = Scene> {
        let large = if self.only_small {
            Vec::new()
        } else {
            scenes::large()
        };
        scenes::small().into_iter().chain(large).filter(|scene| {
            let text = format!("{}: {}", scene.name, scene.faults_in_words());
            self.only.as_ref().is_none_or(|only| text.contains(only))
        })
    }
}

fn table(scenes: &[Scene], bounds: Bounds) -> Result<ExitCode, Failure> {
    println!("| scene | faults | states | transitions | depth | time | result |");
    println!("|---|---|---:|---:|---:|---:|---|");
    let mut broken = 0;
    let mut cut = 0;
    for scene in scenes {
        let report = explore(scene, bounds)?;
        row(scene, &report);
        match report.outcome {
            Outcome::Proved => {}
            Outcome::Cut => cut += 1,
            Outcome::Broken { violation, story } => {
                broken += 1;
                tell(&violation, &story);
            }
        }
    }
    let whole = scenes.len() - broken - cut;
    println!("\n{whole} scenes explored whole, {cut} cut, {broken} violations");
    if let Some(memory) = most_memory() {
        println!("at most {memory} of memory");
    }
    Ok(ExitCode::from(u8::from(broken > 0)))
}

/// The most memory that this process has had, if the system tells.
fn most_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"))?;
    Some(line.trim().to_owned())
}

fn row(scene: &Scene, report: &Report) {
    let result = match &report.outcome {
        Outcome::Proved => "nothing wrong in any state".to_owned(),
        Outcome::Cut => "cut: nothing wrong so far".to_owned(),
        Outcome::Broken { violation, .. } => violation.to_string(),
    };
    println!(
        "| {} | {} | {} | {} | {} | {:.1} s | {result} |",
        scene.name,
        scene.faults_in_words(),
        report.states,
        report.transitions,
        report.depth,
        report.time.as_secs_f64(),
    );
}

fn tell(violation: &exploration::Violation, story: &[String]) {
    println!();
    for line in story {
        println!("    {line}");
    }
    println!("\n    {violation}\n");
}

mod defects {
    use semaphore_core::defect::{Defect, switch_on};

    use super::{Bounds, Failure, Outcome, Scene, explore, tell};

    /// Explores scenes until one shows the defect. Returns whether one did.
    pub(super) fn find(
        defect: Defect,
        scenes: &[Scene],
        bounds: Bounds,
        in_full: bool,
    ) -> Result<bool, Failure> {
        switch_on(Some(defect));
        let mut states = 0;
        for scene in scenes {
            let report = explore(scene, bounds)?;
            states += report.states;
            if let Outcome::Broken { violation, story } = report.outcome {
                let faults = scene.faults_in_words();
                println!(
                    "{defect}: {violation}; after {states} states, in: {}; {faults}",
                    scene.name
                );
                if in_full {
                    tell(&violation, &story);
                }
                return Ok(true);
            }
        }
        println!("{defect}: not found, {states} states");
        Ok(false)
    }
}
