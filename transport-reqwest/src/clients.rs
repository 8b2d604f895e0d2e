//! Chooses the client, and so the connection, of each request. Each client has a pool of one
//! connection.
//!
//! ```text
//!             by HTTP/1.1
//!           ┌────────────▶ (alone) ──┐
//!   (unknown)                        │ an answer by HTTP/2
//!      ▲    └────────────▶ (shared) ◀┘
//!      │      by HTTP/2        │
//!      └── HTTP/2 is refused ──┘
//! ```
//! - Unknown: one request finds out which version the agent speaks. Others wait up to a second for
//!   its answer.
//! - Alone: each lane has its own client. A poll never gets the connection that a renewal needs,
//!   and there are never more connections than lanes.
//! - Shared: all short lanes share one client, and each [`POLLS_PER_CONNECTION`] polls share
//!   another. A renewal never waits behind the answer to a poll. After a request has timed out, the
//!   next requests use a new connection, since the old one may be dead. Requests on the old one may
//!   finish; then it is closed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::{Client, Version};
use semaphore_core::adapter::{Instant, Lane};
use tokio::sync::MutexGuard;

use crate::recipe::Recipe;
use crate::route::Route;

/// How many polls one HTTP/2 connection carries. Servers should allow at least 100 streams (RFC
/// 9113, 6.5.2); Consul allows 250.
const POLLS_PER_CONNECTION: usize = 100;

/// How long a request waits while another one finds out which version the agent speaks.
const SCOUTED: Duration = Duration::from_secs(1);

/// The clients. Each is made by the first request that needs it.
pub(crate) struct Clients {
    pub(crate) recipe: Arc<Recipe>,
    state: Mutex<State>,
    /// Locked by the request that finds out which version the agent speaks.
    scouting: tokio::sync::Mutex<()>,
}

struct State {
    spoken: Spoken,
    made: BTreeMap<Way, Made>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Spoken {
    Unknown,
    Alone,
    Shared,
}

/// Requests with the same value share a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    Alone(Lane),
    Shorts,
    Polls(usize),
}

/// A client and how it finds a server. A client that the user gave has no route.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) client: Client,
    pub(crate) route: Option<Arc<Route>>,
    way: Way,
    has_answered: Arc<AtomicBool>,
}

impl Way {
    fn of(lane: Lane, is_shared: bool) -> Self {
        match lane {
            Lane::Short(_) if is_shared => Self::Shorts,
            Lane::Poll(no) if is_shared => Self::Polls(no / POLLS_PER_CONNECTION),
            lane => Self::Alone(lane),
        }
    }

    pub(crate) fn is_shared(self) -> bool {
        !matches!(self, Self::Alone(_))
    }
}

impl Made {
    pub(crate) fn new(client: Client, route: Option<Arc<Route>>, way: Way) -> Self {
        Self {
            client,
            route,
            way,
            has_answered: Arc::default(),
        }
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.has_answered, &other.has_answered)
    }
}

impl Clients {
    pub(crate) fn new(recipe: Recipe) -> Self {
        Self::by(Arc::new(recipe))
    }

    /// The same settings, but no shared connections.
    pub(crate) fn anew(&self) -> Self {
        Self::by(Arc::clone(&self.recipe))
    }

    fn by(recipe: Arc<Recipe>) -> Self {
        let spoken = if recipe.offers_http2() {
            Spoken::Unknown
        } else {
            Spoken::Alone
        };
        let made = BTreeMap::new();
        Self {
            recipe,
            state: Mutex::new(State { spoken, made }),
            scouting: tokio::sync::Mutex::default(),
        }
    }

    /// Waits while another request finds out which version the agent speaks. The request that gets
    /// the guard keeps it until its answer.
    pub(crate) async fn scout(&self) -> Option<MutexGuard<'_, ()>> {
        if self.state().spoken != Spoken::Unknown {
            return None;
        }
        // The limit keeps a request without an answer from delaying the others.
        let turn = tokio::time::timeout(SCOUTED, self.scouting.lock()).await;
        turn.ok().filter(|_| self.state().spoken == Spoken::Unknown)
    }

    pub(crate) fn of(&self, lane: Lane, now: Instant) -> Result<Made, reqwest::Error> {
        let mut state = self.state();
        let way = Way::of(lane, state.spoken == Spoken::Shared);
        let is_left = |it: &&Made| it.route.as_ref().is_some_and(|route| route.is_left(now));
        if let Some(kept) = state.made.get(&way).filter(|it| !is_left(it)) {
            return Ok(kept.clone());
        }
        let new = self.recipe.client(way)?;
        state.made.insert(way, new.clone());
        Ok(new)
    }

    /// Dropping the client closes its connection, once no request uses it.
    pub(crate) fn close(&self, lane: Lane) {
        let client = self.state().made.remove(&Way::Alone(lane));
        drop(client);
    }

    pub(crate) fn polls_per_connection(&self) -> usize {
        if self.state().spoken == Spoken::Shared {
            POLLS_PER_CONNECTION
        } else {
            1
        }
    }

    /// This client has received the head of an answer.
    pub(crate) fn answered(&self, made: &Made, version: Version) {
        made.has_answered.store(true, Ordering::Relaxed);
        // A client that the user gave manages its pool without us.
        if !self.recipe.offers_http2() || made.way.is_shared() {
            return;
        }
        if version == Version::HTTP_2 {
            self.switch(Spoken::Shared);
        } else if self.state().spoken == Spoken::Unknown {
            self.switch(Spoken::Alone);
        }
    }

    /// A request of this client has timed out, or its connection broke: the next requests get a new
    /// client.
    pub(crate) fn leave(&self, made: &Made) {
        let mut state = self.state();
        let is_current = state.made.get(&made.way).is_some_and(|it| it.is(made));
        if made.way.is_shared() && is_current {
            state.made.remove(&made.way);
        }
    }

    /// The other side does not speak HTTP/2.
    pub(crate) fn refused(&self, made: &Made) {
        if made.way.is_shared() {
            self.switch(Spoken::Unknown);
        }
    }

    /// A connection broke. If it broke before its first answer, the reason may be a new server that
    /// speaks only HTTP/1.1. Polls say nothing about that: their first answer may take as long as
    /// they wait.
    pub(crate) fn broken(&self, made: &Made) {
        let is_known = made.has_answered.load(Ordering::Relaxed);
        self.leave(made);
        if made.way == Way::Shorts && !is_known {
            self.switch(Spoken::Unknown);
        }
    }

    fn switch(&self, spoken: Spoken) {
        let mut state = self.state();
        if state.spoken != spoken {
            state.spoken = spoken;
            let left = std::mem::take(&mut state.made);
            drop(state);
            drop(left);
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
