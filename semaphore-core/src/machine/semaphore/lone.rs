//! The pool of a semaphore that shares its sessions with nobody. Its requests travel among the
//! participant's, with numbers of the participant.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::settings::Settings;
use crate::http::Response;
use crate::id::RequestId;
use crate::machine::contract::Transmit;
use crate::machine::process::outage::RequestEnd;
use crate::machine::process::tenancy::loan::{LoanNews, LoanWish};
use crate::machine::process::tenancy::tenant::{MemberNo, Place};
use crate::machine::sessions::Pool;
use crate::time::Instant;
use crate::transport::TransportError;

#[derive(Clone, Debug)]
pub(super) struct Lone {
    pool: Pool,
    place: Place,
    /// The pool's numbers of its requests, by ours.
    ids: BTreeMap<RequestId, RequestId>,
}

/// The pool's only user.
const ONLY: MemberNo = MemberNo(0);

impl Lone {
    pub(super) fn new(settings: &Settings, seed: u64) -> Self {
        Self {
            pool: Pool::new(settings.session.clone(), seed),
            place: Arc::from(settings.prefix.as_str()),
            ids: BTreeMap::new(),
        }
    }

    pub(super) fn reseed(&mut self, seed: u64) {
        self.pool.reseed(seed);
    }

    pub(super) fn handle_wish(&mut self, now: Instant, wish: &LoanWish) {
        self.pool.handle_wish(now, ONLY, &self.place, wish);
    }

    pub(super) fn poll_news(&mut self) -> Option<LoanNews> {
        self.pool.poll_news().map(|(_, news)| news)
    }

    /// The next request, with the number that is drawn for it.
    pub(super) fn poll_transmit(
        &mut self,
        now: Instant,
        number: impl FnOnce() -> u64,
    ) -> Option<Transmit> {
        let transmit = self.pool.poll_transmit(now)?;
        let id = RequestId(number());
        self.ids.insert(id, transmit.id);
        Some(Transmit { id, ..transmit })
    }

    pub(super) fn poll_abort(&mut self) -> Option<RequestId> {
        let aborted = self.pool.poll_abort()?;
        let (ours, _) = self.ids.iter().find(|(_, theirs)| **theirs == aborted)?;
        let ours = *ours;
        self.ids.remove(&ours);
        Some(ours)
    }

    /// Takes the outcome of a request, if it is of the pool, and returns how it ended.
    #[expect(
        clippy::option_option,
        reason = "whose it was, and whether its end says something"
    )]
    pub(super) fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: &Result<Response, TransportError>,
    ) -> Option<Option<RequestEnd>> {
        let id = self.ids.remove(&id)?;
        Some(self.pool.handle_response(now, id, result))
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.pool.poll_timeout()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.pool.handle_timeout(now);
    }

    pub(super) fn close(&mut self, now: Instant) {
        self.pool.close(now);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pool.is_empty()
    }

    /// Whether it has only sessions that could not be ended so far.
    pub(super) fn is_held_up(&self) -> bool {
        self.pool.is_held_up()
    }
}
