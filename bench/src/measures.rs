//! What several scenes measure of their runs: the rows that they have in common.

use crate::ours::{Figures, Runs};
use crate::peer::Cost;
use crate::plot::{Point, Series};
use crate::row::Row;

pub(crate) fn point(series: Series, waiters: usize, runs: &Runs) -> Point {
    Point {
        series,
        waiters,
        requests: runs.median(|figures| figures.http_requests_per_acquisition),
        per_s: runs.median(|figures| figures.acquisitions_per_s),
    }
}

pub(crate) fn requests(scene: &str, runs: &Runs, peer: Option<f64>) -> Row {
    let requests = runs.median(|figures| figures.http_requests_per_acquisition);
    Row::new(scene, "requests per acquisition", requests)
        .floor(2.0)
        .peer(peer)
}

pub(crate) fn rate(scene: &str, runs: &Runs, least: Option<f64>, peer: Option<Cost>) -> Row {
    let ideal = runs.median(|figures| figures.ideal_per_s.unwrap_or(f64::NAN));
    let rate = runs.median(|figures| figures.acquisitions_per_s);
    let row = Row::new(scene, "handoffs per second", rate).floor(ideal);
    let row = row.peer(peer.map(|peer| peer.per_s));
    match least {
        Some(share) => row.at_least(share * ideal),
        None => row,
    }
}

/// The floor is the time that the agent takes for only the two transactions and `more` plain
/// writes.
pub(crate) fn in_puts(scene: &str, runs: &Runs, more: f64) -> Row {
    let puts = runs.median(|figures| figures.cycle_p50_us / figures.put_p50_us);
    let bare = runs.median(|figures| bare_turn(figures) / figures.put_p50_us);
    Row::new(scene, "p50 of acquire and release, in plain PUTs", puts).floor(bare + more)
}

fn bare_turn(figures: &Figures) -> f64 {
    figures.bare_turn_p50_us.unwrap_or(f64::NAN)
}

pub(crate) fn times(scene: &str, runs: &Runs) -> [Row; 3] {
    [
        Row::new(
            scene,
            "the same, µs",
            runs.median(|figures| figures.cycle_p50_us),
        ),
        Row::new(
            scene,
            "p50 of the two transactions alone, µs",
            runs.median(bare_turn),
        ),
        Row::new(
            scene,
            "p50 of a plain PUT, µs",
            runs.median(|figures| figures.put_p50_us),
        ),
    ]
}

pub(crate) fn mean_hold(scene: &str, runs: &Runs) -> Row {
    Row::new(
        scene,
        "mean hold, ms",
        runs.median(|figures| figures.hold_mean_ms),
    )
    .floor(10.0)
}

pub(crate) fn limit_kept(scene: &str, runs: &Runs) -> Row {
    let most = runs.worst(|figures| whole(Some(figures.max_held)));
    Row::new(scene, "held at once", most).at_most(3.0)
}

pub(crate) fn errors(scene: &str, runs: &Runs) -> Row {
    let errors = runs.worst(|figures: &Figures| whole(Some(figures.errors)));
    Row::new(scene, "errors", errors).at_most(0.0)
}

/// An unknown count becomes NaN.
pub(crate) fn whole(count: Option<u64>) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    count.map_or(f64::NAN, |count| count as f64)
}

pub(crate) fn percent(share: Option<f64>) -> f64 {
    share.map_or(f64::NAN, |share| share * 100.0)
}
