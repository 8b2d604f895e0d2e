//! Campaigns only when nobody leads: for candidates that let others go first, or that lead few
//! elections at once.
//!
//! A waiting campaign takes the key as soon as it is free. A candidate that must not do that
//! follows the election instead, without a session. When the key has been free long enough, it
//! campaigns for a moment.

use core::future::Future;
use core::pin::pin;
use core::time::Duration;

use futures_util::future::{Either, select};

use super::limit::{TermLimit, TermPlace};
use crate::error::Error;
use crate::handle::{Election, Follower, Leadership};
use crate::leader::LeaderStatus;

/// How long it campaigns for a free key. By then it leads, another candidate does, or a lock delay
/// runs.
const ATTEMPT: Duration = Duration::from_secs(5);

/// How often a waiting candidate checks whether the election is closed. Nobody tells it.
const LOOK: Duration = Duration::from_secs(1);

pub(super) async fn campaign(
    election: &Election,
    hold_back: Duration,
    limit: Option<&TermLimit>,
) -> Result<(Leadership, Option<TermPlace>), Error> {
    let mut leaders = election.leaders();
    loop {
        until_closed(election, vacant(&mut leaders)).await?;
        if !stays_vacant(election, &mut leaders, hold_back).await {
            continue;
        }
        let place = match limit {
            Some(limit) => {
                let entered = enter(limit, &mut leaders);
                let Some(place) = until_closed(election, entered).await? else {
                    continue;
                };
                Some(place)
            }
            None => None,
        };
        match election.campaign_timeout(ATTEMPT).await {
            Ok(leadership) => return Ok((leadership, place)),
            Err(Error::Timeout { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits until nobody leads, as far as is known.
async fn vacant(leaders: &mut Follower) {
    while !matches!(leaders.current(), Some(LeaderStatus::Leaderless { .. }))
        || leaders.is_interrupted()
    {
        // Failures are waited out; the attempt would report a refusal.
        let _ = leaders.next().await;
    }
}

/// Waits for a place. `None` if somebody leads meanwhile: the place would be useless, and others
/// wait for it.
async fn enter(limit: &TermLimit, leaders: &mut Follower) -> Option<TermPlace> {
    match select(pin!(limit.enter()), pin!(led(leaders))).await {
        Either::Left((place, _)) => Some(place),
        Either::Right(_) => None,
    }
}

/// Waits until somebody leads, as far as is known.
async fn led(leaders: &mut Follower) {
    while !matches!(leaders.current(), Some(LeaderStatus::Led(_))) {
        let _ = leaders.next().await;
    }
}

/// Whether nobody leads for this time.
async fn stays_vacant(election: &Election, leaders: &mut Follower, time: Duration) -> bool {
    if time.is_zero() {
        return true;
    }
    let passed = pin!(election.sleep(time));
    matches!(select(passed, pin!(led(leaders))).await, Either::Left(_))
}

/// Waits for this, or for the election's end.
async fn until_closed<T>(election: &Election, wanted: impl Future<Output = T>) -> Result<T, Error> {
    let mut wanted = pin!(wanted);
    loop {
        if election.is_closed() {
            return Err(Error::closed());
        }
        match select(&mut wanted, pin!(election.sleep(LOOK))).await {
            Either::Left((done, _)) => return Ok(done),
            Either::Right(_) => {}
        }
    }
}
