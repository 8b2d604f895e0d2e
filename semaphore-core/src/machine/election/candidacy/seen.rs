//! The key as it was last seen, and by which campaign.

use crate::api::ReadKey;
use crate::election_key::ElectionKey;
use crate::error::RequestError;
use crate::http::Response;
use crate::id::Index;
use crate::machine::process::moment::Moment;
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) key: Option<ElectionKey>,
    /// The state of the store that it belongs to: the last change of the key, or the index of the
    /// answer that found none.
    pub(super) index: Index,
    /// When the answer had come. A poll shows the moment of its answer, so a request that was sent
    /// after the poll may show an older state.
    pub(super) at: Moment,
    /// When that was last confirmed.
    pub(super) checked_at: Instant,
    by: SeenBy,
}

/// What an answer shows.
#[derive(Clone, Debug)]
pub(in crate::machine::election) struct View {
    pub(in crate::machine::election) key: Option<ElectionKey>,
    /// The index of the answer.
    pub(in crate::machine::election) as_of: Index,
}

impl View {
    pub(in crate::machine::election) fn parse(response: &Response) -> Result<Self, RequestError> {
        let (as_of, found) = ReadKey::parse_at(response)?;
        let key = found.as_ref().map(ElectionKey::new).transpose()?;
        Ok(Self { key, as_of })
    }

    /// The answer to a write that was applied.
    pub(super) fn of(key: ElectionKey) -> Self {
        let as_of = key.modify_index;
        Self {
            key: Some(key),
            as_of,
        }
    }

    /// Where it stands among what is seen of the key. Others may have moved the index of the answer.
    pub(super) fn index(&self) -> Index {
        self.key.as_ref().map_or(self.as_of, |key| key.modify_index)
    }
}

/// The index of the key's last change; zero if it is missing.
pub(super) fn changed(key: Option<&ElectionKey>) -> Index {
    key.map_or(Index::ZERO, |key| key.modify_index)
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
    pub(super) fn now(now: Instant, view: View, at: Moment) -> Self {
        Self {
            index: view.index(),
            key: view.key,
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
