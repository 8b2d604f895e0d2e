//! A row of the table: a figure, its target, and what it is compared with.

use std::fmt;

/// A figure of a scene.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The scene that it was measured in.
    pub(crate) scene: String,
    /// The figure's name.
    pub(crate) figure: &'static str,
    /// What it must reach, if anything.
    pub(crate) goal: Option<Goal>,
    /// The measured value.
    pub(crate) reached: f64,
    /// The best value that is possible at all.
    pub(crate) floor: Option<f64>,
    /// The peer's value in the same run. The peer is `consul lock` or HashiCorp's Go client.
    pub(crate) peer: Option<f64>,
}

/// What a figure must reach.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
}

impl Row {
    /// A figure without a goal, a floor or a peer.
    pub(crate) fn new(scene: impl Into<String>, figure: &'static str, reached: f64) -> Self {
        Self {
            scene: scene.into(),
            figure,
            goal: None,
            reached,
            floor: None,
            peer: None,
        }
    }

    /// The figure must not be greater than this.
    #[must_use]
    pub(crate) fn at_most(mut self, most: f64) -> Self {
        self.goal = Some(Goal::AtMost(most));
        self
    }

    /// The figure must not be smaller than this.
    #[must_use]
    pub(crate) fn at_least(mut self, least: f64) -> Self {
        self.goal = Some(Goal::AtLeast(least));
        self
    }

    /// No value can be better than this.
    #[must_use]
    pub(crate) fn floor(mut self, floor: f64) -> Self {
        self.floor = Some(floor);
        self
    }

    /// The peer has this value.
    #[must_use]
    pub(crate) fn peer(mut self, peer: Option<f64>) -> Self {
        self.peer = peer;
        self
    }

    /// Whether it misses its goal. A figure that could not be measured does.
    pub(crate) fn is_missed(&self) -> bool {
        match self.goal {
            Some(Goal::AtMost(most)) => self.reached.is_nan() || self.reached > most,
            Some(Goal::AtLeast(least)) => self.reached.is_nan() || self.reached < least,
            None => false,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "≤ {}", Short(*most)),
            Self::AtLeast(least) => write!(f, "≥ {}", Short(*least)),
        }
    }
}

/// A number with its significant digits: two after the point, and none from a hundred on.
pub(crate) struct Short(pub(crate) f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number) = self;
        if number.is_nan() {
            return f.write_str("–");
        }
        let digits = if number.abs() < 99.95 { 2 } else { 0 };
        let text = format!("{number:.digits$}");
        let text = match text.split_once('.') {
            Some(_) => text.trim_end_matches('0').trim_end_matches('.'),
            None => &text,
        };
        f.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_missed_on_the_wrong_side_of_its_goal() {
        let row = |reached| Row::new("scene", "figure", reached);
        assert!(!row(2.05).at_most(2.05).is_missed());
        assert!(row(2.06).at_most(2.05).is_missed());
        assert!(!row(270.0).at_least(270.0).is_missed());
        assert!(row(269.9).at_least(270.0).is_missed());
        assert!(!row(1e9).is_missed());
    }

    #[test]
    fn what_could_not_be_measured_is_missed() {
        let row = Row::new("scene", "figure", f64::NAN);
        assert!(row.clone().at_most(1.0).is_missed());
        assert!(row.at_least(1.0).is_missed());
    }

    #[test]
    fn numbers_are_short() {
        let short =
            [0.0, 2.0, 2.05, 2.5, 12.344, 99.94, 269.95, f64::NAN].map(|n| Short(n).to_string());
        assert_eq!(
            short,
            ["0", "2", "2.05", "2.5", "12.34", "99.94", "270", "–"]
        );
        assert_eq!(Goal::AtMost(2.4).to_string(), "≤ 2.4");
        assert_eq!(Goal::AtLeast(180.0).to_string(), "≥ 180");
    }
}
