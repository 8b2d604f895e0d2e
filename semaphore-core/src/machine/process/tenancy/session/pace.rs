//! When the next request of a session is due.
//!
//! - Who waits renews after a quarter to a third of the lease, and after half of that while answers
//!   are slow: a slot that is granted may begin with an old lease.
//! - Who holds or leads renews after a sixteenth to a twelfth, whatever became of the last renewal.
//! - If nothing is answered in time, an agent may hold the requests that were given up. So fewer
//!   are sent, but at the times that matter.
//! - The question that confirms a renewal follows its answer. If answers are slow, it goes along
//!   with the renewal.

use core::time::Duration;

use super::{InFlight, Purpose, Session, State};
use crate::defect::{Defect, is_on};
use crate::machine::process::latency::Latency;
use crate::machine::process::tenancy::lease::Lease;
use crate::machine::process::tenancy::loan::Belief;
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::time::Instant;

/// The most renewals of a held session under way, and the most reads that confirm them. A silent
/// agent, or one that needs a third of the TTL for an answer, must not delay the next one. Each is
/// waited for at most two fifths of the TTL, and the next one is due after a sixteenth to a
/// twelfth.
const MOST_IN_FLIGHT: usize = 6;

/// The same for a waiter, which only has to keep its place.
const MOST_OF_WAITER: usize = 2;

/// After a failure a held session is renewed again within this part of its TTL, so that a renewal
/// after an outage is in time.
const HELD_RETRY: u32 = 30;

/// The same for the question that confirms a renewal, in the last third of the lease: where others
/// use up what Consul's request limits allow, those who ask more often get an answer sooner.
const LAST_RETRY: u32 = 120;

impl Session {
    /// Whether a request of this session is due.
    pub(in crate::machine) fn is_due(&self, now: Instant) -> bool {
        self.timeout().is_some_and(|due| due <= now)
    }

    /// When a request is due, unless one under way must come first.
    pub(in crate::machine) fn timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Creating | State::Registering | State::Destroying(_) => {
                let retry = self.retry_at.unwrap_or(Instant::ORIGIN);
                self.in_flight.is_empty().then_some(retry)
            }
            State::Live(_, lease) => {
                let is_renewal = |it: &InFlight| matches!(it.sent, Purpose::Renewal);
                let usual = || self.retry_at.unwrap_or_else(|| self.renew_at(lease));
                let due = self.renew_in_silence_at(lease).unwrap_or_else(usual);
                let renewal = self.has_room(is_renewal).then_some(due);
                renewal.into_iter().chain(self.inquire_at()).min()
            }
            State::Gone(_) | State::Ended => None,
        }
    }

    /// When the leader must be asked if the session lives.
    pub(super) fn inquire_at(&self) -> Option<Instant> {
        let retry = self.retry_at.unwrap_or(Instant::ORIGIN);
        self.wants_inquiry().then_some(retry)
    }

    /// Whether the leader must be asked if the session lives: because a renewal says that it does
    /// not, or because a renewal counts only if it does. If answers are slow, the leader is asked
    /// together with the renewal: one after the other they could take longer than the lease.
    fn wants_inquiry(&self) -> bool {
        let is_inquiry = |it: &&InFlight| matches!(it.sent, Purpose::Inquiry);
        let is_renewal = |it: &&InFlight| matches!(it.sent, Purpose::Renewal);
        // Only one at a time while nothing is answered, and for a waiter.
        let is_asking = self.in_flight.iter().any(|it| is_inquiry(&it));
        let is_in_a_hurry = if self.early_from.is_some() {
            self.silent_since
                .is_none_or(|since| self.renewed_at >= since && !is_asking)
        } else {
            let lasts = |lease: &Lease| self.renewed_at < lease.deadline();
            let may_matter = self.belief == Belief::Confirmed && self.lease().is_some_and(lasts);
            may_matter && !is_asking
        };
        let is_in_a_hurry = is_in_a_hurry && self.latency == Latency::Slow;
        let is_in_a_hurry = is_in_a_hurry && !is_on(Defect::RenewalUnconfirmed);
        let renewals = self.in_flight.iter().filter(is_renewal);
        let of_holder = renewals.filter(|_| is_in_a_hurry);
        let since = of_holder
            .map(|it| it.sent_at)
            .chain(self.unconfirmed.last().map(Lease::sent_at))
            .filter(|sent| *sent > self.known_at)
            .chain(self.missing)
            .max();
        let is_asked = |since| {
            let mut inquiries = self.in_flight.iter().filter(is_inquiry);
            inquiries.any(|it| it.sent_at >= since)
        };
        self.has_room(|it| is_inquiry(&it)) && since.is_some_and(|since| !is_asked(since))
    }

    pub(super) fn is_doubtful(&self) -> bool {
        !self.unconfirmed.is_empty() || self.missing.is_some()
    }

    /// Whether another request of this kind may be sent.
    fn has_room(&self, of: impl Fn(&InFlight) -> bool) -> bool {
        if is_on(Defect::RenewalsInTurn) {
            return self.in_flight.is_empty();
        }
        let is_held = self.early_from.is_some();
        let most = if is_held {
            MOST_IN_FLIGHT
        } else {
            MOST_OF_WAITER
        };
        self.in_flight.iter().filter(|it| of(it)).count() < most
    }

    /// When the next renewal is due if none fails.
    fn renew_at(&self, lease: &Lease) -> Instant {
        let usual = self.renewed_at + lease.renew_after();
        let early = self.renewed_at + lease.renew_early_after();
        match (self.early_from, self.latency) {
            _ if is_on(Defect::RenewalInAThird) => usual,
            (Some(from), _) => from.max(early).min(usual),
            // A slot that is granted now may begin with a half-used lease.
            (None, Latency::Slow) if !self.is_doubtful() => {
                self.renewed_at + lease.renew_after() / 2
            }
            (None, _) => usual,
        }
    }

    /// When the next renewal is due if nothing is answered: an agent may hold the requests under
    /// way, and those that were given up. A waiter's lease is half over when the first is given up,
    /// so the next one is sent at once, and later ones as soon as the last is given up. In the last
    /// quarter of a holder's lease renewals follow each other closely, so that an outage that ends
    /// in time costs nothing.
    fn renew_in_silence_at(&self, lease: &Lease) -> Option<Instant> {
        let silent_since = self.silent_since?;
        let last = self.renewed_at;
        let last_quarter = lease.deadline() - lease.length() / 4;
        if self.early_from.is_none() {
            Some(if last < silent_since {
                silent_since.max(last + lease.length() / 5)
            } else {
                last + lease.length() / 5 * 2
            })
        } else if last < last_quarter {
            Some((last + lease.length() / 5).min(last_quarter))
        } else {
            Some(last + lease.length() / 20)
        }
    }

    /// The next request comes later.
    pub(super) fn rest(
        &mut self,
        now: Instant,
        settings: &SessionSettings,
        rng: &mut fastrand::Rng,
    ) {
        let most = settings.ttl() / HELD_RETRY;
        self.rest_at_most(most, now, rng);
    }

    /// A question to the leader failed.
    pub(super) fn rest_after_inquiry(
        &mut self,
        now: Instant,
        settings: &SessionSettings,
        rng: &mut fastrand::Rng,
    ) {
        let ends_soon = |lease: &Lease| now + lease.length() / 3 > lease.deadline();
        let retry = match self.lease() {
            Some(lease) if ends_soon(lease) => LAST_RETRY,
            _ => HELD_RETRY,
        };
        self.rest_at_most(settings.ttl() / retry, now, rng);
    }

    /// `most` bounds the wait of a holder.
    fn rest_at_most(&mut self, most: Duration, now: Instant, rng: &mut fastrand::Rng) {
        let rest = self.backoff.next(rng);
        let is_held = self.early_from.is_some();
        self.retry_at = Some(now + if is_held { rest.min(most) } else { rest });
    }
}
