//! The pool of a machine that shares its sessions with nobody. Its requests travel among the
//! machine's, with numbers of the machine.

use core::iter;
use std::collections::BTreeMap;

use super::Pool;
use crate::http::Response;
use crate::id::RequestId;
use crate::machine::contract::Transmit;
use crate::machine::process::outage::RequestEnd;
use crate::machine::process::tenancy::loan::{LoanNews, LoanWish};
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::machine::process::tenancy::tenant::{MemberNo, Place};
use crate::time::Instant;
use crate::transport::TransportError;

#[derive(Clone, Debug)]
pub(in crate::machine) struct Lone {
    pool: Pool,
    place: Place,
    /// The pool's numbers of its requests, by ours.
    ids: BTreeMap<RequestId, RequestId>,
}

/// The pool's only user.
const ONLY: MemberNo = MemberNo(0);

impl Lone {
    /// `None` if others share its sessions.
    pub(in crate::machine) fn new(
        settings: &SessionSettings,
        place: Place,
        seed: u64,
    ) -> Option<Box<Self>> {
        let lone = || Self {
            pool: Pool::new(settings.clone(), seed),
            place,
            ids: BTreeMap::new(),
        };
        (!settings.shares_sessions()).then(|| Box::new(lone()))
    }

    pub(in crate::machine) fn reseed(&mut self, seed: u64) {
        self.pool.reseed(seed);
    }

    /// Takes wishes, and returns the news.
    pub(in crate::machine) fn exchange(
        &mut self,
        now: Instant,
        wishes: impl Iterator<Item = LoanWish>,
    ) -> Vec<LoanNews> {
        for wish in wishes {
            self.pool.handle_wish(now, ONLY, &self.place, &wish);
        }
        iter::from_fn(|| self.pool.poll_news())
            .map(|(_, news)| news)
            .collect()
    }

    /// The next request, with the number that is drawn for it.
    pub(in crate::machine) fn poll_transmit(
        &mut self,
        now: Instant,
        number: impl FnOnce() -> u64,
    ) -> Option<Transmit> {
        let transmit = self.pool.poll_transmit(now)?;
        let id = RequestId(number());
        self.ids.insert(id, transmit.id);
        Some(Transmit { id, ..transmit })
    }

    pub(in crate::machine) fn poll_abort(&mut self) -> Option<RequestId> {
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
    pub(in crate::machine) fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: &Result<Response, TransportError>,
    ) -> Option<Option<RequestEnd>> {
        let id = self.ids.remove(&id)?;
        Some(self.pool.handle_response(now, id, result))
    }

    pub(in crate::machine) fn poll_timeout(&self) -> Option<Instant> {
        self.pool.poll_timeout()
    }

    pub(in crate::machine) fn handle_timeout(&mut self, now: Instant) {
        self.pool.handle_timeout(now);
    }

    pub(in crate::machine) fn close(&mut self, now: Instant) {
        self.pool.close(now);
    }

    pub(in crate::machine) fn is_empty(&self) -> bool {
        self.pool.is_empty()
    }

    /// Whether it has only sessions that could not be ended so far.
    pub(in crate::machine) fn is_held_up(&self) -> bool {
        self.pool.is_held_up()
    }
}
