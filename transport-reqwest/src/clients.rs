//! Chooses the client, and so the connection, of a request: each client has a pool of one connection.
//!
//! ```text
//!             by HTTP/1.1
//!           ┌────────────▶ (alone) ──┐
//!   (unknown)                        │ an answer by HTTP/2
//!      ▲    └────────────▶ (shared) ◀┘
//!      │      by HTTP/2        │
//!      └── HTTP/2 is refused ──┘
//! ```
//! - Unknown: one request finds out what the agent speaks; others wait for its answer, up to a second.
//! - Alone: a client for each lane. So a poll is never lent the connection that a renewal needs, and there are never more
//!   connections than lanes.
//! - Shared: one client for all short lanes, and one for each [`POLLS_PER_CONNECTION`] polls. A renewal never waits behind the
//!   answer to a poll. After a request that has timed out, the next ones go by another connection: the one before may be dead
//!   without saying so. What is under way on it goes on, and it is closed afterwards.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::{Client, Version};
use semaphore_core::adapter::{Instant, Lane};
use tokio::sync::MutexGuard;

use crate::recipe::Recipe;
use crate::route::Route;

/// How many polls one connection carries over HTTP/2. A server should allow so many streams (RFC 9113, 6.5.2); Consul allows
/// 250.
const POLLS_PER_CONNECTION: usize = 100;

/// How long a request waits for another one to find out what the agent speaks.
const SCOUTED: Duration = Duration::from_secs(1);

/// The clients, each made by the first request that needs it.
pub(crate) struct Clients {
    pub(crate) recipe: Arc<Recipe>,
    state: Mutex<State>,
    /// Held by the request that finds out what the agent speaks.
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

/// What requests have in common that go by one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    Alone(Lane),
    Shorts,
    Polls(usize),
}

/// A client, and how it finds a server, unless it is the user's own.
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

    /// Others like these, which share no connection with them.
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

    /// Waits while another request finds out what the agent speaks. The request that gets the guard keeps it until its answer.
    pub(crate) async fn scout(&self) -> Option<MutexGuard<'_, ()>> {
        if self.state().spoken != Spoken::Unknown {
            return None;
        }
        // One that gets no answer holds up nobody for long.
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

    /// Without its client a connection is closed, unless there is a request on it.
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

    /// The head of an answer has come by this one.
    pub(crate) fn answered(&self, made: &Made, version: Version) {
        made.has_answered.store(true, Ordering::Relaxed);
        // What a client of the user's own shares is for its pool to say.
        if !self.recipe.offers_http2() || made.way.is_shared() {
            return;
        }
        if version == Version::HTTP_2 {
            self.switch(Spoken::Shared);
        } else if self.state().spoken == Spoken::Unknown {
            self.switch(Spoken::Alone);
        }
    }

    /// A request by this one has timed out, or its connection is broken: the next ones go by another.
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

    /// A connection was broken. Before its first answer that may be because another server has come, which speaks
    /// HTTP/1.1 alone. A poll says nothing of that: its first answer may take as long as it waits.
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
