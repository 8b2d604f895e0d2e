//! Two ways to do the same, measured one after the other. One must be as good as the other.

use std::thread;

use crate::failure::Failure;
use crate::ours::{Contend, Figures, Runs};
use crate::row::Row;
use crate::scenes::{Care, Findings};
use crate::world::World;

/// One rate must be at least this share of the other.
const AS_GOOD: f64 = 0.9;

/// Semaphores whose prefixes lie one below the other, beside as many that lie apart.
///
/// # Errors
/// [`Failure`] if one can't be run to its end.
pub(crate) fn nested(world: &World, care: Care, found: &mut Findings) -> Result<(), Failure> {
    let contend = world.contend()?;
    let rounds = if care.quick { 50 } else { 200 };
    let args = format!("--limit 2 --contenders 4 --participants 4 --hold-ms 10 --rounds {rounds}");
    let slowest = |way: &str, below: [&str; 3]| {
        let rates = (0..care.runs).map(|run| {
            let prefixes = below.map(|it| format!("bench/{way}-{run}/{it}"));
            at_once(&contend, &args, &prefixes)
        });
        let mut rates = rates.collect::<Result<Vec<_>, _>>()?;
        rates.sort_by(f64::total_cmp);
        Ok::<_, Failure>(rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN))
    };
    let apart = slowest("apart", ["a", "b", "c"])?;
    let nested = slowest("nested", ["a", "a/b", "a/b/c"])?;
    let figure = "turns per second of the slowest";
    found.rows.extend([
        Row::new(
            "`a`, `b` and `c` at once, limit 2, 4 callers each",
            figure,
            apart,
        )
        .floor(200.0),
        Row::new("`a`, `a/b` and `a/b/c` at once, the same", figure, nested)
            .floor(200.0)
            .at_least(AS_GOOD * apart),
    ]);
    Ok(())
}

/// The rate of the slowest of several programs that run at the same time.
fn at_once(contend: &Contend, args: &str, prefixes: &[String]) -> Result<f64, Failure> {
    let rates = thread::scope(|scope| {
        let run = |prefix: &String| {
            let prefix = prefix.clone();
            scope.spawn(move || contend.run::<Figures>(args, &prefix, None))
        };
        let runs: Vec<_> = prefixes.iter().map(run).collect();
        // A program without a report has no rate either.
        let rates = runs.into_iter().map(|run| run.join().ok());
        rates.collect::<Vec<_>>()
    });
    let rates = rates.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
    if rates.len() < prefixes.len() {
        return Ok(f64::NAN);
    }
    Ok(rates
        .iter()
        .map(|it| it.acquisitions_per_s)
        .fold(f64::INFINITY, f64::min))
}

/// A semaphore that is built, used and dropped for each turn, compared with clones of one handle.
///
/// # Errors
/// [`Failure`] if one can't be run to its end.
pub(crate) fn built(world: &World, care: Care, found: &mut Findings) -> Result<(), Failure> {
    let contend = world.contend()?;
    let rounds = if care.quick { 10 } else { 40 };
    let args = format!(
        "--limit 3 --contenders 100 --participants 1 --hold-ms 1 --transports client --rounds {rounds}"
    );
    let clones = contend.runs(&args, "bench/clones", care.runs)?;
    let built = contend.runs(&format!("{args} --cold"), "bench/built", care.runs)?;
    let rate = |runs: &Runs| runs.median(|it| it.acquisitions_per_s);
    let errors = |runs: &Runs| runs.worst(|it| crate::measures::whole(Some(it.errors)));
    let figure = "turns per second";
    let scene = "a semaphore built for each turn, limit 3, 1 ms, 100 callers";
    found.rows.extend([
        Row::new(
            "clones of one handle, the same as next",
            figure,
            rate(&clones),
        )
        .floor(3_000.0),
        Row::new(scene, figure, rate(&built))
            .floor(3_000.0)
            .at_least(AS_GOOD * rate(&clones)),
        Row::new(scene, "errors", errors(&built)).at_most(0.0),
    ]);
    Ok(())
}
