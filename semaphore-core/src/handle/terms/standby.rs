//! Campaigns only when nobody leads: for candidates that let others go first, or that lead few
//! elections at once.
//!
//! A waiting campaign takes the key as soon as it is free. A candidate that must not do that
//! follows the election instead, without a session. When the key has been free long enough, it
//! campaigns for a moment.

use core::pin::pin;
use core::time::Duration;

use futures_util::future::{Either, select};

use super::limit::{TermLimit, TermPlace};
use crate::error::Error;
use crate::handle::hub::Followed;
use crate::handle::{Election, Follower, Leadership};
use crate::leader::LeaderStatus;
use crate::machine::LeaderEvent;

/// How long it campaigns for a free key. By then it leads, another candidate does, or a lock delay
/// runs.
const ATTEMPT: Duration = Duration::from_secs(5);

/// How often a waiting candidate checks whether the election is closed, of which nobody tells it,
/// and whether Consul is still silent.
const LOOK: Duration = Duration::from_secs(1);

/// Sees who leads, and tells of failures as a campaign does.
///
/// It is kept when a campaign fails: its follower tells a refusal once, and asks again at its own
/// pace.
pub(in crate::handle) struct Watch {
    election: Election,
    leaders: Follower,
    /// True if its last news was that Consul does not serve it.
    is_unserved: bool,
}

impl Watch {
    pub(super) fn new(election: &Election) -> Self {
        Self {
            election: election.clone(),
            leaders: election.leaders(),
            is_unserved: false,
        }
    }

    /// Campaigns when nobody has led for this time, with a place under the limit.
    pub(super) async fn campaign(
        &mut self,
        hold_back: Duration,
        limit: Option<&TermLimit>,
    ) -> Result<(Leadership, TermPlace), Error> {
        loop {
            while !self.is_vacant() {
                self.look().await?;
            }
            if !self.stays_vacant(hold_back).await? {
                continue;
            }
            let Some(place) = self.enter(limit).await? else {
                continue;
            };
            match self.election.campaign_timeout(ATTEMPT).await {
                Ok(leadership) => return Ok((leadership, place)),
                Err(Error::Timeout { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for a change, but not long.
    ///
    /// # Errors
    /// What ends a campaign, too: Consul refuses, the key is not an election's, or the election is
    /// closed.
    async fn look(&mut self) -> Result<(), Error> {
        if self.election.is_closed() {
            return Err(Error::closed());
        }
        let (next, passed) = (
            pin!(self.leaders.next()),
            pin!(self.election.runtime().sleep(LOOK)),
        );
        let tell = |followed| self.election.tell_followed(followed);
        let Either::Left((news, _)) = select(next, passed).await else {
            if self.is_unserved {
                tell(Followed::StillFailing);
            }
            return Ok(());
        };
        let news = news.ok_or_else(|| self.election.ended())?;
        self.is_unserved = matches!(news, Ok(LeaderEvent::Interrupted(_)));
        match &news {
            Ok(LeaderEvent::Interrupted(failure)) => tell(Followed::Failed(failure)),
            Ok(_) => tell(Followed::Served),
            Err(error) => tell(Followed::Refused(error)),
        }
        news.map(|_| ())
    }

    /// Returns true if nobody leads, as far as is known.
    fn is_vacant(&self) -> bool {
        let is_leaderless = matches!(
            self.leaders.current(),
            Some(LeaderStatus::Leaderless { .. })
        );
        is_leaderless && !self.leaders.is_interrupted()
    }

    /// Waits until somebody leads, as far as is known.
    async fn led(&mut self) -> Result<(), Error> {
        while !matches!(self.leaders.current(), Some(LeaderStatus::Led(_))) {
            self.look().await?;
        }
        Ok(())
    }

    /// Waits this long. Returns true if nobody leads all the while.
    async fn stays_vacant(&mut self, time: Duration) -> Result<bool, Error> {
        if time.is_zero() {
            return Ok(true);
        }
        let election = self.election.clone();
        let passed = pin!(election.runtime().sleep(time));
        match select(passed, pin!(self.led())).await {
            Either::Left(_) => Ok(true),
            Either::Right((led, _)) => led.map(|()| false),
        }
    }

    /// Waits for a place. `None` if somebody leads meanwhile: the place would be useless, and
    /// others wait for it.
    async fn enter(&mut self, limit: Option<&TermLimit>) -> Result<Option<TermPlace>, Error> {
        let Some(limit) = limit else {
            return Ok(Some(TermPlace::default()));
        };
        match select(pin!(limit.enter()), pin!(self.led())).await {
            Either::Left((place, _)) => Ok(Some(place)),
            Either::Right((led, _)) => led.map(|()| None),
        }
    }
}
