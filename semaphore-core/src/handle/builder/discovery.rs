//! How discoveries are built.

use core::time::Duration;
use std::sync::Arc;

use super::{Buildable, Builder, Named, Told};
use crate::error::Error;
use crate::handle::authorized::Tokens;
use crate::handle::discovery::Following;
use crate::handle::presence::Presence;
use crate::handle::{Discovery, blocking};
use crate::input::LockKey;
use crate::machine::Follow;
use crate::runtime::{BlockOn, Runtime};
use crate::subject::Subject;
use crate::transport::Transport;

impl Discovery {
    /// The election on `key`, for example `service/db/leader`. A discovery uses only the options
    /// for the scope, the seed and the [greatest age](Builder::max_age).
    pub fn builder(key: impl AsRef<str>) -> Builder<Self> {
        Builder::for_discovery(key.as_ref())
    }
}

impl Named for Following {
    fn named(&self) -> Subject {
        Subject::of_election(self.key.as_str(), None)
    }
}

impl blocking::Discovery {
    /// See [`Discovery::builder`](crate::Discovery::builder). It builds blocking handles.
    pub fn builder(key: impl AsRef<str>) -> Builder<Self> {
        Builder::for_discovery(key.as_ref())
    }
}

impl<T: Buildable<Subject = Following>> Builder<T> {
    fn for_discovery(key: &str) -> Self {
        let max_age = None;
        let key = LockKey::new(key).map_err(Error::from);
        Self::of(key.map(|key| Following { key, max_age }))
    }

    /// Sets how old the knowledge of a [`Follower`](crate::Follower) may get before it reports that
    /// it is [interrupted](crate::LeaderEvent::Interrupted): 3 s to 10 min, 15 s by default. While
    /// nothing changes, a follower asks each third of this time.
    pub fn max_age(self, max_age: Duration) -> Self {
        self.checked(|told| {
            Follow::check_max_age(max_age)?;
            told.subject.max_age = Some(max_age);
            Ok(())
        })
    }
}

connects! {
    Discovery, Following,
    /// Checks everything. Sends nothing, and starts no task.
    errors: /// [`Error::InvalidInput`] with the first thing that is wrong.
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "`connects` expects it: the others can fail"
)]
fn build(
    told: Told<Following>,
    transport: Arc<dyn Transport>,
    runtime: Arc<dyn Runtime>,
) -> Result<Discovery, Error> {
    let scope = told.scope.or(transport.defaults());
    let (following, seed) = (told.subject, told.seed);
    let Some(presence) = Presence::of(&*transport) else {
        let tokens = Tokens::of(told.tokens);
        let transport = tokens.over(transport);
        return Ok(Discovery::new(
            following, scope, seed, transport, tokens, runtime, None,
        ));
    };
    Ok(presence.discovery(following, scope, seed, told.tokens))
}
