//! Who held when, since the watch began.

use jiff::Timestamp;
use std::fmt::Write as _;

use crate::overview::Overview;
use crate::queue::clock;

/// Spans of time, in the order of their beginning.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    spans: Vec<Span>,
}

#[derive(Debug)]
struct Span {
    session: String,
    who: String,
    from: Timestamp,
    until: Option<Timestamp>,
}

/// The most lines that are shown. The last ones are kept.
const MOST: usize = 12;

/// The width of the whole time, in characters.
const WIDTH: usize = 50;

impl Timeline {
    /// Adds the present state.
    pub(crate) fn note(&mut self, overview: &Overview, now: Timestamp) {
        let holds = |session: &str| overview.holders.iter().any(|it| it.session == session);
        let lasting = |span: &&mut Span| span.until.is_none();
        for span in self.spans.iter_mut().filter(lasting) {
            if !holds(&span.session) {
                span.until = Some(now);
            }
        }
        for holder in &overview.holders {
            let lasts = |span: &Span| span.session == holder.session && span.until.is_none();
            if !self.spans.iter().any(lasts) {
                self.spans.push(Span {
                    session: holder.session.clone(),
                    who: holder.value.clone(),
                    from: now,
                    until: None,
                });
            }
        }
        let extra = self.spans.len().saturating_sub(MOST);
        self.spans.drain(..extra);
    }

    /// One line for each holder.
    pub(crate) fn drawn(&self, now: Timestamp) -> String {
        let Some(begin) = self.spans.iter().map(|span| span.from).min() else {
            return String::new();
        };
        let all = (now.as_millisecond() - begin.as_millisecond()).max(1);
        let column = |time: Timestamp| {
            let past = (time.as_millisecond() - begin.as_millisecond()).clamp(0, all);
            let share = usize::try_from(past * 50 / all).unwrap_or_default();
            share.min(WIDTH - 1)
        };
        let name = self.spans.iter().map(|span| span.who.chars().count());
        let name = name.max().unwrap_or_default();
        let mut text = format!("who held, from {} to {}\n", clock(begin), clock(now));
        for span in &self.spans {
            let from = column(span.from);
            let until = column(span.until.unwrap_or(now));
            let end = if span.until.is_some() { ' ' } else { '>' };
            let _ = writeln!(
                text,
                "  {:<name$}  {}{}{end}",
                span.who,
                " ".repeat(from),
                "=".repeat(until - from + 1)
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overview::Member;

    fn overview(holders: &[&str]) -> Overview {
        let member = |who: &&str| Member {
            session: (*who).to_owned(),
            value: (*who).to_owned(),
            since: None,
            node: None,
            name: None,
            alive: true,
        };
        Overview {
            prefix: "p".to_owned(),
            limit: 2,
            holders: holders.iter().map(member).collect(),
            waiters: Vec::new(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn each_hold_is_a_line_from_its_beginning_to_its_end() {
        let mut timeline = Timeline::default();
        timeline.note(&overview(&["a"]), at(0));
        timeline.note(&overview(&["a", "b"]), at(50));
        timeline.note(&overview(&["b"]), at(75));
        let drawn = timeline.drawn(at(100));
        let lines: Vec<&str> = drawn.lines().skip(1).collect();
        assert_eq!(lines[0].trim_end(), format!("  a  {}", "=".repeat(38)));
        assert_eq!(
            lines[1],
            format!("  b  {}{}>", " ".repeat(25), "=".repeat(25))
        );
    }

    #[test]
    fn whoever_holds_again_has_another_line_and_the_oldest_go() {
        let mut timeline = Timeline::default();
        for second in 0..20 {
            let holders: &[&str] = if second % 2 == 0 { &["a"] } else { &[] };
            timeline.note(&overview(holders), at(second));
        }
        assert_eq!(timeline.drawn(at(20)).lines().count(), 1 + 10);
        for second in 20..30 {
            let holders: &[&str] = if second % 2 == 0 { &["a"] } else { &[] };
            timeline.note(&overview(holders), at(second));
        }
        assert_eq!(timeline.drawn(at(30)).lines().count(), 1 + MOST);
    }
}
