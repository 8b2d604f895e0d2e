//! `PUT /v1/session/renew/<id>`: restarts a session's TTL.

use core::time::Duration;

use serde::Deserialize;
use serde_json::Value as Json;

use super::answer;
use super::session_info::{nanoseconds, read_ttl};
use super::target::Target;
use crate::error::RequestError;
use crate::http::{Method, Priority, Request, Response};
use crate::id::SessionId;
use crate::input::Scope;

/// Renews a session.
#[derive(Clone, Copy, Debug)]
pub struct RenewSession<'a> {
    /// The session.
    pub session: &'a SessionId,
}

impl RenewSession<'_> {
    /// The request.
    pub fn request(&self, scope: &Scope) -> Request {
        let path = format!("/v1/session/renew/{}", self.session);
        Target::new(&path)
            .request(Method::Put, scope)
            .with_priority(Priority::Renewal)
    }

    /// The renewed session.
    ///
    /// # Errors
    /// [`RequestError::InvalidSession`] if the session is gone, or another error of the answer.
    pub fn parse(response: &Response) -> Result<Renewed, RequestError> {
        // Only Consul's own 404 is about the session: a proxy's must not end a live hold.
        if response.status() == 404 {
            let text = answer::excerpt(response.body());
            return Err(if text.contains("Session id") {
                RequestError::InvalidSession {
                    text,
                    asked: response.asked().clone(),
                }
            } else {
                RequestError::garbled("a 404 that does not speak of a session")
            });
        }
        let [found]: [Found; 1] = answer::json(response, "not one renewed session")?;
        Ok(Renewed {
            ttl: read_ttl(found.ttl.as_deref().unwrap_or_default())?,
            lock_delay: nanoseconds(&found.lock_delay),
        })
    }
}

/// What the answer to a renewal says about the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Renewed {
    /// Its TTL, which a server may have changed. `None` if it has none.
    pub ttl: Option<Duration>,
    /// Its lock delay. `None` if Consul does not say.
    pub lock_delay: Option<Duration>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Found {
    #[serde(rename = "TTL")]
    ttl: Option<String>,
    // An unexpected value here does not invalidate the rest.
    #[serde(default)]
    lock_delay: Json,
}

#[cfg(test)]
mod tests {
    use super::super::examples::{SESSION, line, session};
    use super::*;

    fn parse(status: u16, body: &str) -> Result<Renewed, RequestError> {
        RenewSession::parse(&Response::new(status, body))
    }

    #[test]
    fn it_names_the_session_in_the_path() {
        let session = session();
        let request = RenewSession { session: &session }.request(&Scope::new());
        assert_eq!(line(&request), format!("PUT /v1/session/renew/{SESSION}"));
        assert!(request.body().is_empty());
    }

    #[test]
    fn the_answer_carries_the_ttl() {
        let ttl = |text: &str| {
            let answer = format!(r#"[{{"ID":"{SESSION}","TTL":"{text}"}}]"#);
            parse(200, &answer).map(|renewed| renewed.ttl)
        };
        assert_eq!(ttl("15s").unwrap(), Some(Duration::from_secs(15)));
        assert_eq!(ttl("").unwrap(), None);
        assert!(matches!(ttl("soon"), Err(RequestError::Garbled { .. })));
        assert_eq!(ttl("0s").unwrap(), None);
    }

    #[test]
    fn the_answer_carries_the_lock_delay_in_nanoseconds() {
        let delay = |text: &str| {
            let answer = format!(r#"[{{"TTL":"15s","LockDelay":{text}}}]"#);
            parse(200, &answer).unwrap().lock_delay
        };
        assert_eq!(delay("15000000000"), Some(Duration::from_secs(15)));
        assert_eq!(delay("0"), Some(Duration::ZERO));
        for unsaid in ["null", "-1", "\"15s\"", "[]"] {
            assert_eq!(delay(unsaid), None, "{unsaid}");
        }
        assert_eq!(parse(200, r#"[{"TTL":"15s"}]"#).unwrap().lock_delay, None);
    }

    #[test]
    fn only_consuls_own_404_says_that_the_session_is_gone() {
        assert!(matches!(
            parse(404, &format!("Session id '{SESSION}' not found")),
            Err(RequestError::InvalidSession { .. })
        ));
        let proxy = parse(404, "<html>no such backend</html>").unwrap_err();
        assert!(!proxy.is_permanent());
    }

    #[test]
    fn garbage_is_garbled() {
        for body in ["[]", "null", "{}", "[{}, {}]", "<html>"] {
            assert!(matches!(
                parse(200, body),
                Err(RequestError::Garbled { .. })
            ));
        }
    }
}
