//! A client for each lane, with a pool of one connection: so a poll is never lent the connection that a renewal needs,
//! and there are never more connections than lanes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reqwest::Client;
use semaphore_core::adapter::Lane;

use crate::builder::Recipe;

/// The clients, each made by the first request on its lane.
pub(crate) struct Clients {
    recipe: Arc<Recipe>,
    made: Mutex<BTreeMap<Lane, Client>>,
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

    pub(crate) fn of(&self, lane: Lane) -> Result<Client, reqwest::Error> {
        let mut made = self.made();
        if let Some(client) = made.get(&lane) {
            return Ok(client.clone());
        }
        let client = self.recipe.client(lane)?;
        made.insert(lane, client.clone());
        Ok(client)
    }

    /// Without its client a connection is closed, unless there is a request on it.
    pub(crate) fn close(&self, lane: Lane) {
        let client = self.made().remove(&lane);
        drop(client);
    }

    fn made(&self) -> MutexGuard<'_, BTreeMap<Lane, Client>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
