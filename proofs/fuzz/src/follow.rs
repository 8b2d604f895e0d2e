//! A mangled Consul for a [`Follow`]: see `drive`. At the end it has to show the content of
//! Consul's key, or that the key belongs to something else.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use semaphore_core::sans_io::{
    CommandId, Event, Follow, Instant, Machine, Method, Request, RequestId, Response, Transmit,
    TransportError,
};
use semaphore_core::{Conflict, Error, LeaderEvent, LeaderStatus, LockKey, SessionId};
use transport_mock::consul::Consul;

use crate::ceiling::Ceiling;
use crate::choices::Choices;
use crate::drive::drive;
use crate::oracle::{check_line, check_text, path};
use crate::stranger::{self, KEY};
use crate::subject::{Subject, TOKEN, Wait, scope};

/// Plays the input.
pub fn run(input: &[u8]) {
    let mut choices = Choices::new(input);
    let seed = choices.number() & 0xff;
    drive(Watcher::new(seed), seed, &mut choices);
}

/// A follower with its oracle.
pub(crate) struct Watcher {
    follower: Follower,
    requests: Ceiling,
}

/// A follower as a machine that takes no commands.
#[derive(Debug)]
pub(crate) struct Follower {
    follow: Follow,
    /// The last status that it reported.
    told: Option<LeaderStatus>,
    trouble: Option<Trouble>,
    errors: VecDeque<Error>,
}

/// The last problem that it reported.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Trouble {
    Interrupted,
    Refused,
    Conflict(Conflict),
}

impl Watcher {
    pub(crate) fn new(seed: u64) -> Self {
        let key = LockKey::new(KEY).expect("a key");
        Self {
            follower: Follower {
                follow: Follow::new(key, scope(), seed),
                told: None,
                trouble: None,
                errors: VecDeque::new(),
            },
            requests: Ceiling::new(10, Duration::from_millis(100)),
        }
    }
}

impl Subject for Watcher {
    type Machine = Follower;

    const MOST_OPEN: usize = 1;

    fn machine(&self) -> &Follower {
        &self.follower
    }

    fn machine_mut(&mut self) -> &mut Follower {
        &mut self.follower
    }

    fn check(&mut self, now: Instant, request: &Request) {
        self.requests.take(now);
        check_line(request);
        assert_eq!(request.method(), Method::Get);
        assert_eq!(path(request), format!("/v1/kv/{KEY}"));
    }

    fn show(&mut self, _: &Request, _: &Response) {}

    fn granted(&mut self, grant: &Infallible) -> Vec<SessionId> {
        match *grant {}
    }

    fn ask(&mut self, _: Instant, _: u32, _: Wait) -> Result<CommandId, Error> {
        Err(semaphore_core::error::ClosedBy::Owner.into())
    }

    fn change(
        &mut self,
        _: Instant,
        _: &mut Choices<'_>,
        _: Option<CommandId>,
    ) -> Option<CommandId> {
        None
    }

    fn disturb(way: usize, now: Instant, consul: &mut Consul, choices: &mut Choices<'_>) {
        stranger::disturb(way, now, consul, choices);
    }

    fn tidy(_: Instant, _: &mut Consul) {}

    /// Whether it shows Consul's content.
    fn is_at_rest(&self, consul: &Consul) -> bool {
        let Some(current) = self.follower.follow.current() else {
            return matches!(self.follower.trouble, Some(Trouble::Conflict(_)));
        };
        let entry = consul.entry(KEY);
        let session = entry.and_then(|entry| entry.session());
        let value = entry.map(|entry| entry.value().to_vec());
        let is_current = match current {
            LeaderStatus::Led(leader) => {
                Some(leader.session.as_str()) == session
                    && Some(&leader.value) == value.as_ref()
                    && entry.is_some_and(|entry| entry.lock_index() == leader.lock_index)
            }
            LeaderStatus::Leaderless { last_value } => session.is_none() && *last_value == value,
        };
        is_current && self.follower.trouble.is_none()
    }
}

impl Follower {
    /// Each event must say something new.
    fn take(&mut self, event: Result<LeaderEvent, Error>) {
        match event {
            Ok(LeaderEvent::Elected(leader)) => {
                let former = self.told.as_ref().and_then(LeaderStatus::leader);
                assert!(former.is_none_or(|former| !former.is_same_term(&leader)));
                self.told = Some(LeaderStatus::Led(leader));
            }
            Ok(LeaderEvent::ValueChanged(leader)) => {
                let former = self.told.as_ref().and_then(LeaderStatus::leader);
                let former = former.expect("a leader that says something else");
                assert!(former.is_same_term(&leader) && former.value != leader.value);
                self.told = Some(LeaderStatus::Led(leader));
            }
            Ok(LeaderEvent::Leaderless { last_value }) => {
                let told = Some(LeaderStatus::Leaderless { last_value });
                assert_ne!(self.told, told);
                self.told = told;
            }
            Ok(LeaderEvent::Interrupted(error)) => {
                self.meet(Trouble::Interrupted);
                self.errors.push_back(error.into());
            }
            Ok(LeaderEvent::Resumed) => assert!(self.trouble.take().is_some()),
            Ok(_) => {}
            Err(error) => {
                let trouble = match &error {
                    Error::NotAnElection { conflict, .. } => {
                        self.told = None;
                        Trouble::Conflict(conflict.clone())
                    }
                    _ => Trouble::Refused,
                };
                self.meet(trouble);
                self.errors.push_back(error);
            }
        }
    }

    /// Each problem must be reported once.
    fn meet(&mut self, trouble: Trouble) {
        assert_ne!(self.trouble.as_ref(), Some(&trouble));
        self.trouble = Some(trouble);
    }
}

impl Machine for Follower {
    type Grant = Infallible;

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        while let Some(event) = self.follow.poll_event() {
            self.take(event);
        }
        assert_eq!(self.follow.current(), self.told.as_ref());
        assert_eq!(self.follow.is_interrupted(), self.trouble.is_some());
        for error in self.errors.drain(..) {
            assert!(!check_text(&error).contains(TOKEN), "{error}");
        }
        self.follow.poll_transmit(now)
    }

    fn poll_abort(&mut self) -> Option<RequestId> {
        None
    }

    fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: Result<Response, TransportError>,
    ) {
        self.follow.handle_response(now, id, &result);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.follow.poll_timeout()
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_event(&mut self) -> Option<Event<Infallible>> {
        None
    }

    fn close(&mut self, _: Instant) {}

    fn is_idle(&self) -> bool {
        false
    }

    fn cancel(&mut self, _: Instant, _: CommandId) {}

    fn release(&mut self, _: Instant, _: CommandId) {}

    fn is_held(&self, _: Instant, _: CommandId) -> bool {
        false
    }

    fn deadline(&self, _: CommandId) -> Option<Instant> {
        None
    }
}
