//! The story as rows of characters: one row for each contender, in the order of admission.

use std::fmt::Write as _;
use std::time::Duration;

use crate::story::{Story, Turn, name};

/// The columns of a narrow terminal.
const WIDTH: usize = LABEL + COLUMNS as usize;
const LABEL: usize = 8;
const COLUMNS: u32 = 72;

/// Each column shows its middle moment. So it shows two holders only if there were two at one
/// moment.
pub(crate) fn draw(story: &Story) -> String {
    let (turns, length) = (story.turns(), story.length());
    let mut drawn = String::new();
    for turn in &turns {
        let label = name(turn.contender);
        let _ = writeln!(drawn, "{label:<LABEL$}{}", row(turn, length));
    }
    let counts: String = moments(length)
        .map(|moment| digit(&turns, moment))
        .collect();
    let _ = writeln!(drawn, "{:<LABEL$}{counts}", "at once");
    let mut scale = String::from("0 s");
    let end = format!("{:.1} s", length.as_secs_f64());
    let width = WIDTH - LABEL - scale.len();
    let _ = write!(scale, "{end:>width$}");
    let _ = writeln!(drawn, "{:<LABEL$}{scale}", "");
    let _ = writeln!(
        drawn,
        "{:<LABEL$}· waits   █ holds a slot   × has lost it",
        ""
    );
    drawn
}

fn row(turn: &Turn, length: Duration) -> String {
    let mut is_lost = turn.was_lost;
    let mut character = |moment| {
        if turn.covers(moment) {
            '█'
        } else if moment < turn.since {
            '·'
        } else if std::mem::take(&mut is_lost) {
            '×'
        } else {
            ' '
        }
    };
    let row: String = moments(length).map(&mut character).collect();
    row.trim_end().to_owned()
}

fn digit(turns: &[Turn], moment: Duration) -> char {
    let count = turns.iter().filter(|it| it.covers(moment)).count();
    let digit = u32::try_from(count)
        .ok()
        .and_then(|count| char::from_digit(count, 10));
    digit.unwrap_or('+')
}

fn moments(length: Duration) -> impl Iterator<Item = Duration> {
    (0..COLUMNS).map(move |column| length * (2 * column + 1) / (2 * COLUMNS))
}

#[cfg(test)]
mod tests {
    use crate::story::tests::story;

    fn drawing(turns: &[(usize, u64, u64, bool)]) -> Vec<String> {
        let drawn = super::draw(&story(turns));
        drawn.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_row_waits_then_holds_then_is_empty() {
        // A column is 10 ms wide.
        let drawn = drawing(&[
            (4, 0, 360, false),
            (0, 360, 540, true),
            (1, 540, 720, false),
        ]);
        assert_eq!(drawn[0], format!("node-05 {}", "█".repeat(36)));
        assert_eq!(
            drawn[1],
            format!("node-01 {}{}×", "·".repeat(36), "█".repeat(18))
        );
        assert_eq!(
            drawn[2],
            format!("node-02 {}{}", "·".repeat(54), "█".repeat(18))
        );
        assert_eq!(drawn[3], format!("at once {}", "1".repeat(72)));
    }

    #[test]
    fn a_handover_within_a_column_is_not_drawn_as_two_holders() {
        let drawn = drawing(&[(0, 0, 363, false), (1, 364, 720, false)]);
        assert!(!drawn[2].contains('2'), "{drawn:#?}");
    }

    #[test]
    fn two_at_once_are_counted_as_two() {
        let drawn = drawing(&[(0, 0, 720, false), (1, 100, 720, false)]);
        assert!(drawn[2].contains("12222"), "{drawn:#?}");
    }

    #[test]
    fn it_fits_into_eighty_columns() {
        let drawn = drawing(&[(0, 0, 500, false), (98, 100, 100_000, true)]);
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
