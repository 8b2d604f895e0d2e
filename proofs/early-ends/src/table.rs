//! The printed table.

use std::process::ExitCode;

use crate::failure::Failure;
use crate::row::{Measured, Row};

/// The tolerance between two processes' times. It is zero, since they share one clock.
const NOTHING: f64 = 0.0;

type Outcome = (Row, Result<Measured, Failure>);

/// The whole table.
pub(crate) fn print(outcomes: &[Outcome]) {
    println!(
        "| what | TTL | server | backend | its node is reaped | the next one is admitted | the first one believes until | both |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (row, outcome) in outcomes {
        println!("{}", line(row, outcome));
    }
}

/// One line of the table.
pub(crate) fn line(row: &Row, outcome: &Result<Measured, Failure>) -> String {
    match outcome {
        Ok(measured) => {
            let reaped = match measured.reaped {
                Some(reaped) => format!("{reaped:.1} s"),
                None => "–".to_owned(),
            };
            let both = match measured.both() {
                both if both > NOTHING => format!("**{both:.1} s**"),
                _ => "0".to_owned(),
            };
            format!(
                "| {row} | {reaped} | {:.1} s | {:.1} s | {both} |",
                measured.admitted, measured.believed
            )
        }
        Err(failure) => format!("| {row} | not measured: {failure} | | | |"),
    }
}

/// The exit code.
pub(crate) fn verdict(outcomes: &[Outcome]) -> ExitCode {
    let both = outcomes
        .iter()
        .filter(|(_, outcome)| outcome.as_ref().is_ok_and(|it| it.both() > NOTHING));
    let both = both.count();
    let failed = outcomes
        .iter()
        .filter(|(_, outcome)| outcome.is_err())
        .count();
    println!(
        "\n{} rows: two held in {both}, {failed} not measured",
        outcomes.len()
    );
    match (both, failed) {
        (0, 0) => ExitCode::SUCCESS,
        (0, _) => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    }
}
