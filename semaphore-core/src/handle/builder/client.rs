//! The common options of a client's semaphores and elections, and how it is built.

use std::sync::Arc;

use super::{Builder, Contends, Contention, Named, Told};
use crate::error::Error;
use crate::handle::authorized::Tokens;
use crate::handle::presence::{Defaults, Presence};
use crate::handle::{Client, blocking};
use crate::machine::MachineSet;
use crate::runtime::{BlockOn, Runtime};
use crate::subject::Subject;
use crate::transport::Transport;

/// A client has no subject.
#[derive(Clone, Copy, Debug, Default)]
pub struct Anything {
    own_polls: Option<usize>,
}

impl<T: Contends<Settings = Anything>> Builder<T> {
    /// Sets how many waiting semaphores of the client have separate polls. The default is 16. Their
    /// waiters learn of their turn at once. The client asks for the others once a second, 32 in a
    /// request: a thousand waiting semaphores cost 32 requests a second. From 2,000 on it asks less
    /// often, so that it sends at most 64 requests a second for them. Who holds a semaphore has no
    /// poll: it learns of its eviction with the next proof, within a fifteenth of the TTL.
    ///
    /// The same number applies to the elections that it waits for or follows, together, of which it
    /// asks for 64 in a request, and to those that it leads. If it leads more, none of them has a
    /// separate poll: it asks for dozens at once, four times within the TTL of their sessions.
    pub fn own_polls(self, most: usize) -> Self {
        self.checked(|told| {
            told.subject.settings.own_polls = Some(most);
            Ok(())
        })
    }
}

impl Client {
    /// A builder with options for everything that is connected to the client. Each semaphore or
    /// election can override them.
    pub fn builder() -> Builder<Self> {
        Builder::contending(Ok(Anything::default()))
    }
}

impl Named for Contention<Anything> {
    fn named(&self) -> Subject {
        Subject::default()
    }
}

impl Contends for Client {
    type Settings = Anything;
}

impl blocking::Client {
    /// See [`Client::builder`](crate::Client::builder). It builds blocking handles.
    pub fn builder() -> Builder<Self> {
        Builder::contending(Ok(Anything::default()))
    }
}

impl Contends for blocking::Client {
    type Settings = Anything;
}

connects! {
    Client, Contention<Anything>,
    /// Checks everything and starts the driver on the backend's runtime. Sends nothing yet.
    errors: /// [`Error::InvalidInput`] with the first thing that is wrong, [`Error::NoTask`].
}

fn build(
    told: Told<Contention<Anything>>,
    transport: Arc<dyn Transport>,
    runtime: Arc<dyn Runtime>,
) -> Result<Client, Error> {
    let seed = told.seed.unwrap_or_else(|| runtime.seed());
    let mut defaults = told.or(&Defaults::default())?;
    defaults.scope = defaults.scope.or(transport.defaults());
    let tokens = Tokens::of(told.tokens);
    let mut machines = MachineSet::new(seed);
    if let Some(most) = told.subject.settings.own_polls {
        machines = machines.with_own_polls(most);
    }
    let presence = Presence::start(transport, tokens, runtime, machines, defaults)?;
    Ok(Client::new(presence))
}
