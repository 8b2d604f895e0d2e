//! What a target drives: a machine, its possible commands, and its allowed requests.

use core::fmt;
use std::collections::BTreeMap;

use semaphore_core::sans_io::api::CreateSession;
use semaphore_core::sans_io::{CommandId, Instant, Machine, Request, Response};
use semaphore_core::{Error, Scope, SessionId, Token};
use transport_mock::RequestKind;
use transport_mock::consul::Consul;

use crate::choices::Choices;

/// A fuzzed machine with its oracle.
pub(crate) trait Subject: Sized {
    type Machine: Machine + fmt::Debug;

    /// More open requests than it ever needs, without those that keep sessions.
    const MOST_OPEN: usize;

    fn machine(&self) -> &Self::Machine;
    fn machine_mut(&mut self) -> &mut Self::Machine;

    /// Called before the machine sends a request.
    fn check(&mut self, now: Instant, request: &Request);
    /// Called before an answer is delivered.
    fn show(&mut self, request: &Request, response: &Response);
    /// Called for a grant. Returns the sessions whose leases it needs.
    fn granted(&mut self, grant: &<Self::Machine as Machine>::Grant) -> Vec<SessionId>;

    /// A caller wants a slot, or wants to lead.
    fn ask(&mut self, now: Instant, permits: u32, wait: Wait) -> Result<CommandId, Error>;
    /// A caller wants a change. `known` may be its hold.
    fn change(
        &mut self,
        now: Instant,
        choices: &mut Choices<'_>,
        known: Option<CommandId>,
    ) -> Option<CommandId>;
    /// Others change the machine's keys in one of four ways.
    fn disturb(way: usize, now: Instant, consul: &mut Consul, choices: &mut Choices<'_>);
    /// Removes what the machine can't handle, before it must come to rest.
    fn tidy(now: Instant, consul: &mut Consul);

    /// Whether it has nothing left to do, and knows the present state.
    fn is_at_rest(&self, _consul: &Consul) -> bool {
        self.machine().is_idle()
    }
}

/// The most renewals of one session that may be open, and the most proofs: at the end of a lease one in
/// each fortieth of the TTL. After slow answers they are waited for two fifths of it, both ends included.
pub(crate) const MOST_UNANSWERED: usize = 17;

/// How many contenders were told each session. An odd server tells one session to several.
#[derive(Default)]
pub(crate) struct Told(BTreeMap<SessionId, usize>);

impl Told {
    /// Called before an answer is delivered.
    pub(crate) fn show(&mut self, request: &Request, response: &Response) {
        if RequestKind::of(request) == RequestKind::SessionCreate
            && let Ok(session) = CreateSession::parse(response)
        {
            *self.0.entry(session).or_insert(0) += 1;
        }
    }

    /// Fails if a machine has left too many requests open.
    pub(crate) fn check_open<'r, S: Subject>(&self, open: impl Iterator<Item = &'r Request>) {
        let mut of_sessions = BTreeMap::new();
        let mut others = 0;
        for request in open {
            if RequestKind::of(request) == RequestKind::SessionRenew {
                *of_sessions.entry(request.target()).or_insert(0) += 1;
            } else {
                others += 1;
            }
        }
        assert!(others <= S::MOST_OPEN, "{others} open");
        for (target, open) in of_sessions {
            let mut told = self.0.iter();
            let told = told.find(|(session, _)| target.contains(session.as_str()));
            let most = MOST_UNANSWERED * told.map_or(1, |(_, times)| *times);
            assert!(open <= most, "{open} open of {target}");
        }
    }
}

/// How long a caller waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    Not,
    Until(Instant),
    Forever,
}

/// The scope of every request.
pub(crate) fn scope() -> Scope {
    Scope::new().with_token(Token::new(TOKEN).expect("a token"))
}

/// A secret that must not appear anywhere.
pub(crate) const TOKEN: &str = "f7c4d1e2-hide-me-0a9b8c7d6e5f";
