//! Checks that a lease covers each belief (S2). The leases are calculated from the answers,
//! independently of the machine.

use std::collections::BTreeMap;
use std::time::Duration;

use semaphore_core::SessionId;
use semaphore_core::sans_io::api::{CreateSession, RenewSession};
use semaphore_core::sans_io::{Instant, Request, Response, SessionOptions};
use transport_mock::RequestKind;

/// The leases of a machine's sessions.
#[derive(Default)]
pub(crate) struct Leases(BTreeMap<SessionId, Lease>);

#[derive(Clone, Copy)]
struct Lease {
    /// The TTL that the session was created with.
    asked: Duration,
    /// When its last creation or renewal that was answered had been sent.
    sent_at: Instant,
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
                    let asked = ttl_in(request).expect("the TTL of our session");
                    let known = self.0.get(&session).copied();
                    let end = end(sent_at, asked);
                    let lease = Lease {
                        asked,
                        sent_at,
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
                    && let Some(lease) = self.0.get_mut(&session)
                {
                    let told = renewed.ttl.unwrap_or(Duration::MAX);
                    let end = end(sent_at, told.min(lease.asked));
                    if lease.is_shared {
                        lease.end = end.max(lease.end);
                    } else if sent_at >= lease.sent_at {
                        // An answer to an earlier renewal may come later.
                        (lease.sent_at, lease.end) = (sent_at, end);
                    }
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

/// The TTL in a session's creation, in whole seconds.
fn ttl_in(request: &Request) -> Option<Duration> {
    let body: serde_json::Value = serde_json::from_slice(request.body()).ok()?;
    let seconds = body["TTL"].as_str()?.strip_suffix('s')?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}
