//! The sessions of elections, which keep the former pool, and those of semaphores.

use crate::http::Response;
use crate::id::RequestId;
use crate::machine::contract::Transmit;
use crate::machine::process::outage::RequestEnd;
use crate::machine::process::tenancy::loan::{LoanNews, LoanWish};
use crate::machine::process::tenancy::pool;
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::machine::process::tenancy::tenant::{MemberNo, Place};
use crate::machine::sessions;
use crate::time::Instant;
use crate::transport::TransportError;

#[derive(Clone, Debug)]
pub(super) enum Pool {
    Elections(Box<pool::Pool>),
    Semaphores(Box<sessions::Pool>),
}

macro_rules! of_both {
    ($self:ident, $pool:ident => $what:expr) => {
        match $self {
            Self::Elections($pool) => $what,
            Self::Semaphores($pool) => $what,
        }
    };
}

impl Pool {
    pub(super) fn new(settings: SessionSettings, place: &Place, seed: u64) -> Self {
        if place.starts_with('/') {
            Self::Elections(Box::new(pool::Pool::new(settings, seed)))
        } else {
            Self::Semaphores(Box::new(sessions::Pool::new(settings, seed)))
        }
    }

    pub(super) fn settings(&self) -> &SessionSettings {
        of_both!(self, it => it.settings())
    }

    pub(super) fn reseed(&mut self, seed: u64) {
        of_both!(self, it => it.reseed(seed));
    }

    pub(super) fn is_empty(&self) -> bool {
        of_both!(self, it => it.is_empty())
    }

    pub(super) fn is_held_up(&self) -> bool {
        match self {
            Self::Elections(it) => it.is_empty(),
            Self::Semaphores(it) => it.is_held_up(),
        }
    }

    pub(super) fn close(&mut self, now: Instant) {
        of_both!(self, it => it.close(now));
    }

    pub(super) fn handle_wish(
        &mut self,
        now: Instant,
        member: MemberNo,
        place: &Place,
        wish: &LoanWish,
    ) {
        of_both!(self, it => it.handle_wish(now, member, place, wish));
    }

    pub(super) fn poll_news(&mut self) -> Option<(MemberNo, LoanNews)> {
        of_both!(self, it => it.poll_news())
    }

    pub(super) fn has_news(&self) -> bool {
        of_both!(self, it => it.has_news())
    }

    pub(super) fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        of_both!(self, it => it.poll_transmit(now))
    }

    pub(super) fn poll_abort(&mut self) -> Option<RequestId> {
        of_both!(self, it => it.poll_abort())
    }

    pub(super) fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: &Result<Response, TransportError>,
    ) -> Option<RequestEnd> {
        of_both!(self, it => it.handle_response(now, id, result))
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        of_both!(self, it => it.poll_timeout())
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        of_both!(self, it => it.handle_timeout(now));
    }
}
