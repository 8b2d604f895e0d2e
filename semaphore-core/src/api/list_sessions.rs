//! `GET /v1/session/list`: the sessions that the token may read, each with its node.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::answer;
use super::target::Target;
use crate::error::RequestError;
use crate::http::{Request, Response};
use crate::id::SessionId;
use crate::input::Scope;

/// Lists all sessions.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListSessions;

/// A session in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedSession {
    /// Its name, which may be empty.
    pub name: String,
    /// The node it is tied to.
    pub node: String,
}

impl ListSessions {
    /// The request.
    pub fn request(self, scope: &Scope) -> Request {
        Target::new("/v1/session/list").read(scope, false)
    }

    /// The sessions by their ids, without those that the token may not read.
    ///
    /// # Errors
    /// [`RequestError`] for anything but a list of sessions.
    pub fn parse(response: &Response) -> Result<BTreeMap<SessionId, ListedSession>, RequestError> {
        let found: Option<Vec<Found>> = answer::json(response, "not a list of sessions")?;
        let found = found.unwrap_or_default().into_iter();
        let listed = found.filter_map(|Found { id, name, node }| {
            let id = SessionId::read(&id)?;
            Some((id, ListedSession { name, node }))
        });
        Ok(listed.collect())
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Found {
    #[serde(rename = "ID")]
    id: String,
    name: String,
    node: String,
}

#[cfg(test)]
mod tests {
    use super::super::examples::{SESSION, line, session};
    use super::*;

    #[test]
    fn it_is_a_plain_read() {
        let request = ListSessions.request(&Scope::new());
        assert_eq!(line(&request), "GET /v1/session/list");
    }

    #[test]
    fn each_session_has_its_node_and_its_name() {
        let body = format!(
            r#"[{{"ID":"{SESSION}","Name":"semaphore service/db","Node":"node-1","TTL":"15s"}},{{"ID":"x"}}]"#
        );
        let listed = ListSessions::parse(&Response::new(200, body)).unwrap();
        let found = &listed[&session()];
        assert_eq!(found.node, "node-1");
        assert_eq!(found.name, "semaphore service/db");
        assert_eq!(listed.len(), 1);
    }

    #[test]
    fn none_is_an_empty_list() {
        for body in ["[]", "null"] {
            let listed = ListSessions::parse(&Response::new(200, body)).unwrap();
            assert!(listed.is_empty());
        }
        assert!(ListSessions::parse(&Response::new(200, "{}")).is_err());
    }
}
