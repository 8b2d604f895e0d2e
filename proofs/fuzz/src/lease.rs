//! Checks that a lease covers each belief (S2). The leases are calculated from the answers,
//! independently of the machine.

use std::collections::BTreeMap;
use std::time::Duration;

use semaphore_core::SessionId;
use semaphore_core::sans_io::api::{CreateSession, RenewSession, Renewed};
use semaphore_core::sans_io::{Instant, Request, Response, SessionOptions};
use transport_mock::RequestKind;

/// The leases of a machine's sessions.
#[derive(Default)]
pub(crate) struct Leases(BTreeMap<SessionId, Lease>);

#[derive(Clone, Copy)]
struct Lease {
    /// The TTL that the session was created with. `None` for a caller's session.
    asked: Option<Duration>,
    /// When belief ends.
    end: Instant,
    /// Whether two sessions have this id, which only a broken agent gives. Then it is unknown which
    /// one an answer is about.
    is_shared: bool,
}

impl Leases {
    /// Must be called before the first answer to a request that was sent at `sent_at`.
    pub(crate) fn answered(&mut self, sent_at: Instant, request: &Request, response: &Response) {
        match RequestKind::of(request) {
            RequestKind::SessionCreate => {
                if let Ok(session) = CreateSession::parse(response) {
                    let asked = ttl_in(request);
                    let known = self.0.get(&session).copied();
                    let length = asked.unwrap_or(Duration::MAX);
                    let end = end(sent_at, length);
                    let lease = Lease {
                        asked,
                        end: known.map_or(end, |known| end.max(known.end)),
                        is_shared: known.is_some(),
                    };
                    self.0.insert(session, lease);
                }
            }
            RequestKind::SessionRenew => {
                let (path, _) = request
                    .target()
                    .split_once('?')
                    .unwrap_or((request.target(), ""));
                let name = path.rsplit('/').next().unwrap_or_default();
                if let (Ok(session), Ok(renewed)) =
                    (SessionId::new(name), RenewSession::parse(response))
                {
                    let lease = self.0.entry(session).or_insert(Lease {
                        asked: None,
                        end: sent_at,
                        is_shared: false,
                    });
                    let end = end(sent_at, length(renewed, lease.asked));
                    lease.end = if lease.is_shared {
                        end.max(lease.end)
                    } else {
                        end
                    };
                }
            }
            _ => {}
        }
    }

    /// Checks a belief at `now` in a hold of these sessions. `deadline` is the end that the machine
    /// reports.
    pub(crate) fn check(&self, now: Instant, deadline: Option<Instant>, sessions: &[SessionId]) {
        for session in sessions {
            let lease = self.0.get(session).expect("a belief without a session");
            let end = lease.end;
            assert!(now < end, "believes at {now}, lease over at {end}");
            let deadline = deadline.expect("a belief without an end");
            assert!(
                deadline <= end,
                "believes until {deadline}, lease over at {end}"
            );
        }
    }
}

/// The last tenth of the lease is not used, and no lock delay covers more than a minute.
fn end(sent_at: Instant, length: Duration) -> Instant {
    let length = length.min(SessionOptions::MAX_LOCK_DELAY);
    sent_at + length - length / 10
}

/// The time that the lock delay covers. For a session that we created, it is the TTL. For a
/// caller's session it is what the agent says, unless renewals could not keep such a short lease.
fn length(renewed: Renewed, asked: Option<Duration>) -> Duration {
    let told = renewed.ttl.unwrap_or(Duration::MAX);
    let delay = renewed
        .lock_delay
        .unwrap_or(SessionOptions::DEFAULT_LOCK_DELAY);
    match asked {
        Some(asked) => told.min(asked),
        None if delay < SessionOptions::MIN_TTL => told,
        None => told.min(delay),
    }
}

/// The TTL in a session's creation, in whole seconds.
fn ttl_in(request: &Request) -> Option<Duration> {
    let body: serde_json::Value = serde_json::from_slice(request.body()).ok()?;
    let seconds = body["TTL"].as_str()?.strip_suffix('s')?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}
