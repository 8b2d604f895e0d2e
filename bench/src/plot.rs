//! The plot of what a crowd costs by its size.

use plotters::prelude::*;

use crate::failure::Failure;

/// What the contenders of a crowd are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Series {
    /// Each contender is a separate participant.
    Participants,
    /// All contenders belong to one participant.
    OneParticipant,
    /// Each is a `consul lock -n`.
    Peer,
}

/// One measured crowd.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    /// Who waited.
    pub(crate) series: Series,
    /// How many.
    pub(crate) waiters: usize,
    /// Requests for each acquisition.
    pub(crate) requests: f64,
    /// Handoffs per second.
    pub(crate) per_s: f64,
}

/// The rate if handovers took no time: three slots, 10 ms each.
const IDEAL: f64 = 300.0;
const SIZE: (u32, u32) = (1000, 420);
const TEXT: (&str, u32) = ("sans-serif", 16);

impl Series {
    const ALL: [Self; 3] = [Self::Participants, Self::OneParticipant, Self::Peer];

    const fn label(self) -> &'static str {
        match self {
            Self::Participants => "participants of one contender each",
            Self::OneParticipant => "contenders of one participant",
            Self::Peer => "consul lock -n 3",
        }
    }

    const fn color(self) -> RGBColor {
        match self {
            Self::Participants => RGBColor(0x1f, 0x77, 0xb4),
            Self::OneParticipant => RGBColor(0x2c, 0xa0, 0x2c),
            Self::Peer => RGBColor(0xd6, 0x27, 0x28),
        }
    }
}

/// Draws two panels as SVG.
///
/// # Errors
/// [`Failure::Plot`].
pub(crate) fn svg(points: &[Point]) -> Result<String, Failure> {
    let mut text = String::new();
    draw(points, &mut text).map_err(|error| Failure::Plot(error.to_string()))?;
    Ok(text)
}

fn draw(points: &[Point], text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let (left, right) = area.split_horizontally(SIZE.0 / 2);
    let waiters = (10.0..1100.0).log_scale().base(10.0);
    let most = points
        .iter()
        .map(|point| point.requests)
        .fold(10.0, f64::max);

    let mut chart = ChartBuilder::on(&left)
        .margin(14)
        .caption("requests per acquisition", ("sans-serif", 20))
        .x_label_area_size(36)
        .y_label_area_size(48)
        .build_cartesian_2d(waiters.clone(), (1.0..most * 2.0).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("waiters")
        .x_label_formatter(&whole)
        .y_label_formatter(&whole)
        .label_style(TEXT)
        .axis_desc_style(TEXT)
        .light_line_style(TRANSPARENT)
        .draw()?;
    for series in Series::ALL {
        let line = line(points, series, |point| point.requests);
        chart.draw_series(LineSeries::new(
            line.clone(),
            series.color().stroke_width(2),
        ))?;
        chart.draw_series(PointSeries::of_element(
            line,
            4,
            series.color().filled(),
            &dot,
        ))?;
    }

    let mut chart = ChartBuilder::on(&right)
        .margin(14)
        .caption("handoffs per second", ("sans-serif", 20))
        .x_label_area_size(36)
        .y_label_area_size(48)
        .build_cartesian_2d(waiters, 0.0..IDEAL * 1.7)?;
    chart
        .configure_mesh()
        .x_desc("waiters")
        .x_label_formatter(&whole)
        .y_label_formatter(&whole)
        .label_style(TEXT)
        .axis_desc_style(TEXT)
        .light_line_style(TRANSPARENT)
        .draw()?;
    let ideal = [(10.0, IDEAL), (1100.0, IDEAL)];
    let gray = RGBColor(0x80, 0x80, 0x80);
    chart
        .draw_series(DashedLineSeries::new(ideal, 6, 4, gray.into()))?
        .label("ideal: 3 slots, 10 ms each")
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], gray));
    for series in Series::ALL {
        let line = line(points, series, |point| point.per_s);
        chart
            .draw_series(LineSeries::new(
                line.clone(),
                series.color().stroke_width(2),
            ))?
            .label(series.label())
            .legend(move |(x, y)| {
                PathElement::new([(x, y), (x + 16, y)], series.color().stroke_width(2))
            });
        chart.draw_series(PointSeries::of_element(
            line,
            4,
            series.color().filled(),
            &dot,
        ))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .label_font(TEXT)
        .background_style(WHITE)
        .border_style(gray)
        .draw()?;
    area.present()?;
    Ok(())
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "plotters hands it over so"
)]
fn whole(number: &f64) -> String {
    format!("{number:.0}")
}

type Dot = Circle<(f64, f64), i32>;

fn dot(at: (f64, f64), size: i32, style: ShapeStyle) -> Dot {
    Circle::new(at, size, style)
}

fn line(points: &[Point], series: Series, figure: impl Fn(&Point) -> f64) -> Vec<(f64, f64)> {
    let own = points.iter().filter(|point| point.series == series);
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let at = |point: &Point| (point.waiters as f64, figure(point));
    // What could not be measured is not drawn.
    own.map(at)
        .filter(|(_, figure)| figure.is_finite())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_drawn_in_both_panels() {
        let point = |series, waiters, requests| Point {
            series,
            waiters,
            requests,
            per_s: 250.0,
        };
        let points = [
            point(Series::Participants, 50, 9.0),
            point(Series::Participants, 400, 10.0),
            point(Series::Peer, 15, 28.0),
            point(Series::OneParticipant, 1000, f64::NAN),
        ];
        let drawn = svg(&points).expect("a plot");
        assert!(drawn.starts_with("<svg"), "{drawn}");
        assert!(drawn.trim_end().ends_with("</svg>"), "{drawn}");
        assert_eq!(drawn.matches("<circle").count(), 3 + 4);
        assert!(drawn.contains("consul lock -n 3"), "{drawn}");
    }

    #[test]
    fn nothing_measured_is_an_empty_plot() {
        assert!(!svg(&[]).expect("a plot").contains("<circle"));
    }
}
