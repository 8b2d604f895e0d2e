//! `GET /v1/session/info/<id>?consistent`: what Consul's leader knows of a session, once it has
//! caught up with its log. A new leader that has not yet tells of live sessions that there are none.

use core::time::Duration;

use serde::Deserialize;

use super::answer;
use super::target::Target;
use crate::error::RequestError;
use crate::http::{Method, Request, Response};
use crate::id::SessionId;
use crate::input::{Scope, parse_go_duration};

/// Asks for a session.
#[derive(Clone, Copy, Debug)]
pub struct SessionInfo<'a> {
    /// Which one.
    pub session: &'a SessionId,
}

/// A session as Consul describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionDetails {
    /// Its name, which may be empty.
    pub name: String,
    /// The node it is tied to.
    pub node: String,
    /// Its TTL; none when only checks, an operator or its node's removal end it.
    pub ttl: Option<Duration>,
}

impl SessionInfo<'_> {
    /// The request.
    pub fn request(&self, scope: &Scope) -> Request {
        let path = format!("/v1/session/info/{}", self.session);
        Request::new(Method::Get, Target::new(&path).scoped_read(scope, true))
            .with_token(scope.token().cloned())
    }

    /// The session, none when Consul knows no such session.
    ///
    /// # Errors
    /// [`RequestError`] for anything but a list of at most one session.
    pub fn parse(response: &Response) -> Result<Option<SessionDetails>, RequestError> {
        let found: Option<Vec<Found>> = answer::json(response, "not a list of sessions")?;
        let Some(found) = found.and_then(|found| found.into_iter().next()) else {
            return Ok(None);
        };
        let ttl = match found.ttl.as_str() {
            "" => None,
            text => Some(parse_go_duration(text).ok_or(RequestError::Garbled {
                what: "a session's TTL that is no duration",
                source: None,
            })?),
        };
        Ok(Some(SessionDetails {
            name: found.name,
            node: found.node,
            ttl,
        }))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct Found {
    name: String,
    node: String,
    #[serde(rename = "TTL")]
    ttl: String,
}

#[cfg(test)]
mod tests {
    use super::super::examples::{SESSION, line, session};
    use super::*;

    #[test]
    fn it_names_the_session_in_the_path() {
        let session = session();
        let request = SessionInfo { session: &session }.request(&Scope::new());
        assert_eq!(
            line(&request),
            format!("GET /v1/session/info/{SESSION}?consistent")
        );
    }

    #[test]
    fn the_guides_example_is_read() {
        let body = r#"[{"LockDelay":1.5e+10,"Checks":["serfHealth"],"Node":"node-1",
            "Name":"dbservice","ID":"4ca8e74b-6350-7587-addf-a18084928f3c","CreateIndex":28,"TTL":"15s"}]"#;
        let details = SessionInfo::parse(&Response::new(200, body)).unwrap();
        assert_eq!(
            details,
            Some(SessionDetails {
                name: "dbservice".to_owned(),
                node: "node-1".to_owned(),
                ttl: Some(Duration::from_secs(15)),
            })
        );
    }

    #[test]
    fn an_unknown_session_is_an_empty_list() {
        for body in ["[]", "null"] {
            assert_eq!(SessionInfo::parse(&Response::new(200, body)).unwrap(), None);
        }
    }
}
