//! A task that follows an election's leader, as its users do.

use std::sync::Arc;
use std::time::Duration;

use semaphore_core::adapter::Runtime as _;
use semaphore_core::{Discovery, Error, LeaderStatus, Scope};
use transport_mock::{MockClient, MockProcess};

use super::book::Book;
use super::user::is_of_an_operators_write;
use super::wire::Wire;
use crate::history::{Followed, Happening};

/// How long it waits before it follows again.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) struct Follower {
    pub(super) host: usize,
    pub(super) prefix: usize,
    pub(super) key: String,
    pub(super) scope: Scope,
    pub(super) wire: Arc<Wire>,
    pub(super) process: MockProcess,
    /// The host by the true clock.
    pub(super) truth: MockClient,
    pub(super) book: Book,
}

impl Follower {
    /// Lives as long as its process. After an error that no retry repairs it follows again.
    pub(super) async fn live(self) {
        loop {
            self.tell(Followed::Nothing);
            if let Err(error) = self.follow().await {
                let host = self.host;
                let error = format!("{error:?}");
                self.book.happened(Happening::Failed { host, error });
            }
            self.truth.sleep(PAUSE).await;
        }
    }

    async fn follow(&self) -> Result<(), Error> {
        let process = Arc::new(self.process.clone());
        let (wire, scope) = (Arc::clone(&self.wire), self.scope.clone());
        let discovery = Discovery::builder(&self.key)
            .scope(scope)
            .connect_parts(wire, process)?;
        let mut follower = discovery.follow();
        while let Some(event) = follower.next().await {
            if let Err(error) = event.as_ref()
                && !is_of_an_operators_write(error)
            {
                let (host, error) = (self.host, format!("{error:?}"));
                self.book.happened(Happening::Failed { host, error });
            }
            self.tell(match follower.current() {
                None => Followed::Nothing,
                Some(LeaderStatus::Leaderless { .. }) => Followed::Nobody,
                Some(LeaderStatus::Led(leader)) => Followed::Leader(leader.session.to_string()),
            });
        }
        Ok(())
    }

    fn tell(&self, what: Followed) {
        let (host, prefix) = (self.host, self.prefix);
        let told = Happening::Follows { host, prefix, what };
        self.book.happened(told);
    }
}
