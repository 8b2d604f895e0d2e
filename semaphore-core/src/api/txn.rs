//! `PUT /v1/txn`: several operations on keys, all or none.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::answer::{self, excerpt, garbled};
use super::entry::Entry;
use super::target::Target;
use crate::defect::{Defect, is_on};
use crate::error::RequestError;
use crate::http::{Method, Request, Response};
use crate::id::{Index, SessionId};
use crate::input::{Prefix, Scope};

/// A transaction: its operations are applied in order and at one index, or none of them is.
#[derive(Clone, Copy, Debug)]
pub struct Txn<'a> {
    /// The operations. A later one sees what an earlier one wrote.
    pub operations: &'a [Operation<'a>],
}

/// One operation of a transaction.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// Ties a key to a session. Fails when another session has it, during its lock delay, and
    /// when the session is gone.
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
    /// Writes a key. Fails when it has changed.
    Cas {
        /// The key.
        key: &'a str,
        /// The `ModifyIndex` that the key must still have; zero when it must not exist.
        index: Index,
        /// The value to store.
        value: &'a [u8],
        /// Its flags.
        flags: u64,
    },
    /// Deletes a key, if it is there.
    Delete {
        /// The key.
        key: &'a str,
    },
    /// Deletes a key. Fails when it has changed.
    DeleteCas {
        /// The key.
        key: &'a str,
        /// The `ModifyIndex` that the key must still have.
        index: Index,
    },
    /// Reads everything below a prefix, as the operations before have left it.
    GetTree {
        /// The prefix.
        prefix: &'a Prefix,
    },
    /// Fails unless the key is there and tied to this session.
    CheckSession {
        /// The key.
        key: &'a str,
        /// The session; none when the key must be tied to nobody.
        session: Option<&'a SessionId>,
    },
    /// Fails when the key is there.
    CheckNotExists {
        /// The key.
        key: &'a str,
    },
}

/// How a transaction ended.
#[derive(Clone, Debug)]
pub enum TxnOutcome<'a> {
    /// All of it was applied.
    Applied(Results<'a>),
    /// None of it was applied, for at least one reason.
    RolledBack(Vec<TxnFault>),
}

/// What an applied transaction returned, in the order of its operations.
#[derive(Clone, Debug)]
pub struct Results<'a> {
    /// One entry, without its value, for each operation that [returns
    /// one](Operation::returns_entry), and the tree's entries with theirs. What the token may not
    /// read is left out in silence.
    pub entries: Vec<Entry<'a>>,
}

/// Why a transaction was rolled back: one operation that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnFault {
    /// Its place among the operations, counted from zero, as the agent gives it.
    pub operation: usize,
    /// What failed.
    pub kind: TxnFaultKind,
    /// The beginning of the agent's text.
    pub text: String,
}

/// What failed in an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TxnFaultKind {
    /// The key has changed since the index that a check-and-set gave.
    Stale,
    /// The key is tied to another session.
    Held,
    /// The key's last session was invalidated, and its lock delay is not over.
    Delayed,
    /// The session is gone.
    SessionGone,
    /// A check found otherwise: another session or none, or a key that is there or is not.
    Check,
    /// The token lacks a permission, or is unknown.
    Denied,
    /// Anything else.
    Other,
}

impl Txn<'_> {
    /// The most operations that every agent takes.
    pub const MAX_OPERATIONS: usize = 64;

    /// The longest body that every agent takes, in bytes.
    pub const MAX_BYTES: usize = 512 * 1024;

    /// The request.
    pub fn request(&self, scope: &Scope) -> Request {
        let body: Vec<_> = self
            .operations
            .iter()
            .map(|operation| Element {
                kv: operation.fields(),
            })
            .collect();
        // Structs of strings and numbers always serialize.
        let body = serde_json::to_vec(&body).unwrap_or_default();
        Request::new(Method::Put, Target::new("/v1/txn").scoped(scope))
            .with_body(body)
            .with_token(scope.token().cloned())
    }

    /// Whether an agent takes a request of so many operations. It refuses a larger one with a
    /// 413, which is a [`RequestError::Rejected`].
    pub fn fits(request: &Request, operations: usize) -> bool {
        operations <= Self::MAX_OPERATIONS && request.body().len() <= Self::MAX_BYTES
    }

    /// What became of it.
    ///
    /// # Errors
    /// [`RequestError`] for anything but results or the reasons for a rollback.
    pub fn parse(response: &Response) -> Result<TxnOutcome<'_>, RequestError> {
        let (body, is_conflict) = match response.status() {
            409 => (response.body(), true),
            _ => (answer::served(response)?, false),
        };
        let text = core::str::from_utf8(body)
            .map_err(|error| garbled("a transaction's answer that is not UTF-8", error))?;
        let answer: Answer<'_> = serde_json::from_str(text)
            .map_err(|error| garbled("not a transaction's answer", error))?;
        let results = answer.results.unwrap_or_default();
        let errors = answer.errors.unwrap_or_default();
        match (is_conflict, results.is_empty(), errors.is_empty()) {
            (false, _, true) => Ok(TxnOutcome::Applied(Results {
                entries: results.into_iter().map(|result| result.kv).collect(),
            })),
            (true, true, false) => Ok(TxnOutcome::RolledBack(
                errors.into_iter().map(Fault::into_public).collect(),
            )),
            // Neither half can be believed: was it applied?
            _ => Err(RequestError::Garbled {
                what: "a transaction's answer that contradicts its status",
                source: None,
            }),
        }
    }
}

impl<'a> Operation<'a> {
    /// Whether exactly one entry in the results is this operation's. A tree has any number.
    pub fn returns_entry(&self) -> bool {
        match self {
            Self::Lock { .. } | Self::Cas { .. } | Self::CheckSession { .. } => true,
            Self::Delete { .. }
            | Self::DeleteCas { .. }
            | Self::GetTree { .. }
            | Self::CheckNotExists { .. } => false,
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
            Self::Cas {
                key, value, flags, ..
            } if is_on(Defect::WriteWithoutCas) => Fields::new("set", key).storing(value, flags),
            Self::Cas {
                key,
                index,
                value,
                flags,
            } => Fields {
                index: Some(index.0),
                ..Fields::new("cas", key).storing(value, flags)
            },
            Self::Delete { key } => Fields::new("delete", key),
            Self::DeleteCas { key, index } => Fields {
                index: Some(index.0),
                ..Fields::new("delete-cas", key)
            },
            Self::GetTree { prefix } => Fields::new("get-tree", prefix.directory()),
            Self::CheckSession { key, session } => Fields {
                session: Some(session.map_or("", SessionId::as_str)),
                ..Fields::new("check-session", key)
            },
            Self::CheckNotExists { key } => Fields::new("check-not-exists", key),
        }
    }
}

impl<'a> Results<'a> {
    /// Splits off what the operations before a final [`Operation::GetTree`] returned: `heads`
    /// entries, which is how many of them [return one](Operation::returns_entry).
    ///
    /// A token that may not read a head's key gets a tree that begins too early: compare the
    /// heads' keys with those of the operations where that matters.
    ///
    /// # Errors
    /// [`RequestError::Garbled`] when there are fewer entries than heads.
    pub fn split(mut self, heads: usize) -> Result<(Vec<Entry<'a>>, Vec<Entry<'a>>), RequestError> {
        if self.entries.len() < heads {
            return Err(RequestError::Garbled {
                what: "a transaction's answer with too few results",
                source: None,
            });
        }
        let tree = self.entries.split_off(heads);
        Ok((self.entries, tree))
    }
}

impl TxnFaultKind {
    /// Reads the agent's text. A key may say anything, and stands in the middle: only the two
    /// ends count.
    fn of(what: &str) -> Self {
        let what = what.trim().to_ascii_lowercase();
        let is = |head: &str, tail: &str| what.starts_with(head) && what.ends_with(tail);
        if is("failed to set key ", ", index is stale")
            || is("failed to delete key ", ", index is stale")
        {
            Self::Stale
        } else if is("failed to lock key ", ", lock is already held") {
            Self::Held
        } else if is("failed to lock key ", " due to lock delay") {
            Self::Delayed
        } else if is("invalid session ", "") {
            Self::SessionGone
        } else if is("failed session check for key ", "")
            || is("failed to check session, key ", " doesn't exist")
            || is("key ", " exists")
        {
            Self::Check
        } else if is("permission denied", "") || is("acl not found", "") {
            Self::Denied
        } else {
            Self::Other
        }
    }
}

#[derive(Serialize)]
struct Element<'a> {
    #[serde(rename = "KV")]
    kv: Fields<'a>,
}

/// An operation as the agent reads it. It refuses the whole transaction for a field that it does
/// not know.
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

/// Both members have to be there, `null` or not: any other object is no transaction's answer.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer<'a> {
    #[serde(borrow, deserialize_with = "Option::deserialize")]
    results: Option<Vec<OneResult<'a>>>,
    #[serde(deserialize_with = "Option::deserialize")]
    errors: Option<Vec<Fault>>,
}

#[derive(Deserialize)]
struct OneResult<'a> {
    #[serde(rename = "KV", borrow)]
    kv: Entry<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Fault {
    op_index: usize,
    what: String,
}

impl Fault {
    fn into_public(self) -> TxnFault {
        TxnFault {
            operation: self.op_index,
            kind: TxnFaultKind::of(&self.what),
            text: excerpt(self.what.as_bytes()),
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

    fn applied(body: &str) -> Vec<(String, Index, Vec<u8>)> {
        let response = Response::new(200, body);
        let TxnOutcome::Applied(results) = Txn::parse(&response).unwrap() else {
            unreachable!("a rollback");
        };
        let entry = |entry: &Entry<'_>| {
            (
                entry.key().to_owned(),
                entry.modify_index(),
                entry.value().unwrap(),
            )
        };
        results.entries.iter().map(entry).collect()
    }

    #[test]
    fn what_was_applied_is_read_with_and_without_values() {
        let found = applied(
            r#"{"Results":[{"KV":{"LockIndex":1,"Key":"p/\u0026x","Flags":0,"Value":null,
                "Session":"s","CreateIndex":897,"ModifyIndex":901}},
                {"KV":{"LockIndex":0,"Key":"p/.lock","Flags":0,"Value":"e30=",
                "CreateIndex":898,"ModifyIndex":899}}],"Errors":null}"#,
        );
        assert_eq!(
            found,
            [
                ("p/&x".to_owned(), Index(901), b"".to_vec()),
                ("p/.lock".to_owned(), Index(899), b"{}".to_vec()),
            ]
        );
    }

    #[test]
    fn what_only_deletes_or_checks_returns_nothing() {
        for body in [
            r#"{"Results":null,"Errors":null}"#,
            r#"{"Results":[],"Errors":null}"#,
            r#"{"Results":[],"Errors":[]}"#,
            // Members that only a transaction of reads has, and any that a later agent adds.
            r#"{"Results":[],"Errors":null,"Index":0,"KnownLeader":true,"New":{"a":[1]}}"#,
        ] {
            assert_eq!(applied(body), []);
        }
    }

    #[test]
    fn entries_are_borrowed_where_they_stand_unescaped() {
        let response = Response::new(
            200,
            r#"{"Results":[{"KV":{"Key":"p/x","Value":"not base64"}}],"Errors":null}"#,
        );
        let TxnOutcome::Applied(results) = Txn::parse(&response).unwrap() else {
            unreachable!("a rollback");
        };
        let key = results.entries[0].key();
        assert!(response.body().as_ptr_range().contains(&key.as_ptr()));
        // A value that nobody asks for is not decoded.
        assert!(results.entries[0].value().is_err());
    }

    #[test]
    fn the_tree_begins_after_the_heads() {
        let response = Response::new(
            200,
            r#"{"Results":[{"KV":{"Key":"a"}},{"KV":{"Key":"b"}},{"KV":{"Key":"c"}}],"Errors":null}"#,
        );
        let split = |heads| {
            let TxnOutcome::Applied(results) = Txn::parse(&response).unwrap() else {
                unreachable!("a rollback");
            };
            results.split(heads)
        };
        let keys = |entries: &[Entry<'_>]| -> String { entries.iter().map(Entry::key).collect() };
        for (heads, before, after) in [(0, "", "abc"), (1, "a", "bc"), (3, "abc", "")] {
            let (head, tree) = split(heads).unwrap();
            assert_eq!((keys(&head), keys(&tree)), (before.into(), after.into()));
        }
        let error = split(4).unwrap_err();
        assert!(matches!(error, RequestError::Garbled { .. }), "{error}");
        assert!(!error.was_not_applied());
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
            Operation::Delete { key },
            Operation::DeleteCas { key, index },
            Operation::GetTree { prefix },
            Operation::CheckNotExists { key },
        ]
        .map(|operation| operation.returns_entry());
        assert_eq!(heads, [true, true, true, false, false, false, false]);
    }

    fn rolled_back(errors: &[(usize, &str)]) -> Vec<TxnFault> {
        let errors: Vec<_> = errors
            .iter()
            .map(|(at, what)| serde_json::json!({ "OpIndex": at, "What": what }))
            .collect();
        let body = serde_json::json!({ "Results": null, "Errors": errors });
        let response = Response::new(409, body.to_string());
        match Txn::parse(&response).unwrap() {
            TxnOutcome::RolledBack(faults) => faults,
            TxnOutcome::Applied(_) => unreachable!("applied"),
        }
    }

    #[test]
    fn every_fault_has_its_kind() {
        use TxnFaultKind as K;
        for (what, kind) in [
            (r#"failed to set key "p/x", index is stale"#, K::Stale),
            (r#"failed to delete key "p/x", index is stale"#, K::Stale),
            (r#"failed to lock key "p/x", lock is already held"#, K::Held),
            (r#"failed to lock key "p/x" due to lock delay"#, K::Delayed),
            (&format!("invalid session \"{SESSION}\""), K::SessionGone),
            (
                r#"failed to check session, key "p/x" doesn't exist"#,
                K::Check,
            ),
            (
                r#"failed session check for key "p/x", current session "" != "s""#,
                K::Check,
            ),
            (r#"key "p/x" exists"#, K::Check),
            ("Permission denied", K::Denied),
            (
                "Permission denied: token with AccessorID 'x' lacks permission 'key:write'",
                K::Denied,
            ),
            ("ACL not found", K::Denied),
            (r#"key "p/x" doesn't exist"#, K::Other),
            ("Must provide key", K::Other),
            ("", K::Other),
        ] {
            let faults = rolled_back(&[(1, what)]);
            let text = what.to_owned();
            assert_eq!(
                faults,
                [TxnFault {
                    operation: 1,
                    kind,
                    text
                }]
            );
        }
    }

    #[test]
    fn every_fault_is_listed() {
        let faults = rolled_back(&[
            (0, r#"invalid session "s""#),
            (2, r#"failed to set key "k", index is stale"#),
        ]);
        let found: Vec<_> = faults.iter().map(|f| (f.operation, f.kind)).collect();
        assert_eq!(
            found,
            [(0, TxnFaultKind::SessionGone), (2, TxnFaultKind::Stale)]
        );
    }

    #[test]
    fn what_a_key_says_is_not_what_failed() {
        use TxnFaultKind as K;
        for (what, kind) in [
            (
                r#"failed to lock key "a, index is stale", lock is already held"#,
                K::Held,
            ),
            (
                r#"failed to set key "invalid session \"x\"", index is stale"#,
                K::Stale,
            ),
            (r#"key "x due to lock delay" exists"#, K::Check),
            (r#"key "x exists" doesn't exist"#, K::Other),
        ] {
            assert_eq!(rolled_back(&[(0, what)])[0].kind, kind, "{what}");
        }
    }

    #[test]
    fn a_long_key_hides_no_reason_and_the_text_stays_one_short_line() {
        let key = "x\n".repeat(1_000);
        let fault =
            &rolled_back(&[(0, &format!("failed to set key \"{key}\", index is stale"))])[0];
        assert_eq!(fault.kind, TxnFaultKind::Stale);
        assert_eq!(fault.text.chars().count(), 200);
        assert!(!fault.text.chars().any(char::is_control));
    }

    #[test]
    fn whatever_is_not_a_transactions_answer_is_garbled_and_may_have_been_applied() {
        let fault = r#"{"OpIndex":0,"What":"x"}"#;
        let entry = r#"{"KV":{"Key":"k"}}"#;
        let contradictions = [
            (200, format!(r#"{{"Results":null,"Errors":[{fault}]}}"#)),
            (
                409,
                format!(r#"{{"Results":[{entry}],"Errors":[{fault}]}}"#),
            ),
            (409, r#"{"Results":null,"Errors":null}"#.to_owned()),
            (409, r#"{"Results":null,"Errors":[]}"#.to_owned()),
            (
                409,
                r#"{"Results":null,"Errors":[{"OpIndex":-1,"What":"x"}]}"#.to_owned(),
            ),
            (
                409,
                r#"{"Results":null,"Errors":[{"What":"x"}]}"#.to_owned(),
            ),
            (409, r#"{"Results":null,"Errors":["x"]}"#.to_owned()),
        ];
        let garbage = [
            "",
            "true",
            "null",
            "[]",
            "{}",
            "<html>Conflict</html>",
            r#"{"Results":[]}"#,
            r#"{"Errors":null}"#,
            r#"{"Results":{},"Errors":null}"#,
            r#"{"Results":[{}],"Errors":null}"#,
            r#"{"Results":[{"KV":null}],"Errors":null}"#,
            r#"{"Results":[{"KV":{"Key":7}}],"Errors":null}"#,
            r#"{"Results":[{"KV":{"Key":"\ud800"}}],"Errors":null}"#,
            r#"{"Results":[{"KV":{"Key":"k"#,
            r#"{"Results":null,"Errors":null"#,
            r#"{"Results":null,"Errors":null}{"#,
        ];
        let mut answers = vec![
            Response::new(
                200,
                b"{\"Results\":[{\"KV\":{\"Key\":\"\xff\"}}],\"Errors\":null}",
            ),
            Response::new(409, b"\xff\xfe".as_slice()),
            Response::new(204, ""),
        ];
        answers.extend(contradictions.map(|(status, body)| Response::new(status, body)));
        for body in garbage {
            answers.extend([200, 409].map(|status| Response::new(status, body)));
        }
        for response in answers {
            let error = Txn::parse(&response).unwrap_err();
            assert!(matches!(error, RequestError::Garbled { .. }), "{error}");
            assert!(!error.is_permanent(), "{response:?}");
            assert!(!error.was_not_applied(), "{response:?}");
        }
    }

    #[test]
    fn any_other_status_means_what_it_means_everywhere() {
        for (status, is_permanent) in [
            (400, true),
            (403, true),
            (404, true),
            (405, true),
            (413, true),
            (429, false),
            (500, false),
            (503, false),
        ] {
            let error = Txn::parse(&Response::new(status, "no")).unwrap_err();
            assert_eq!(error.is_permanent(), is_permanent, "{error}");
        }
    }
}
