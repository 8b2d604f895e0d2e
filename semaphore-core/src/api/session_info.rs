//! `GET /v1/session/info/<id>?consistent`: what Consul's leader knows about a session, after it has
//! applied its log. A new leader that has not done so answers that live sessions don't exist.

use core::time::Duration;

use serde::Deserialize;
use serde_json::Value as Json;

use super::answer;
use super::target::Target;
use crate::error::RequestError;
use crate::http::{Request, Response};
use crate::id::SessionId;
use crate::input::{Behavior, Scope, parse_go_duration};

/// Reads a session.
#[derive(Clone, Copy, Debug)]
pub struct SessionInfo<'a> {
    /// The session.
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
    /// Its TTL. `None` if only checks, an operator or the removal of its node end it.
    pub ttl: Option<Duration>,
    /// What happens to its keys when it ends. `None` if Consul does not say.
    pub behavior: Option<Behavior>,
    /// How long its keys can't be acquired after it was invalidated. `None` if Consul does not say.
    pub lock_delay: Option<Duration>,
    /// The health checks that end it when they fail: those of its node by id, then those of
    /// services on the node.
    pub checks: Vec<String>,
}

impl SessionInfo<'_> {
    /// The request.
    pub fn request(&self, scope: &Scope) -> Request {
        let path = format!("/v1/session/info/{}", self.session);
        Target::new(&path).read(scope, true)
    }

    /// The session, or `None` if Consul knows no such session. Also `None` if the token may not
    /// read it and the agent does not say so; agents from 1.11 on do.
    ///
    /// # Errors
    /// [`RequestError`] for anything but a list of at most one session. [`RequestError::Denied`] if
    /// the answer says that the session was left out.
    pub fn parse(response: &Response) -> Result<Option<SessionDetails>, RequestError> {
        let found: Option<Vec<Found>> = answer::json(response, "not a list of sessions")?;
        let Some(found) = found.and_then(|found| found.into_iter().next()) else {
            return if answer::is_filtered(response) {
                Err(answer::hidden("session").of(response))
            } else {
                Ok(None)
            };
        };
        let ttl = read_ttl(&found.ttl)?;
        Ok(Some(SessionDetails {
            behavior: found.behavior(),
            lock_delay: nanoseconds(&found.lock_delay),
            checks: found.checks(),
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
    // The following fields are for people. An unexpected value in them does not invalidate the
    // rest.
    behavior: Json,
    lock_delay: Json,
    checks: Json,
    node_checks: Json,
    service_checks: Json,
}

impl Found {
    fn behavior(&self) -> Option<Behavior> {
        [Behavior::Delete, Behavior::Release]
            .into_iter()
            .find(|behavior| self.behavior == behavior.as_str())
    }

    /// Older agents have `Checks`, and some have both.
    fn checks(&self) -> Vec<String> {
        let node_checks = texts(&self.node_checks, Json::as_str);
        let mut checks = texts(&self.checks, Json::as_str);
        checks.retain(|check| !node_checks.contains(check));
        checks.extend(node_checks);
        checks.extend(texts(&self.service_checks, |check| check["ID"].as_str()));
        checks
    }
}

/// A session's TTL. Consul treats zero as none, and returns it as it was sent.
pub(super) fn read_ttl(text: &str) -> Result<Option<Duration>, RequestError> {
    if text.is_empty() {
        return Ok(None);
    }
    let ttl = parse_go_duration(text);
    let ttl = ttl.ok_or(RequestError::garbled("a session's TTL that is no duration"))?;
    Ok(Some(ttl).filter(|ttl| !ttl.is_zero()))
}

/// A lock delay, which Consul prints in nanoseconds.
pub(super) fn nanoseconds(number: &Json) -> Option<Duration> {
    Duration::try_from_secs_f64(number.as_f64()? / 1e9).ok()
}

fn texts(list: &Json, text: impl Fn(&Json) -> Option<&str>) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(text).map(str::to_owned).collect()
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
                behavior: None,
                lock_delay: Some(Duration::from_secs(15)),
                checks: vec!["serfHealth".to_owned()],
            })
        );
    }

    #[test]
    fn behavior_and_checks_are_read_as_agents_of_today_say_them() {
        let body = r#"[{"LockDelay":15000000000,"Behavior":"delete","TTL":"",
            "Checks":["serfHealth"],"NodeChecks":["serfHealth","disk"],
            "ServiceChecks":[{"ID":"service:db","Namespace":""}]}]"#;
        let details = SessionInfo::parse(&Response::new(200, body)).unwrap();
        let details = details.unwrap();
        assert_eq!(details.ttl, None);
        assert_eq!(details.behavior, Some(Behavior::Delete));
        assert_eq!(details.lock_delay, Some(Duration::from_secs(15)));
        assert_eq!(details.checks, ["serfHealth", "disk", "service:db"]);
    }

    #[test]
    fn what_is_for_people_never_makes_an_answer_garbled() {
        let body = r#"[{"Name":"n","LockDelay":"x","Behavior":7,"Checks":{"a":1},
            "NodeChecks":null,"ServiceChecks":["x",{"ID":7}]}]"#;
        let details = SessionInfo::parse(&Response::new(200, body)).unwrap();
        let details = details.unwrap();
        assert_eq!(details.name, "n");
        assert_eq!(details.behavior, None);
        assert_eq!(details.lock_delay, None);
        assert_eq!(details.checks, [""; 0]);
    }

    #[test]
    fn an_unknown_session_is_an_empty_list() {
        for body in ["[]", "null"] {
            assert_eq!(SessionInfo::parse(&Response::new(200, body)).unwrap(), None);
        }
    }

    #[test]
    fn a_session_that_is_left_out_is_denied_and_not_unknown() {
        for (filtered, is_denied) in [("true", true), ("false", false)] {
            let answer = Response::new(200, "[]");
            let answer = answer.with_header("X-Consul-Results-Filtered-By-ACLs", filtered);
            let found = SessionInfo::parse(&answer);
            assert_eq!(matches!(found, Err(RequestError::Denied { .. })), is_denied);
        }
    }
}
