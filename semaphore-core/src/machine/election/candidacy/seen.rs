//! The key as it was last seen, and by which campaign.

use crate::election_key::ElectionKey;
use crate::machine::process::moment::Moment;
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) key: Option<ElectionKey>,
    /// When the answer had come. A poll tells of the moment at which it is answered: what was asked for
    /// after the poll may be older.
    pub(super) at: Moment,
    by: SeenBy,
}

/// Whether the key may still be as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// Nothing says otherwise.
    Current,
    /// It has changed since. The watch shows that, as a rule: it is read only if the watch has not done so by then.
    Outdated { wanted_from: Instant },
}

/// Which campaign has seen the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SeenBy {
    ThisCampaign,
    /// One before it, with the same session. It still tells which answers are older, and nothing of the present: an answer from a
    /// former term names the right session.
    AFormerCampaign,
}

impl Seen {
    pub(super) fn now(key: Option<ElectionKey>, at: Moment) -> Self {
        let by = SeenBy::ThisCampaign;
        Self { key, at, by }
    }

    /// Whether the campaign that goes on has seen it.
    pub(super) fn is_present(&self) -> bool {
        self.by == SeenBy::ThisCampaign
    }

    /// Another campaign begins.
    pub(super) fn outlive_campaign(&mut self) {
        self.by = SeenBy::AFormerCampaign;
    }
}
