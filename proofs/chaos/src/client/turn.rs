//! A contender's next action, drawn from its seed.

use std::time::Duration;

use fastrand::Rng;

use crate::record::{Place, Way};

/// One acquisition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) way: Way,
    pub(super) permits: u32,
    /// How long it waits, if it has a timeout.
    pub(super) patience: Duration,
    pub(super) hold: Duration,
    /// How often it changes the value of the election's key.
    pub(super) says: u32,
    pub(super) farewell: Farewell,
    /// How long it rests afterwards.
    pub(super) rest: Duration,
}

/// How a permit or a leadership ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Farewell {
    /// It is released, and the holder waits for that.
    Release,
    /// It is dropped, and released in the background.
    Drop,
}

/// The time between two questions of a holder whether it still holds.
pub(super) const BEAT: Duration = Duration::from_millis(200);

impl Turn {
    pub(super) fn draw(rng: &mut Rng, place: &Place, holds_long: bool) -> Self {
        let permits = if rng.u32(..4) == 0 {
            rng.u32(1..=place.limit)
        } else {
            1
        };
        let hold = match rng.u32(..10) {
            // So nearly always somebody holds for long and can be cut off.
            6..8 if holds_long => rng.u64(20_000..90_000),
            0..8 => rng.u64(10..300),
            8 => rng.u64(300..4_000),
            // Long enough for renewals, and for an outage in between.
            _ if !holds_long => rng.u64(4_000..20_000),
            // Long enough to believe on after Consul has removed its server.
            _ => rng.u64(10_000..60_000),
        };
        Self {
            way: match rng.u32(..10) {
                0..4 => Way::Plain,
                4..7 => Way::Timeout,
                7 => Way::Try,
                _ => Way::Cancelled,
            },
            permits,
            patience: Duration::from_millis(rng.u64(10..15_000)),
            hold: Duration::from_millis(hold),
            says: if place.is_election() { rng.u32(..3) } else { 0 },
            farewell: if rng.u32(..3) == 0 {
                Farewell::Drop
            } else {
                Farewell::Release
            },
            rest: Duration::from_millis(rng.u64(..1_500)),
        }
    }

    /// The time between two changes of the value.
    pub(super) fn pause(&self) -> Duration {
        self.hold / (self.says + 1)
    }

    /// A blocking thread can't be cancelled, so it waits with a timeout instead.
    pub(super) fn without_cancellation(&self) -> Self {
        let way = match self.way {
            Way::Cancelled => Way::Timeout,
            way => way,
        };
        Self { way, ..*self }
    }

    /// Everybody gets in once more when it is quiet, whatever happened before.
    pub(super) fn last() -> Self {
        Self {
            way: Way::Plain,
            permits: 1,
            patience: Duration::ZERO,
            hold: Duration::from_millis(50),
            says: 0,
            farewell: Farewell::Release,
            rest: Duration::ZERO,
        }
    }
}
