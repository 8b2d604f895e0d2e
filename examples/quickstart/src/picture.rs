//! The story as SVG: a row for each contender in the order of admission, and below them how many
//! held at once. Its colours are readable on light and on dark.

use std::fmt::Write as _;
use std::time::Duration;

use crate::story::{Story, Turn, name};

const LEFT: f64 = 76.0;
const RIGHT: f64 = 20.0;
const WIDTH: f64 = 760.0;
const TOP: f64 = 40.0;
const ROW: f64 = 18.0;
const BAR: f64 = 12.0;
/// The height of one holder in the chart of how many held at once.
const STEP: f64 = 12.0;

const STYLE: &str = "\
text { font: 12px ui-sans-serif, system-ui, sans-serif; fill: #57606a }
.title { font-weight: 600 }
.holds, .sum { fill: #2f81f7 }
.waits { fill: #2f81f7; opacity: .18 }
.line { stroke: #8c959f; stroke-width: 1 }
.limit { stroke: #8c959f; stroke-width: 1; stroke-dasharray: 4 3 }
.lost { stroke: #e5484d; stroke-width: 2; fill: none }
text.loss { fill: #e5484d }
@media (prefers-color-scheme: dark) { text { fill: #9198a1 } }";

pub(crate) fn draw(story: &Story) -> String {
    let picture = Picture {
        story,
        turns: story.turns(),
        length: story.length().max(Duration::from_millis(1)),
    };
    picture.draw()
}

struct Picture<'a> {
    story: &'a Story,
    turns: Vec<Turn>,
    length: Duration,
}

impl Picture<'_> {
    fn draw(&self) -> String {
        let (rows, limit) = (as_f64(self.turns.len()), as_f64(self.story.limit()));
        let base = TOP + rows * ROW + 24.0 + limit * STEP;
        let height = base + 44.0;
        let title = format!(
            "{} contenders, {} slots: never more than {} at once",
            self.turns.len(),
            self.story.limit(),
            self.story.limit()
        );
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\n\
             <style>\n{STYLE}\n</style>\n\
             <text class=\"title\" x=\"{LEFT}\" y=\"20\">{title}</text>\n"
        );
        for (no, turn) in self.turns.iter().enumerate() {
            self.row(&mut svg, TOP + as_f64(no) * ROW, turn);
        }
        self.sum(&mut svg, base, limit);
        self.scale(&mut svg, base);
        svg.push_str("</svg>\n");
        svg
    }

    fn row(&self, svg: &mut String, y: f64, turn: &Turn) {
        let (begin, since, until) = (LEFT, self.x(turn.since), self.x(turn.until()));
        let label = name(turn.contender);
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>\n\
             <rect class=\"waits\" x=\"{begin:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR:.1}\"/>\n\
             <rect class=\"holds\" x=\"{since:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR:.1}\"/>\n",
            LEFT - 8.0,
            y + BAR - 1.5,
            since - begin,
            until - since,
        );
        if turn.was_lost {
            self.loss(svg, y, turn);
        }
    }

    fn loss(&self, svg: &mut String, y: f64, turn: &Turn) {
        let until = self.x(turn.until());
        let cut = self.story.cut().filter(|(it, _)| *it == turn.contender);
        let told = if let Some((_, at)) = cut {
            let (x, top, bottom) = (self.x(at), y - 2.0, y + BAR + 2.0);
            let _ = writeln!(
                svg,
                "<path class=\"lost\" d=\"M{x:.1} {top:.1}V{bottom:.1}\"/>"
            );
            "cut off at the line: it stops before its slot is given to others"
        } else {
            "lost: it stops before its slot is given to others"
        };
        let (top, bottom) = (y + 1.0, y + BAR - 1.0);
        let (left, right) = (until + 3.0, until + 13.0);
        let _ = write!(
            svg,
            "<path class=\"lost\" d=\"M{left:.1} {top:.1}L{right:.1} {bottom:.1}M{right:.1} {top:.1}L{left:.1} {bottom:.1}\"/>\n\
             <text class=\"loss\" x=\"{:.1}\" y=\"{:.1}\">{told}</text>\n",
            right + 5.0,
            y + BAR - 1.5,
        );
    }

    /// How many held at once, below the limit.
    fn sum(&self, svg: &mut String, base: f64, limit: f64) {
        let mut path = format!("M{LEFT:.1} {base:.1}");
        for (at, held) in self.story.counts() {
            let _ = write!(path, "H{:.1}V{:.1}", self.x(at), base - as_f64(held) * STEP);
        }
        path.push('Z');
        let top = base - limit * STEP;
        let end = WIDTH - RIGHT;
        let _ = write!(
            svg,
            "<path class=\"sum\" d=\"{path}\"/>\n\
             <path class=\"limit\" d=\"M{LEFT:.1} {top:.1}H{end:.1}\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">limit {}</text>\n\
             <text x=\"{:.1}\" y=\"{base:.1}\" text-anchor=\"end\">at once</text>\n",
            LEFT - 8.0,
            top + 4.0,
            self.story.limit(),
            LEFT - 8.0,
        );
    }

    fn scale(&self, svg: &mut String, base: f64) {
        let end = WIDTH - RIGHT;
        let below = base + 16.0;
        let key = base + 28.0;
        let _ = write!(
            svg,
            "<path class=\"line\" d=\"M{LEFT:.1} {base:.1}H{end:.1}\"/>\n\
             <text x=\"{LEFT:.1}\" y=\"{below:.1}\">0 s</text>\n\
             <text x=\"{end:.1}\" y=\"{below:.1}\" text-anchor=\"end\">{:.1} s</text>\n\
             <rect class=\"waits\" x=\"{:.1}\" y=\"{key:.1}\" width=\"24\" height=\"{BAR:.1}\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\">waits</text>\n\
             <rect class=\"holds\" x=\"{:.1}\" y=\"{key:.1}\" width=\"24\" height=\"{BAR:.1}\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\">holds a slot</text>\n",
            self.length.as_secs_f64(),
            LEFT,
            LEFT + 30.0,
            key + BAR - 1.5,
            LEFT + 80.0,
            LEFT + 110.0,
            key + BAR - 1.5,
        );
    }

    fn x(&self, at: Duration) -> f64 {
        let part = at.as_secs_f64() / self.length.as_secs_f64();
        LEFT + part * (WIDTH - LEFT - RIGHT)
    }
}

/// For numbers that fit into a picture.
fn as_f64(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::from(u32::MAX), f64::from)
}
