//! The table, in Markdown.

use std::fmt;

use crate::row::{Row, Short};

/// All figures, in the order in which they were measured.
#[derive(Debug)]
pub(crate) struct Table<'a>(pub(crate) &'a [Row]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| scene | figure | must reach | reached | to floor | to the peer |"
        )?;
        writeln!(f, "|---|---|---:|---:|---:|---:|")?;
        let mut above = None;
        for row in self.0 {
            // The first row of a scene names it, the others don't.
            let scene = if above == Some(&row.scene) {
                ""
            } else {
                &row.scene
            };
            above = Some(&row.scene);
            let goal = row.goal.map_or_else(String::new, |goal| goal.to_string());
            let missed = if row.is_missed() { " **missed**" } else { "" };
            writeln!(
                f,
                "| {scene} | {} | {goal} | {}{missed} | {} | {} |",
                row.figure,
                Short(row.reached),
                Ratio(row.reached, row.floor),
                Ratio(row.reached, row.peer),
            )?;
        }
        Ok(())
    }
}

/// The ratio of our figure to another. If both are zero there is none.
struct Ratio(f64, Option<f64>);

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(ours, Some(other)) if *other > 0.0 && ours.is_finite() => {
                write!(f, "{} ×", Short(ours / other))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_names_a_scene_once_and_marks_what_is_missed() {
        let rows = [
            Row::new("cycle", "requests", 3.0)
                .at_most(2.05)
                .floor(2.0)
                .peer(Some(12.0)),
            Row::new("cycle", "errors", 0.0).at_most(0.0).floor(0.0),
            Row::new("hold", "renewals", f64::NAN),
        ];
        let table = Table(&rows).to_string();
        let lines: Vec<_> = table.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| cycle | requests | ≤ 2.05 | 3 **missed** | 1.5 × | 0.25 × |",
                "|  | errors | ≤ 0 | 0 |  |  |",
                "| hold | renewals |  | – |  |  |",
            ]
        );
    }
}
