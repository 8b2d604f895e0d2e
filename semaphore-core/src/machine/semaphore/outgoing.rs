//! What is sent next: the order of the machines that have something to send.

use crate::http::{Method, Priority, Request};
use crate::machine::contract::Transmit;
use crate::machine::process::encoding::Encoding;
use crate::machine::process::service::Service;
use crate::machine::semaphore::admission::ContenderNo;
use crate::machine::semaphore::contender::{Contender, Part};
use crate::machine::semaphore::{From, InFlight, Participant};
use crate::time::Instant;

impl Participant {
    /// The next request to send at `now`, if there is one.
    pub(super) fn transmit(&mut self, now: Instant) -> Option<Transmit> {
        if self.rests_until().is_some_and(|until| now < until) {
            return None;
        }
        let (from, request) = self
            .transmit_renewal(now)
            .or_else(|| self.transmit_write())
            .or_else(|| self.transmit_read(now))
            .or_else(|| self.transmit_contender(now))
            .or_else(|| self.transmit_poll(now))?;
        // A node is registered by a transaction either way.
        let encoding = match from {
            From::Contender(_, Part::Session(_)) => Encoding::Requests,
            _ => Encoding::of(&request),
        };
        let service = match from {
            From::Watch if self.watch.is_looking_ahead() => Service::Inquiries,
            From::Watch | From::Refresh => Service::Reads,
            From::Vanished => Service::Inquiries,
            From::Ledger => Service::Records,
            From::Contender(_, Part::Key) => Service::Keys,
            From::Contender(_, Part::Session(_)) if request.method() == Method::Get => {
                Service::Inquiries
            }
            From::Contender(_, Part::Session(_)) => Service::Sessions,
        };
        let sent_at = now;
        let id = self.requests.sent(InFlight {
            from,
            encoding,
            sent_at,
            service,
        });
        let patience = self.requests.patience(self.settings.request_timeout());
        let request = request.answered_within(patience);
        Some(Transmit { id, request })
    }

    fn transmit_renewal(&mut self, now: Instant) -> Option<(From, Request)> {
        if self.renewals() >= MAX_RENEWALS_IN_FLIGHT {
            return None;
        }
        // Where they can't all be sent in time, nobody's lease may end for being last in the list.
        let no = self.roster.most_urgent(now)?;
        self.transmit_from(now, no)
    }

    fn transmit_write(&mut self) -> Option<(From, Request)> {
        if self.short_requests() >= MAX_IN_FLIGHT {
            return None;
        }
        let request = self.write()?;
        Some((From::Ledger, request))
    }

    fn transmit_read(&mut self, now: Instant) -> Option<(From, Request)> {
        if self.short_requests() >= MAX_IN_FLIGHT {
            return None;
        }
        let is_there = |it: &&Contender| it.key_index().is_some();
        let own = self.roster.all().find(is_there);
        let own = own.and_then(Contender::session_id);
        if let Some(request) = self.vanished.transmit(now, own, &self.settings) {
            return Some((From::Vanished, request));
        }
        let request = self.watch.transmit_refresh(now, &self.settings)?;
        Some((From::Refresh, request))
    }

    /// Last of all: whoever sends one request after the other is held up by it.
    fn transmit_poll(&mut self, now: Instant) -> Option<(From, Request)> {
        if self.watch.is_polling() {
            return None;
        }
        // Something may have been sent since that tells as much.
        let from = self.watch_from(now);
        self.watch.want_from(from);
        let request = self.watch.transmit(now, &self.settings)?;
        let priority = if request.is_long_poll() {
            self.priority_of_poll(now)
        } else {
            request.priority()
        };
        Some((From::Watch, request.with_priority(priority)))
    }

    /// Whoever is next has most use for what a poll tells. Who only holds has its lease.
    fn priority_of_poll(&self, now: Instant) -> Priority {
        let ahead = match self.knowledge.newest() {
            _ if self.callers.queue().is_empty() => u32::MAX,
            Some(observed) => self.next_ahead(now, observed).map_or(0, |(_, rank)| rank),
            None => 0,
        };
        Priority::Poll { ahead }
    }

    fn transmit_contender(&mut self, now: Instant) -> Option<(From, Request)> {
        if self.short_requests() >= MAX_IN_FLIGHT {
            return None;
        }
        let holds_back = self.first_view_until().is_some_and(|until| now < until);
        let may_create = self.requests.orphans().may_create(now);
        let may_send = |contender: &Contender| {
            !(holds_back && contender.is_newcomer(now))
                && (may_create || !contender.wants_creation())
        };
        let due = self.roster.due(now).filter(|(_, it)| may_send(it));
        let no = due.map(|(no, _)| no).min()?;
        if self.roster.get(no).is_some_and(Contender::wants_creation) {
            let ttl = self.settings.session.ttl();
            self.requests.orphans_mut().asked(now, ttl);
        }
        self.transmit_from(now, no)
    }

    fn transmit_from(&mut self, now: Instant, no: ContenderNo) -> Option<(From, Request)> {
        let (part, request) = self.roster.transmit(now, no, &self.settings)?;
        Some((From::Contender(no, part), request))
    }

    /// The watch's poll does not count: it is held open. Nor do renewals of what is held, some of which may wait for a
    /// slow answer while everything else goes on.
    fn short_requests(&self) -> usize {
        let all = self.requests.under_way();
        all.filter(|it| it.from != From::Watch && !self.is_of_hold(it))
            .count()
    }

    fn renewals(&self) -> usize {
        let all = self.requests.under_way();
        all.filter(|it| self.is_of_hold(it)).count()
    }

    fn is_of_hold(&self, request: &InFlight) -> bool {
        let From::Contender(no, Part::Session(_)) = request.from else {
            return false;
        };
        let contender = self.roster.get(no);
        contender.is_some_and(Contender::is_held)
    }
}

/// How many short requests a participant has under way at most, and how many renewals of what is held beside them: those must
/// not queue behind others, and each is two requests, one after the other.
const MAX_IN_FLIGHT: usize = 8;
const MAX_RENEWALS_IN_FLIGHT: usize = 24;
