//! What Consul has served before and refuses now (L4).
//!
//! ```text
//!            served                      refused                      for longer than a lease lasts
//!  (unknown) ──────▶ Served ─────────────────────────▶ RefusedSince ──────────────────────────────▶ told at once
//!      │ refused       ▲                                  │    │ refused: it may pass
//!      ▼               └──────────────────────────────────┘    ▼
//!  told at once                    served                  retried
//! ```
//! A token is missing for some seconds while it is rotated. A gateway answers in Consul's place
//! with 403, 404 or 413 while its backend is away. A holder waits for the time of its lease, and so
//! does a waiter. A refusal at first use is a mistake, and is reported at once.
//!
//! An agent's answer to an unknown token, 403 `ACL not found`, is the same on 1.8.7 and 1.23,
//! whether or not it will pass.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::api::{is_denied, refusal};
use crate::error::RequestError;
use crate::http::Response;
use crate::time::Instant;

/// Something that needs a separate permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::machine) enum Service {
    /// Creating, renewing, reading and ending our sessions. The permission to write includes
    /// reading.
    Sessions,
    /// Reading what is waited for.
    Reads,
    /// Writing a contender's key.
    Keys,
    /// Writing the record, or an election's key.
    Records,
    /// Reading what belongs to others: if that is hidden, it stays hidden. Polling, too: who may list
    /// a prefix need not be able to read each of its keys.
    Inquiries,
    /// Sending several operations at once: an agent or a proxy may not serve transactions.
    Transactions,
}

/// How the services have fared, while somebody needs them.
#[derive(Clone, Debug, Default)]
pub(in crate::machine) struct Services {
    known: BTreeMap<Service, Standing>,
}

#[derive(Clone, Copy, Debug)]
enum Standing {
    Served,
    RefusedSince(Instant),
}

impl Services {
    /// The answer with its meaning: what was served before, and is refused for less than
    /// `patience`, is not available now.
    pub(in crate::machine) fn judge<'a>(
        &mut self,
        now: Instant,
        service: Service,
        response: &'a Response,
        is_transaction: bool,
        patience: Duration,
    ) -> Result<&'a Response, RequestError> {
        let Some(refusal) = refusal(response, is_transaction) else {
            if matches!(response.status(), 200 | 404) {
                self.known.insert(service, Standing::Served);
                // Who may read may poll, and the other way round, unless one of them is refused.
                if matches!(service, Service::Reads | Service::Inquiries) && !is_transaction {
                    for either in [Service::Reads, Service::Inquiries] {
                        self.known.entry(either).or_insert(Standing::Served);
                    }
                }
            }
            // 409 means a rollback (Consul's documentation of transactions).
            if is_transaction && matches!(response.status(), 200 | 409) {
                self.known.insert(Service::Transactions, Standing::Served);
            }
            return Ok(response);
        };
        // Inquiries come late. For everything else, a refusal at first use is reported at once, and
        // so is a denial.
        let is_beside = service == Service::Inquiries;
        let is_about_all = is_transaction && is_beside && !is_denied(response);
        let service = if is_about_all && !self.known.contains_key(&service) {
            Service::Transactions
        } else {
            service
        };
        let Some(standing) = self.known.get_mut(&service) else {
            return Ok(response);
        };
        let since = match *standing {
            Standing::Served => now,
            Standing::RefusedSince(since) => since,
        };
        if now.saturating_since(since) >= patience {
            return Ok(response);
        }
        *standing = Standing::RefusedSince(since);
        tracing::debug!(name: "refused-for-now", ?service, %refusal, "what was served before is refused");
        Err(RequestError::RefusedForNow(Box::new(refusal)))
    }

    /// Nobody needs them any more: the next use counts as the first.
    pub(in crate::machine) fn forget(&mut self) {
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fixture::at;

    const PATIENCE: Duration = Duration::from_secs(10);

    /// Whether an answer counts as one that will pass.
    fn passes(services: &mut Services, now: u64, status: u16, body: &str) -> bool {
        let response = Response::new(status, body);
        let judged = services.judge(at(now), Service::Sessions, &response, false, PATIENCE);
        judged.is_err_and(|error| !error.is_permanent() && error.was_not_applied())
    }

    #[test]
    fn what_is_refused_at_first_use_is_refused() {
        let mut services = Services::default();
        assert!(!passes(&mut services, 0, 403, "ACL not found"));
        assert!(!passes(&mut services, 0, 404, "<html>"));
    }

    #[test]
    fn what_was_served_is_retried_for_as_long_as_a_lease_lasts() {
        let mut services = Services::default();
        assert!(!passes(&mut services, 0, 200, "[]"));
        for (status, body) in [
            (403, "ACL not found"),
            (404, "<html>no backend</html>"),
            (404, "404 page not found"),
            (413, "<html>too large</html>"),
            (307, ""),
            (500, "rpc error making call: Permission denied"),
        ] {
            assert!(
                passes(&mut services, 9_999, status, body),
                "{status} {body}"
            );
        }
        assert!(passes(&mut services, 19_998, 403, "ACL not found"));
        assert!(!passes(&mut services, 19_999, 403, "ACL not found"));
        assert!(
            !passes(&mut services, 20_000, 403, ""),
            "told once, and for all"
        );
    }

    #[test]
    fn who_may_list_may_poll_until_only_one_of_them_is_served() {
        let mut services = Services::default();
        let mut judge = |now, service, status| {
            let response = Response::new(status, "");
            let judged = services.judge(at(now), service, &response, false, PATIENCE);
            judged.is_ok()
        };
        assert!(judge(0, Service::Reads, 200));
        for now in [1, 5_000, 10_000] {
            assert!(!judge(now, Service::Inquiries, 403), "it may pass: {now}");
            assert!(judge(now, Service::Reads, 200));
        }
        for now in [10_001, 10_002] {
            assert!(judge(now, Service::Inquiries, 403), "it is told: {now}");
            assert!(judge(now, Service::Reads, 200));
        }
    }

    #[test]
    fn each_success_gives_the_whole_time_again() {
        let mut services = Services::default();
        for now in [0, 5_000, 14_000] {
            assert!(!passes(&mut services, now, 200, ""));
            assert!(passes(&mut services, now + 4_000, 403, ""));
        }
        assert!(passes(&mut services, 27_999, 403, ""));
        services.forget();
        assert!(!passes(&mut services, 27_999, 403, ""));
    }

    #[test]
    fn what_consul_says_of_a_session_or_a_key_is_no_refusal() {
        let mut services = Services::default();
        passes(&mut services, 0, 200, "");
        let gone = "Session id '4ca8e74b-6350-7587-addf-a18084928f3c' not found";
        assert!(!passes(&mut services, 1, 404, gone));
        assert!(!passes(&mut services, 1, 400, "Request decode failed: EOF"));
        assert!(!passes(
            &mut services,
            1,
            413,
            "Request body(size: 9) too large"
        ));
        assert!(!passes(&mut services, 1, 500, "invalid session \"a\""));
    }

    /// As when somebody asks for the first time whether a dead holder's lock delay is over, and it
    /// is not.
    #[test]
    fn where_a_transaction_was_served_or_rolled_back_a_gateway_ends_none() {
        let rolled_back = r#"{"Results":null,"Errors":[{"OpIndex":0,"What":"failed to lock"}]}"#;
        for (status, body) in [(200, r#"{"Results":[]}"#), (409, rolled_back)] {
            let mut services = Services::default();
            let mut judge = |now, service, status, body| {
                let response = Response::new(status, body);
                let judged = services.judge(at(now), service, &response, true, PATIENCE);
                judged.is_ok()
            };
            let gateway = "<html>no backend</html>";
            assert!(judge(0, Service::Inquiries, 404, gateway), "at first use");
            assert!(judge(0, Service::Records, status, body));
            assert!(!judge(1, Service::Inquiries, 404, gateway));
            assert!(!judge(9_999, Service::Inquiries, 404, gateway));
            assert!(judge(9_999, Service::Inquiries, 403, "Permission denied"));
            assert!(judge(10_001, Service::Inquiries, 404, gateway));
        }
    }

    #[test]
    fn an_agent_may_serve_no_transactions_but_a_gateway_does_not_say_so() {
        let mut services = Services::default();
        passes(&mut services, 0, 200, "");
        let mut judge = |body: &str| {
            let response = Response::new(404, body);
            let judged = services.judge(at(1), Service::Sessions, &response, true, PATIENCE);
            judged.is_ok()
        };
        assert!(judge("404 page not found"));
        assert!(!judge("<html>no backend</html>"));
    }
}
