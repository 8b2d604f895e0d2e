//! The key as it was last seen, and by which campaign.

use crate::election_key::ElectionKey;
use crate::machine::process::moment::Moment;
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) key: Option<ElectionKey>,
    /// When the answer had come. A poll shows the moment of its answer, so a request that was sent
    /// after the poll may show an older state.
    pub(super) at: Moment,
    /// When that was last confirmed.
    pub(super) checked_at: Instant,
    by: SeenBy,
}

/// Whether the key may still be as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// Nothing says otherwise.
    Current,
    /// It has changed since. Usually the watch shows that. It is only read if the watch has not
    /// done so by this time.
    Outdated { wanted_from: Instant },
}

/// Which campaign has seen the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SeenBy {
    ThisCampaign,
    /// An earlier campaign with the same session. It still tells which answers are older, but
    /// nothing about the present: an answer from a former term also names the session.
    AFormerCampaign,
}

impl Seen {
    pub(super) fn now(now: Instant, key: Option<ElectionKey>, at: Moment) -> Self {
        Self {
            key,
            at,
            checked_at: now,
            by: SeenBy::ThisCampaign,
        }
    }

    /// Whether the present campaign has seen it.
    pub(super) fn is_present(&self) -> bool {
        self.by == SeenBy::ThisCampaign
    }

    /// A new campaign begins.
    pub(super) fn outlive_campaign(&mut self) {
        self.by = SeenBy::AFormerCampaign;
    }
}
