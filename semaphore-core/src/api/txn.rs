//! `PUT /v1/txn`: several operations on keys, all or none.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::cas_key;
use super::target::Target;
use super::txn_answer::{self, TxnOutcome};
use crate::error::RequestError;
use crate::http::{Method, Request, Response};
use crate::id::{Index, SessionId};
use crate::input::{Prefix, Scope};

/// A transaction. All operations are applied in order, at one index, or none is.
#[derive(Clone, Copy, Debug)]
pub struct Txn<'a> {
    /// The operations. Each sees what earlier ones wrote.
    pub operations: &'a [Operation<'a>],
}

/// One operation of a transaction.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// Ties a key to a session. Fails if another session has it, during its lock delay, and if the
    /// session is gone.
    Lock {
        /// The key.
        key: &'a str,
        /// The session to tie it to.
        session: &'a SessionId,
        /// The value to store under it.
        value: &'a [u8],
        /// Its flags.
        flags: u64,
    },
    /// Releases a key from the session that has it. Fails if another session has it.
    Unlock {
        /// The key.
        key: &'a str,
        /// The session to untie it from.
        session: &'a SessionId,
        /// The value to store under it.
        value: &'a [u8],
        /// Its flags.
        flags: u64,
    },
    /// Writes a key. Fails if it has changed.
    Cas {
        /// The key.
        key: &'a str,
        /// The `ModifyIndex` that the key must still have; zero if it must not exist.
        index: Index,
        /// The value to store.
        value: &'a [u8],
        /// Its flags.
        flags: u64,
    },
    /// Deletes a key, if it exists.
    Delete {
        /// The key.
        key: &'a str,
    },
    /// Deletes a key. Fails if it has changed.
    DeleteCas {
        /// The key.
        key: &'a str,
        /// The `ModifyIndex` that the key must still have.
        index: Index,
    },
    /// Reads a key. Fails if it does not exist.
    Get {
        /// The key.
        key: &'a str,
    },
    /// Reads everything below a prefix, after the earlier operations.
    GetTree {
        /// The prefix.
        prefix: &'a Prefix,
    },
    /// Reads everything that begins with this key: maybe nothing. It never fails.
    GetFrom {
        /// The key.
        key: &'a str,
    },
    /// Fails unless the key exists and is tied to this session.
    CheckSession {
        /// The key.
        key: &'a str,
        /// The session. `None` if the key must not be tied to any.
        session: Option<&'a SessionId>,
    },
    /// Fails unless the key exists and is unchanged since this index.
    CheckIndex {
        /// The key.
        key: &'a str,
        /// The `ModifyIndex` that the key must still have.
        index: Index,
    },
    /// Fails if the key exists.
    CheckNotExists {
        /// The key.
        key: &'a str,
    },
}

impl Txn<'_> {
    /// The most operations that every agent accepts.
    pub const MAX_OPERATIONS: usize = 64;

    /// The longest body that every agent accepts, in bytes.
    pub const MAX_BYTES: usize = 512 * 1024;

    /// The request.
    pub fn request(&self, scope: &Scope) -> Request {
        self.to(Target::new("/v1/txn"), scope)
    }

    /// The request, for operations that only read. The leader confirms it, as a consistent read of
    /// a key.
    pub fn confirmed_read(&self, scope: &Scope) -> Request {
        self.to(Target::new("/v1/txn").confirmed(scope, true), scope)
    }

    fn to(&self, target: Target, scope: &Scope) -> Request {
        let body: Vec<_> = self
            .operations
            .iter()
            .map(|operation| Element {
                kv: Fields {
                    namespace: scope.namespace(),
                    partition: scope.partition(),
                    ..operation.fields()
                },
            })
            .collect();
        // Structs of strings and numbers always serialize.
        let body = serde_json::to_vec(&body).unwrap_or_default();
        target
            .request(Method::Put, scope)
            .with_body(body)
            .with_changes(self.operations.iter().filter_map(Operation::changed_path))
    }

    /// Whether an agent accepts this request with this number of operations. It refuses a larger
    /// one with 413, which is a [`RequestError::Rejected`].
    pub fn fits(request: &Request, operations: usize) -> bool {
        operations <= Self::MAX_OPERATIONS && request.body().len() <= Self::MAX_BYTES
    }

    /// The outcome.
    ///
    /// # Errors
    /// [`RequestError`] for anything but results or the reasons of a rollback.
    pub fn parse(response: &Response) -> Result<TxnOutcome<'_>, RequestError> {
        txn_answer::read(response)
    }
}

impl<'a> Operation<'a> {
    /// Whether the results have exactly one entry of this operation. A tree has any number.
    pub fn returns_entry(&self) -> bool {
        match self {
            Self::Lock { .. }
            | Self::Unlock { .. }
            | Self::Cas { .. }
            | Self::Get { .. }
            | Self::CheckSession { .. }
            | Self::CheckIndex { .. } => true,
            Self::Delete { .. }
            | Self::DeleteCas { .. }
            | Self::GetTree { .. }
            | Self::GetFrom { .. }
            | Self::CheckNotExists { .. } => false,
        }
    }

    /// The path of the key that it changes.
    fn changed_path(&self) -> Option<String> {
        match self {
            Self::Lock { key, .. }
            | Self::Unlock { key, .. }
            | Self::Cas { key, .. }
            | Self::Delete { key }
            | Self::DeleteCas { key, .. } => Some(Target::key(key).into_path()),
            Self::Get { .. }
            | Self::GetTree { .. }
            | Self::GetFrom { .. }
            | Self::CheckSession { .. }
            | Self::CheckIndex { .. }
            | Self::CheckNotExists { .. } => None,
        }
    }

    fn fields(&self) -> Fields<'a> {
        match *self {
            Self::Lock {
                key,
                session,
                value,
                flags,
            } => Fields {
                session: Some(session.as_str()),
                ..Fields::new("lock", key).storing(value, flags)
            },
            Self::Unlock {
                key,
                session,
                value,
                flags,
            } => Fields {
                session: Some(session.as_str()),
                ..Fields::new("unlock", key).storing(value, flags)
            },
            Self::Cas {
                key,
                index,
                value,
                flags,
            } => {
                let upon = cas_key::upon(index);
                let verb = if upon.is_some() { "cas" } else { "set" };
                Fields {
                    index: upon.map(|index| index.0),
                    ..Fields::new(verb, key).storing(value, flags)
                }
            }
            Self::Delete { key } => Fields::new("delete", key),
            Self::DeleteCas { key, index } => Fields {
                index: Some(index.0),
                ..Fields::new("delete-cas", key)
            },
            Self::Get { key } => Fields::new("get", key),
            Self::GetTree { prefix } => Fields::new("get-tree", prefix.directory()),
            Self::GetFrom { key } => Fields::new("get-tree", key),
            Self::CheckSession { key, session } => Fields {
                session: Some(session.map_or("", SessionId::as_str)),
                ..Fields::new("check-session", key)
            },
            Self::CheckIndex { key, index } => Fields {
                index: Some(index.0),
                ..Fields::new("check-index", key)
            },
            Self::CheckNotExists { key } => Fields::new("check-not-exists", key),
        }
    }
}

#[derive(Serialize)]
struct Element<'a> {
    #[serde(rename = "KV")]
    kv: Fields<'a>,
}

/// An operation in the agent's format. The agent refuses the whole transaction for an unknown
/// field.
///
/// `/v1/txn` ignores `?ns=` and `?partition=`. Without these members an operation uses the token's
/// namespace, or `default`. Records would then be there, and sessions and lists elsewhere.
/// (Consul's documentation of transactions.)
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Fields<'a> {
    verb: &'static str,
    key: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flags: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<&'a str>,
}

impl<'a> Fields<'a> {
    fn new(verb: &'static str, key: impl Into<Cow<'a, str>>) -> Self {
        Self {
            verb,
            key: key.into(),
            value: None,
            flags: None,
            index: None,
            session: None,
            namespace: None,
            partition: None,
        }
    }

    fn storing(self, value: &[u8], flags: u64) -> Self {
        Self {
            value: Some(STANDARD.encode(value)),
            flags: Some(flags),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::{SESSION, line, session};
    use super::*;
    use crate::api::SEMAPHORE_FLAGS;

    fn body(operation: Operation<'_>) -> String {
        let request = Txn {
            operations: &[operation],
        }
        .request(&Scope::new());
        assert_eq!(line(&request), "PUT /v1/txn");
        String::from_utf8(request.into_body()).unwrap()
    }

    #[test]
    fn every_operation_has_its_verb_and_its_fields() {
        let session = &session();
        let prefix = &Prefix::new("service/db").unwrap();
        let (key, index, value) = ("service/db/x", Index(901), b"node-1".as_slice());
        let lock = Operation::Lock {
            key,
            session,
            value,
            flags: SEMAPHORE_FLAGS,
        };
        let cas = Operation::Cas {
            key,
            index,
            value: &[0xff, 0x00],
            flags: 0,
        };
        let check = |session| Operation::CheckSession { key, session };
        for (operation, fields) in [
            (
                lock,
                format!(
                    r#""Verb":"lock","Key":"{key}","Value":"bm9kZS0x","Flags":16210313421097356768,"Session":"{SESSION}""#
                ),
            ),
            (
                cas,
                format!(r#""Verb":"cas","Key":"{key}","Value":"/wA=","Flags":0,"Index":901"#),
            ),
            (
                Operation::Get { key },
                format!(r#""Verb":"get","Key":"{key}""#),
            ),
            (
                Operation::Delete { key },
                format!(r#""Verb":"delete","Key":"{key}""#),
            ),
            (
                Operation::DeleteCas { key, index },
                format!(r#""Verb":"delete-cas","Key":"{key}","Index":901"#),
            ),
            (
                Operation::GetTree { prefix },
                r#""Verb":"get-tree","Key":"service/db/""#.to_owned(),
            ),
            (
                check(Some(session)),
                format!(r#""Verb":"check-session","Key":"{key}","Session":"{SESSION}""#),
            ),
            (
                check(None),
                format!(r#""Verb":"check-session","Key":"{key}","Session":"""#),
            ),
            (
                Operation::CheckIndex { key, index },
                format!(r#""Verb":"check-index","Key":"{key}","Index":901"#),
            ),
            (
                Operation::CheckNotExists { key },
                format!(r#""Verb":"check-not-exists","Key":"{key}""#),
            ),
        ] {
            assert_eq!(body(operation), format!(r#"[{{"KV":{{{fields}}}}}]"#));
        }
    }

    #[test]
    fn operations_keep_their_order_and_no_operation_is_an_empty_list() {
        let operations = [
            Operation::Delete { key: "b" },
            Operation::CheckNotExists { key: "a" },
        ];
        let all = Txn {
            operations: &operations,
        };
        assert_eq!(
            String::from_utf8_lossy(all.request(&Scope::new()).body()),
            r#"[{"KV":{"Verb":"delete","Key":"b"}},{"KV":{"Verb":"check-not-exists","Key":"a"}}]"#
        );
        let none = Txn { operations: &[] };
        assert_eq!(none.request(&Scope::new()).body(), b"[]");
    }

    #[test]
    fn every_operation_says_in_which_namespace_and_partition_its_key_is() {
        let prefix = &Prefix::new("service/db").unwrap();
        let key = "service/db/x";
        let operations = &[
            Operation::CheckNotExists { key },
            Operation::Delete { key },
            Operation::GetTree { prefix },
        ];
        let scope = Scope::new()
            .with_namespace("team")
            .and_then(|scope| scope.with_partition("east"))
            .unwrap();
        let request = Txn { operations }.request(&scope);
        let elements: Vec<serde_json::Value> = serde_json::from_slice(request.body()).unwrap();
        assert_eq!(elements.len(), operations.len());
        for element in elements {
            assert_eq!(element["KV"]["Namespace"], "team", "{element}");
            assert_eq!(element["KV"]["Partition"], "east", "{element}");
        }
    }

    #[test]
    fn a_key_is_text_in_json_and_not_percent_encoded() {
        let key = "a \"b\"/ü%2F\\";
        assert_eq!(
            body(Operation::Delete { key }),
            r#"[{"KV":{"Verb":"delete","Key":"a \"b\"/ü%2F\\"}}]"#
        );
    }

    #[test]
    fn an_empty_value_is_sent_as_one() {
        let cas = Operation::Cas {
            key: "k",
            index: Index::ZERO,
            value: b"",
            flags: 0,
        };
        assert_eq!(
            body(cas),
            r#"[{"KV":{"Verb":"cas","Key":"k","Value":"","Flags":0,"Index":0}}]"#
        );
    }

    #[test]
    fn a_transaction_fits_up_to_both_limits() {
        let of = |len: usize| Request::new(Method::Put, "/v1/txn").with_body(vec![b'x'; len]);
        assert!(Txn::fits(&of(2), 0));
        assert!(Txn::fits(&of(524_288), 64));
        assert!(!Txn::fits(&of(524_289), 1));
        assert!(!Txn::fits(&of(2), 65));
    }

    #[test]
    fn heads_are_what_returns_one_entry() {
        let (key, index, value, flags) = ("k", Index(1), b"".as_slice(), 0);
        let session = &session();
        let prefix = &Prefix::new("p").unwrap();
        let heads = [
            Operation::Lock {
                key,
                session,
                value,
                flags,
            },
            Operation::Cas {
                key,
                index,
                value,
                flags,
            },
            Operation::CheckSession { key, session: None },
            Operation::CheckIndex { key, index },
            Operation::Delete { key },
            Operation::DeleteCas { key, index },
            Operation::GetTree { prefix },
            Operation::CheckNotExists { key },
        ]
        .map(|operation| operation.returns_entry());
        assert_eq!(heads, [true, true, true, true, false, false, false, false]);
    }
}
