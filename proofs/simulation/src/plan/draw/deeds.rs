//! Draws the other contenders, and the events in the world.

use std::time::Duration;

use fastrand::Rng;

use super::{Draft, Theme, millis, pick, secs};
use crate::plan::{Deed, Hidden, Stranger, StrangerPlan};

impl Draft {
    pub(super) fn strangers(&self, rng: &mut Rng) -> Vec<StrangerPlan> {
        let count = if rng.u32(..4) == 0 {
            rng.usize(1..=2)
        } else {
            0
        };
        (0..count)
            .map(|number| StrangerPlan {
                number,
                prefix: rng.usize(..self.prefixes),
                at: self.storm.mul_f64(rng.f64()),
                dialect: None,
                kind: if rng.bool() {
                    Stranger::Stuck(secs(rng.u64(20..200)))
                } else {
                    Stranger::Go {
                        turns: rng.u32(1..=4),
                        hold: millis(rng.u64(10..5_000)),
                    }
                },
            })
            .collect()
    }

    pub(super) fn deeds(&self, rng: &mut Rng) -> Vec<(Duration, Deed)> {
        let most = if self.is_large { 16 } else { 6 };
        let count = match self.theme {
            Theme::Network => 0,
            _ => rng.usize(1..=most),
        };
        (0..count)
            .map(|_| (self.storm.mul_f64(rng.f64()), self.deed(rng)))
            .collect()
    }

    fn deed(&self, rng: &mut Rng) -> Deed {
        let host = rng.usize(..self.hosts);
        match self.theme {
            Theme::Network | Theme::Failures => self.failure(rng, host),
            Theme::Operator => self.operation(rng),
            Theme::Access => Self::restriction(rng, host),
            Theme::Everything => match rng.u32(..3) {
                0 => self.failure(rng, host),
                1 => self.operation(rng),
                _ => Self::restriction(rng, host),
            },
        }
    }

    pub(super) fn failure(&self, rng: &mut Rng, host: usize) -> Deed {
        // Short, or long enough to end a lease.
        let time = match rng.u32(..3) {
            0 => millis(rng.u64(..100)),
            1 => self.ttl.mul_f64(rng.f64()),
            _ => self.ttl.mul_f64(0.5 + 2.0 * rng.f64()),
        };
        match rng.u32(..10) {
            0 => Deed::Kill {
                host,
                down: time.min(secs(10)),
            },
            1 => Deed::Exit {
                host,
                down: time.min(secs(10)),
            },
            2 | 3 => Deed::Pause { host, time },
            4 => Deed::Partition { host, time },
            5 => Deed::Stall { host, time },
            6 => Deed::AgentDown { host, time },
            7 => Deed::Lag {
                host,
                time: time.min(secs(5)),
            },
            8 => Deed::LoseLeader {
                time: time.min(secs(10)),
            },
            _ => Deed::SlowLeader {
                without: time.min(secs(5)),
                lacks: pick(rng, &[1, 2, 3, 4, 6, 10, 16, usize::MAX]),
                time: millis(pick(rng, &[10, 100, 1_000, 3_000, 6_000])).mul_f64(rng.f64()),
            },
        }
    }

    fn operation(&self, rng: &mut Rng) -> Deed {
        let prefix = rng.usize(..self.prefixes);
        let nth = rng.usize(..8);
        match rng.u32(..10) {
            0 | 1 => Deed::DestroySession { nth },
            2 => Deed::DeleteKey { prefix, nth },
            3 => Deed::RemoveHolder { prefix, nth },
            4 => Deed::DeleteRecord { prefix },
            5 => Deed::Garble {
                prefix,
                time: millis(rng.u64(..5_000)),
            },
            6 => Deed::Resize {
                prefix,
                limit: rng.u32(1..=3),
            },
            7 => Deed::ResetIndex,
            8 => Deed::Snapshot,
            _ => Deed::Restore,
        }
    }

    fn restriction(rng: &mut Rng, host: usize) -> Deed {
        Deed::Restrict {
            host,
            what: pick(
                rng,
                &[
                    Hidden::Others,
                    Hidden::Others,
                    Hidden::Contenders,
                    Hidden::Everything,
                ],
            ),
            time: millis(rng.u64(100..20_000)),
        }
    }
}
