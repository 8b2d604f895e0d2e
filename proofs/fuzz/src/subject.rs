//! What a target drives: a machine, its possible commands, and its allowed requests.

use core::fmt;
use std::collections::BTreeMap;

use semaphore_core::sans_io::{CommandId, Instant, Machine, Request, Response};
use semaphore_core::{Error, Scope, SessionId, Token};
use transport_mock::RequestKind;
use transport_mock::consul::Consul;

use crate::choices::Choices;

/// A machine under the fuzzer, and what judges it.
pub(crate) trait Subject: Sized {
    type Machine: Machine + fmt::Debug;

    /// More requests than it ever has a reason to leave open, beside those that keep a session.
    const MOST_OPEN: usize;

    fn machine(&self) -> &Self::Machine;
    fn machine_mut(&mut self) -> &mut Self::Machine;

    /// It is about to send a request.
    fn check(&mut self, now: Instant, request: &Request);
    /// An answer is about to be delivered.
    fn show(&mut self, request: &Request, response: &Response);
    /// A command was granted this: the sessions whose leases it rests on.
    fn granted(&mut self, grant: &<Self::Machine as Machine>::Grant) -> Vec<SessionId>;

    /// Somebody wants what the machine is for.
    fn ask(&mut self, now: Instant, permits: u32, wait: Wait) -> Result<CommandId, Error>;
    /// Somebody wants something changed; `known` may be what they hold.
    fn change(
        &mut self,
        now: Instant,
        choices: &mut Choices<'_>,
        known: Option<CommandId>,
    ) -> Option<CommandId>;
    /// What others do to the machine's keys, in one of four ways.
    fn disturb(way: usize, now: Instant, consul: &mut Consul, choices: &mut Choices<'_>);
    /// What it can't cope with is taken away, before it has to come to rest.
    fn tidy(now: Instant, consul: &mut Consul);

    /// Whether it has nothing left to do, and knows what is so.
    fn is_at_rest(&self, _consul: &Consul) -> bool {
        self.machine().is_idle()
    }
}

/// So many renewals of a session may be open, and so many questions for it.
const MOST_OF_A_SESSION: usize = 5;

/// Fails if a machine has left too many requests open.
pub(crate) fn check_open<'r, S: Subject>(open: impl Iterator<Item = &'r Request>) {
    let mut of_sessions = BTreeMap::new();
    let mut others = 0;
    for request in open {
        if let RequestKind::SessionRenew | RequestKind::SessionRead = RequestKind::of(request) {
            *of_sessions.entry(request.target()).or_insert(0) += 1;
        } else {
            others += 1;
        }
    }
    assert!(others <= S::MOST_OPEN, "{others} open");
    for (target, open) in of_sessions {
        assert!(open <= MOST_OF_A_SESSION, "{open} open of {target}");
    }
}

/// How long somebody waits for what they ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    Not,
    Until(Instant),
    Forever,
}

/// What every request carries.
pub(crate) fn scope() -> Scope {
    Scope::new().with_token(Token::new(TOKEN).expect("a token"))
}

/// What nobody may read anywhere.
pub(crate) const TOKEN: &str = "f7c4d1e2-hide-me-0a9b8c7d6e5f";
