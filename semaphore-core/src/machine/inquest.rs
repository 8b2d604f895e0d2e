//! Whether a holder whose contender key the view does not show is dead, or only hidden.
//!
//! A list leaves out what the token may not read: Consul 1.11 and newer say so, older ones don't, and to
//! them a hidden holder looks like a dead one. Read alone, a hidden key is refused and a missing one is
//! not found, so each suspect is read alone before it is pruned (invariant S3). Only a restored
//! snapshot brings sessions back, and it interrupts every poll: until then, the dead need to be
//! asked for only once.

use core::time::Duration;
use std::collections::BTreeSet;

use super::backoff::Backoff;
use super::settings::Settings;
use crate::api::ReadKey;
use crate::error::RequestError;
use crate::http::{Request, Response};
use crate::id::SessionId;
use crate::record::Record;
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(super) struct Inquest {
    suspects: BTreeSet<SessionId>,
    in_flight: Option<SessionId>,
    /// What is in flight was asked for before an interruption.
    is_outdated: bool,
    dead: BTreeSet<SessionId>,
    retry_at: Option<Instant>,
    backoff: Backoff,
}

/// What a read of a suspect's key says.
#[derive(Debug)]
pub(super) enum Finding {
    /// It is dead, or lives after all and the next view will show it.
    Settled,
    /// It may not be seen.
    Hidden,
    /// Nothing is known yet.
    Failed(RequestError),
}

impl Inquest {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            suspects: BTreeSet::new(),
            in_flight: None,
            is_outdated: false,
            dead: BTreeSet::new(),
            retry_at: None,
            backoff: Backoff::new(Duration::from_millis(100), settings.retry_cap()),
        }
    }

    /// Who must be asked for now, in place of all before.
    pub(super) fn open(&mut self, suspects: BTreeSet<SessionId>) {
        self.suspects = suspects;
        if self.suspects.is_empty() {
            self.retry_at = None;
            self.backoff.reset();
        }
    }

    /// The poll was interrupted: who was dead before may not be any more.
    pub(super) fn forget(&mut self) {
        self.dead.clear();
        self.is_outdated = self.in_flight.is_some();
    }

    /// Forgets the dead that nobody takes for holders any more, however the record spells them.
    pub(super) fn bury(&mut self, record: &Record) {
        if self.dead.is_empty() {
            return;
        }
        let holders: BTreeSet<_> = record
            .holders()
            .filter_map(|holder| SessionId::new(holder).ok())
            .collect();
        self.dead.retain(|session| holders.contains(session));
    }

    /// Who is certainly dead.
    pub(super) fn dead(&self) -> &BTreeSet<SessionId> {
        &self.dead
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        let is_idle = self.in_flight.is_some() || self.suspects.is_empty();
        (!is_idle).then(|| self.retry_at.unwrap_or(Instant::ORIGIN))
    }

    pub(super) fn transmit(&mut self, now: Instant, settings: &Settings) -> Option<Request> {
        if self.timeout().is_none_or(|at| at > now) {
            return None;
        }
        let session = self.suspects.first()?.clone();
        let key = &settings.prefix.contender_key(&session);
        let read = ReadKey {
            key,
            wait: None,
            consistent: true,
        }
        .request(settings.scope());
        self.in_flight = Some(session);
        self.retry_at = None;
        Some(read.with_timeout(settings.request_timeout()))
    }

    pub(super) fn handle(
        &mut self,
        now: Instant,
        answer: Result<&Response, RequestError>,
        rng: &mut fastrand::Rng,
    ) -> Finding {
        let Some(session) = self.in_flight.take() else {
            return Finding::Settled;
        };
        let is_outdated = core::mem::take(&mut self.is_outdated);
        match answer.and_then(ReadKey::parse) {
            // It stays a suspect, and is asked for again at once.
            Ok(_) if is_outdated => Finding::Settled,
            Ok(found) => {
                self.suspects.remove(&session);
                let is_tied = found.is_some_and(|key| key.session() == Some(session.as_str()));
                if is_tied {
                    // It stays a suspect until a view shows it.
                    self.retry_at = Some(now + self.backoff.next(rng));
                } else {
                    self.backoff.reset();
                    self.dead.insert(session);
                }
                Finding::Settled
            }
            Err(RequestError::Denied { .. }) => {
                self.suspects.clear();
                // It stays a suspect in every view.
                self.retry_at = Some(now + self.backoff.next(rng));
                Finding::Hidden
            }
            Err(error) => {
                self.retry_at = Some(now + self.backoff.next(rng));
                Finding::Failed(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prefix;

    const SESSION: &str = "aaaaaaaa-0000-0000-0000-000000000000";

    fn finding(answer: Result<&Response, RequestError>) -> (Finding, Inquest) {
        let settings = Settings::new(Prefix::new("jobs").unwrap(), 1).unwrap();
        let now = Instant::from_origin(Duration::from_secs(1));
        let mut inquest = Inquest::new(&settings);
        assert!(inquest.transmit(now, &settings).is_none(), "no suspects");
        inquest.open(BTreeSet::from([SessionId::new(SESSION).unwrap()]));
        let read = inquest.transmit(now, &settings).unwrap();
        assert_eq!(read.target(), format!("/v1/kv/jobs/{SESSION}?consistent"));
        assert!(inquest.transmit(now, &settings).is_none(), "one at a time");
        let mut rng = fastrand::Rng::with_seed(1);
        (inquest.handle(now, answer, &mut rng), inquest)
    }

    fn found(session: &str) -> Response {
        let body = format!(r#"[{{"Key":"jobs/{SESSION}","Session":"{session}"}}]"#);
        Response::new(200, body)
    }

    #[test]
    fn whose_key_is_missing_or_not_tied_to_it_is_dead() {
        let missing = Response::new(404, "").with_header("X-Consul-Index", "9");
        for answer in [missing, found("")] {
            let (finding, inquest) = finding(Ok(&answer));
            assert!(matches!(finding, Finding::Settled));
            assert_eq!(inquest.dead().len(), 1);
            assert_eq!(inquest.timeout(), None);
        }
    }

    #[test]
    fn whose_key_is_tied_to_it_lives() {
        let (finding, inquest) = finding(Ok(&found(SESSION)));
        assert!(matches!(finding, Finding::Settled));
        assert!(inquest.dead().is_empty());
    }

    #[test]
    fn who_may_not_be_seen_is_hidden_and_not_dead() {
        let (finding, inquest) = finding(Ok(&Response::new(403, "Permission denied")));
        assert!(matches!(finding, Finding::Hidden));
        assert!(inquest.dead().is_empty());
    }

    #[test]
    fn a_failure_decides_nothing_and_is_tried_again_later() {
        for answer in [
            Response::new(500, "No cluster leader"),
            Response::new(404, "<html>"),
        ] {
            let (finding, inquest) = finding(Ok(&answer));
            assert!(matches!(finding, Finding::Failed(_)));
            assert!(inquest.dead().is_empty());
            assert!(
                inquest
                    .timeout()
                    .is_some_and(|at| at > Instant::from_origin(Duration::from_secs(1)))
            );
        }
    }

    #[test]
    fn it_is_tried_again_at_its_time_and_not_before() {
        let (_, mut inquest) = finding(Ok(&Response::new(500, "No cluster leader")));
        let settings = Settings::new(Prefix::new("jobs").unwrap(), 1).unwrap();
        let due = inquest.timeout().unwrap();
        let early = due - Duration::from_nanos(1);
        assert!(inquest.transmit(early, &settings).is_none());
        assert!(inquest.transmit(due, &settings).is_some());
    }

    #[test]
    fn an_interrupted_poll_makes_the_dead_suspects_again_and_an_answer_under_way_worthless() {
        let missing = Response::new(404, "").with_header("X-Consul-Index", "9");
        let (_, mut inquest) = finding(Ok(&missing));
        inquest.forget();
        assert!(inquest.dead().is_empty());
        let settings = Settings::new(Prefix::new("jobs").unwrap(), 1).unwrap();
        let now = Instant::from_origin(Duration::from_secs(1));
        let mut rng = fastrand::Rng::with_seed(1);
        inquest.open(BTreeSet::from([SessionId::new(SESSION).unwrap()]));
        inquest.transmit(now, &settings).unwrap();
        inquest.forget();
        inquest.handle(now, Ok(&missing), &mut rng);
        assert!(inquest.dead().is_empty());
        inquest.transmit(now, &settings).unwrap();
        inquest.handle(now, Ok(&missing), &mut rng);
        assert_eq!(inquest.dead().len(), 1);
    }

    #[test]
    fn the_dead_are_forgotten_with_their_place_in_the_record() {
        let (_, mut inquest) = finding(Ok(&found("")));
        let mut record = Record::new(1);
        record.add(SESSION);
        inquest.bury(&record);
        assert_eq!(inquest.dead().len(), 1);
        inquest.bury(&Record::new(1));
        assert!(inquest.dead().is_empty());
    }
}
