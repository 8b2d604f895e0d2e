//! Beliefs, drawn as rows of characters: one row for each contender, in the order of admission.

use std::fmt::{self, Write as _};
use std::time::{Duration, Instant};

use crate::gauge::Belief;

/// The columns of a terminal that is not wide.
const WIDTH: usize = LABEL + COLUMNS as usize;
const LABEL: usize = 8;
const COLUMNS: u32 = 72;

/// A drawing of who held a slot when.
///
/// Each column shows one moment, its middle, so that a column shows two holders only if there was
/// a moment with two.
#[derive(Debug)]
pub struct Timeline<'a> {
    /// When the leftmost column begins.
    pub start: Instant,
    /// What is drawn, in the order in which they began.
    pub beliefs: &'a [Belief],
}

impl Timeline<'_> {
    fn length(&self) -> Duration {
        let end = self.beliefs.iter().map(|belief| belief.until).max();
        end.map_or(Duration::ZERO, |end| {
            end.saturating_duration_since(self.start)
        })
    }

    fn moments(&self) -> impl Iterator<Item = Instant> {
        let length = self.length();
        (0..COLUMNS).map(move |column| self.start + length * (2 * column + 1) / (2 * COLUMNS))
    }

    /// The contenders in the order of their first belief.
    fn contenders(&self) -> Vec<usize> {
        let mut contenders = Vec::new();
        for belief in self.beliefs {
            if !contenders.contains(&belief.contender) {
                contenders.push(belief.contender);
            }
        }
        contenders
    }

    fn row(&self, contender: usize) -> String {
        let own = || {
            self.beliefs
                .iter()
                .filter(|belief| belief.contender == contender)
        };
        let row: String = self
            .moments()
            .map(|moment| {
                if own().any(|belief| covers(belief, moment)) {
                    '█'
                } else if own().any(|belief| moment < belief.since) {
                    '·'
                } else {
                    ' '
                }
            })
            .collect();
        row.trim_end().to_owned()
    }

    fn counts(&self) -> String {
        let count = |moment| self.beliefs.iter().filter(|b| covers(b, moment)).count();
        let digit = |count| {
            u32::try_from(count)
                .ok()
                .and_then(|count| char::from_digit(count, 10))
        };
        self.moments()
            .map(|moment| digit(count(moment)).unwrap_or('+'))
            .collect()
    }
}

impl fmt::Display for Timeline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for contender in self.contenders() {
            let label = name(contender);
            writeln!(f, "{label:<LABEL$}{}", self.row(contender))?;
        }
        writeln!(f, "{:<LABEL$}{}", "at once", self.counts())?;
        let mut scale = String::from("0 s");
        let end = format!("{:.1} s", self.length().as_secs_f64());
        let width = WIDTH - LABEL - scale.len();
        write!(scale, "{end:>width$}")?;
        writeln!(f, "{:<LABEL$}{scale}", "")?;
        writeln!(f, "{:<LABEL$}· waits   █ holds a slot", "")
    }
}

/// How a contender is called.
pub fn name(contender: usize) -> String {
    format!("node-{:02}", contender + 1)
}

fn covers(belief: &Belief, moment: Instant) -> bool {
    (belief.since..belief.until).contains(&moment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawing(spans: &[(usize, u64, u64)]) -> Vec<String> {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let belief = |&(contender, since, until): &(usize, u64, u64)| Belief {
            contender,
            since: at(since),
            until: at(until),
        };
        let beliefs: Vec<_> = spans.iter().map(belief).collect();
        let timeline = Timeline {
            start,
            beliefs: &beliefs,
        };
        timeline.to_string().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_row_waits_then_holds_then_is_empty() {
        // A column is 10 ms wide.
        let drawn = drawing(&[(4, 0, 360), (0, 360, 540), (1, 540, 720)]);
        assert_eq!(drawn[0], format!("node-05 {}", "█".repeat(36)));
        assert_eq!(
            drawn[1],
            format!("node-01 {}{}", "·".repeat(36), "█".repeat(18))
        );
        assert_eq!(
            drawn[2],
            format!("node-02 {}{}", "·".repeat(54), "█".repeat(18))
        );
        assert_eq!(drawn[3], format!("at once {}", "1".repeat(72)));
    }

    #[test]
    fn a_handover_within_a_column_is_not_drawn_as_two_holders() {
        let drawn = drawing(&[(0, 0, 363), (1, 364, 720)]);
        assert!(!drawn[2].contains('2'), "{drawn:#?}");
    }

    #[test]
    fn two_at_once_are_counted_as_two() {
        let drawn = drawing(&[(0, 0, 720), (1, 100, 720)]);
        assert!(drawn[2].contains("12222"), "{drawn:#?}");
    }

    #[test]
    fn it_fits_into_eighty_columns() {
        let drawn = drawing(&[(0, 0, 500), (98, 100, 100_000)]);
        assert!(
            drawn.iter().all(|line| line.chars().count() <= 80),
            "{drawn:#?}"
        );
    }

    #[test]
    fn nothing_is_drawn_of_nobody() {
        assert_eq!(drawing(&[]).len(), 3);
    }
}
