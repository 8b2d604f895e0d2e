//! A client for each lane, with a pool of one connection: so a poll is never lent the connection that a renewal needs,
//! and there are never more connections than lanes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reqwest::Client;
use semaphore_core::adapter::{Instant, Lane};

use crate::builder::Recipe;
use crate::route::Route;

/// The clients, each made by the first request on its lane.
pub(crate) struct Clients {
    pub(crate) recipe: Arc<Recipe>,
    made: Mutex<BTreeMap<Lane, Made>>,
}

/// A client, and how it finds a server, unless it is the user's own.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) client: Client,
    pub(crate) route: Option<Arc<Route>>,
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
        let made = Mutex::default();
        Self { recipe, made }
    }

    pub(crate) fn of(&self, lane: Lane, now: Instant) -> Result<Made, reqwest::Error> {
        let mut made = self.made();
        let is_left = |it: &&Made| it.route.as_ref().is_some_and(|route| route.is_left(now));
        if let Some(kept) = made.get(&lane).filter(|it| !is_left(it)) {
            return Ok(kept.clone());
        }
        let new = self.recipe.client(lane)?;
        made.insert(lane, new.clone());
        Ok(new)
    }

    /// Without its client a connection is closed, unless there is a request on it.
    pub(crate) fn close(&self, lane: Lane) {
        let client = self.made().remove(&lane);
        drop(client);
    }

    fn made(&self) -> MutexGuard<'_, BTreeMap<Lane, Made>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
