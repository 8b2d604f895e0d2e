//! `PUT /v1/session/create`: creates a contender's session.

use serde::Deserialize;
use serde_json::json;

use super::answer;
use super::target::Target;
use crate::error::RequestError;
use crate::http::{Method, Request, Response};
use crate::id::SessionId;
use crate::input::{Scope, SessionOptions, go_duration};

/// Creates a session.
///
/// If the answer is lost, an orphaned session is left, which ends by its TTL.
#[derive(Clone, Copy, Debug)]
pub struct CreateSession<'a> {
    /// Its options.
    pub options: &'a SessionOptions,
}

impl CreateSession<'_> {
    /// The request.
    pub fn request(&self, scope: &Scope) -> Request {
        let options = self.options;
        let mut body = json!({
            "TTL": go_duration(options.ttl),
            "LockDelay": go_duration(options.lock_delay()),
            "Behavior": options.behavior.as_str(),
            // Without it, Consul would tie the session to `serfHealth`.
            "NodeChecks": options.node_checks,
        });
        for (name, value) in [
            ("Name", options.name.as_deref()),
            ("Node", options.standing_on()),
        ] {
            if let Some(value) = value {
                body[name] = value.into();
            }
        }
        if !options.service_checks.is_empty() {
            let checks = options.service_checks.iter();
            body["ServiceChecks"] = checks.map(|id| json!({ "ID": id })).collect();
        }
        Target::new("/v1/session/create")
            .request(Method::Put, scope)
            .with_body(body.to_string())
    }

    /// The id of the new session.
    ///
    /// # Errors
    /// [`RequestError`] for anything but an id.
    pub fn parse(response: &Response) -> Result<SessionId, RequestError> {
        let created: Created = answer::json(response, "not the id of a new session")?;
        SessionId::new(created.id)
            .map_err(|error| answer::garbled("not the id of a new session", error))
    }
}

#[derive(Deserialize)]
struct Created {
    #[serde(rename = "ID")]
    id: String,
}

#[cfg(test)]
mod tests {
    use super::super::examples::{SESSION, line};
    use super::*;
    use crate::Behavior;

    #[test]
    fn the_default_session_lives_by_its_ttl_alone() {
        let options = SessionOptions::new();
        let request = CreateSession { options: &options }.request(&Scope::new());
        assert_eq!(line(&request), "PUT /v1/session/create");
        assert_eq!(
            body(&request),
            json!({ "TTL": "15s", "LockDelay": "15s", "Behavior": "delete", "NodeChecks": [] })
        );
    }

    #[test]
    fn every_option_has_its_field() {
        let options = SessionOptions::new()
            .with_name("db")
            .and_then(|o| o.with_node("node-1"))
            .and_then(|o| o.with_node_checks(["serfHealth"]))
            .and_then(|o| o.with_service_checks(["web"]))
            .and_then(|o| o.with_lock_delay(core::time::Duration::ZERO))
            .unwrap()
            .with_behavior(Behavior::Release);
        let request = CreateSession { options: &options }.request(&Scope::new());
        assert_eq!(
            body(&request),
            json!({
                "Name": "db",
                "Node": "node-1",
                "TTL": "15s",
                "LockDelay": "0s",
                "Behavior": "release",
                "NodeChecks": ["serfHealth"],
                "ServiceChecks": [{ "ID": "web" }]
            })
        );
    }

    fn body(request: &Request) -> serde_json::Value {
        serde_json::from_slice(request.body()).unwrap()
    }

    #[test]
    fn the_answer_is_an_id() {
        let response = Response::new(200, format!(r#"{{"ID":"{SESSION}"}}"#));
        assert_eq!(CreateSession::parse(&response).unwrap().as_str(), SESSION);
        for garbage in ["", "{}", r#"{"ID":"../x"}"#, "<html>", r#"{"ID":7}"#] {
            let error = CreateSession::parse(&Response::new(200, garbage)).unwrap_err();
            assert!(matches!(error, RequestError::Garbled { .. }), "{garbage}");
        }
    }
}
