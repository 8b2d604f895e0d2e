//! `PUT /v1/session/renew/<id>`: another TTL for a session.

use core::time::Duration;

use serde::Deserialize;

use super::answer;
use super::target::Target;
use crate::error::RequestError;
use crate::http::{Method, Request, Response};
use crate::id::SessionId;
use crate::input::{Scope, parse_go_duration};

/// Renews a session.
#[derive(Clone, Copy, Debug)]
pub struct RenewSession<'a> {
    /// Which one.
    pub session: &'a SessionId,
}

impl RenewSession<'_> {
    /// The request.
    pub fn request(&self, scope: &Scope) -> Request {
        let path = format!("/v1/session/renew/{}", self.session);
        Request::new(Method::Put, Target::new(&path).scoped(scope))
            .with_token(scope.token().cloned())
    }

    /// The TTL that the session has from now on, which a server may have changed; none when the
    /// session has no TTL.
    ///
    /// # Errors
    /// [`RequestError::InvalidSession`] when the session is gone, or whatever else the answer is.
    pub fn parse(response: &Response) -> Result<Option<Duration>, RequestError> {
        // Only Consul's own 404 speaks of the session: a proxy's would end a live hold.
        if response.status() == 404 {
            let text = answer::excerpt(response.body());
            return Err(if text.contains("Session id") {
                RequestError::InvalidSession { text }
            } else {
                RequestError::Garbled {
                    what: "a 404 that does not speak of a session",
                    source: None,
                }
            });
        }
        let [renewed]: [Renewed; 1] = answer::json(response, "not one renewed session")?;
        match renewed.ttl.as_deref() {
            None | Some("") => Ok(None),
            // Consul takes a TTL of zero for none, and gives it back as it was spelled.
            Some(text) => parse_go_duration(text)
                .map(|ttl| Some(ttl).filter(|ttl| !ttl.is_zero()))
                .ok_or(RequestError::Garbled {
                    what: "a session's TTL that is no duration",
                    source: None,
                }),
        }
    }
}

#[derive(Deserialize)]
struct Renewed {
    #[serde(rename = "TTL")]
    ttl: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::super::examples::{SESSION, line, session};
    use super::*;

    fn parse(status: u16, body: &str) -> Result<Option<Duration>, RequestError> {
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
        let ttl = |text: &str| parse(200, &format!(r#"[{{"ID":"{SESSION}","TTL":"{text}"}}]"#));
        assert_eq!(ttl("15s").unwrap(), Some(Duration::from_secs(15)));
        assert_eq!(ttl("").unwrap(), None);
        assert!(matches!(ttl("soon"), Err(RequestError::Garbled { .. })));
        assert_eq!(ttl("0s").unwrap(), None);
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
