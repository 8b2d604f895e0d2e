//! `PUT /v1/txn` with one node: registers the separate node for sessions, if there is none of its
//! name.
//!
//! `PUT /v1/catalog/register` would overwrite an existing node. A check-and-set with index zero
//! does not. (Tried on 1.8.7, also in another datacenter; the node must then name that datacenter.)

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::answer;
use super::target::Target;
use super::txn_answer::{self, TxnFaultKind, TxnOutcome};
use crate::asked::Asked;
use crate::error::RequestError;
use crate::http::{Method, Request, Response};
use crate::input::Scope;

/// An address that nobody has (RFC 5737).
const ADDRESS: &str = "192.0.2.1";

/// Registers a node without an agent.
#[derive(Clone, Copy, Debug)]
pub struct RegisterNode<'a> {
    /// Its name.
    pub node: &'a str,
}

impl RegisterNode<'_> {
    /// The request.
    pub fn request(&self, scope: &Scope) -> Request {
        let mut node = json!({
            "Node": self.node,
            "Address": ADDRESS,
            // How Consul's tools mark a node without an agent that nobody should probe.
            "Meta": { "external-node": "true", "external-probe": "false" },
            // The node must not exist.
            "ModifyIndex": 0,
        });
        for (name, value) in [
            ("Datacenter", scope.datacenter()),
            ("Partition", scope.partition()),
        ] {
            if let Some(value) = value {
                node[name] = value.into();
            }
        }
        let body = json!([{ "Node": { "Verb": "cas", "Node": node } }]);
        Target::new("/v1/txn")
            .request(Method::Put, scope)
            .with_body(body.to_string())
    }

    /// The node exists. It was created now, or existed before.
    ///
    /// # Errors
    /// [`RequestError`] for anything else; [`RequestError::Denied`] names the permission.
    pub fn parse(&self, response: &Response) -> Result<(), RequestError> {
        let denied = |text: &str| RequestError::Denied {
            text: format!(
                "{text}; the node {:?} is missing, and to register it takes node:write on that name",
                self.node
            ),
            asked: Asked::default(),
        };
        if response.status() != 409 {
            let applied = answer::json::<Applied>(response, "not a transaction's answer");
            return match applied {
                Ok(_) => Ok(()),
                Err(RequestError::Denied { text, .. }) => Err(denied(&text)),
                Err(error) => Err(error),
            };
        }
        let TxnOutcome::RolledBack(faults) = txn_answer::read(response)? else {
            return Err(RequestError::garbled(
                "a transaction's answer that contradicts its status",
            ));
        };
        match faults.into_iter().next() {
            Some(fault) if fault.kind == TxnFaultKind::Stale => Ok(()),
            Some(fault) if fault.kind == TxnFaultKind::Denied => Err(denied(&fault.text)),
            fault => Err(RequestError::Rejected {
                status: 409,
                text: fault.map(|fault| fault.text).unwrap_or_default(),
                asked: Asked::default(),
            }),
        }
    }
}

/// `Results` is required: another object is not the answer to a transaction.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Applied {
    #[serde(rename = "Results")]
    _results: Vec<IgnoredAny>,
}

#[cfg(test)]
mod tests {
    use super::super::examples::line;
    use super::*;

    const NODE: RegisterNode<'_> = RegisterNode { node: "semaphores" };

    #[test]
    fn a_node_is_made_only_if_there_is_none() {
        let request = NODE.request(&Scope::new());
        assert_eq!(line(&request), "PUT /v1/txn");
        let node = &body(&request)[0]["Node"];
        assert_eq!(node["Verb"], "cas");
        assert_eq!(
            node["Node"],
            json!({
                "Node": "semaphores",
                "Address": "192.0.2.1",
                "Meta": { "external-node": "true", "external-probe": "false" },
                "ModifyIndex": 0
            })
        );
    }

    #[test]
    fn a_node_of_another_datacenter_says_so_twice() {
        let scope = Scope::new().with_datacenter("dc2").unwrap();
        let request = NODE.request(&scope.with_partition("team").unwrap());
        assert_eq!(line(&request), "PUT /v1/txn?dc=dc2&partition=team");
        let node = &body(&request)[0]["Node"]["Node"];
        assert_eq!(
            (&node["Datacenter"], &node["Partition"]),
            (&json!("dc2"), &json!("team"))
        );
    }

    fn body(request: &Request) -> serde_json::Value {
        serde_json::from_slice(request.body()).unwrap()
    }

    #[test]
    fn it_is_there_whoever_made_it() {
        let made = r#"{"Results":[{"Node":{"Node":"semaphores"}}],"Errors":null}"#;
        assert!(NODE.parse(&Response::new(200, made)).is_ok());
        let stale = r#"{"Results":null,"Errors":[{"OpIndex":0,"What":"failed to set node \"semaphores\", index is stale"}]}"#;
        assert!(NODE.parse(&Response::new(409, stale)).is_ok());
    }

    #[test]
    fn a_missing_permission_is_named() {
        let fault = r#"{"Results":null,"Errors":[{"OpIndex":0,"What":"Permission denied"}]}"#;
        for (status, body) in [(409, fault), (403, "Permission denied")] {
            let error = NODE.parse(&Response::new(status, body)).unwrap_err();
            assert!(error.is_permanent());
            let text = error.to_string();
            assert!(text.contains("Permission denied; "), "{text}");
            assert!(text.contains("node:write"), "{text}");
        }
    }

    #[test]
    fn anything_else_is_an_error() {
        let other = r#"{"Results":null,"Errors":[{"OpIndex":0,"What":"node name is too long"}]}"#;
        let error = NODE.parse(&Response::new(409, other)).unwrap_err();
        assert!(matches!(error, RequestError::Rejected { .. }), "{error}");
        for (status, body) in [
            (200, "{}"),
            (200, "true"),
            (200, r#"{"Results":null,"Errors":null}"#),
            (409, "{}"),
            (409, r#"{"Results":null,"Errors":null}"#),
            (409, "<html>"),
            (500, "No cluster leader"),
        ] {
            let error = NODE.parse(&Response::new(status, body)).unwrap_err();
            assert!(!error.is_permanent(), "{status} {body}");
        }
    }
}
