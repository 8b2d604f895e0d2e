//! The answer to a transaction: its results, or the reasons for its rollback.

use serde::Deserialize;

use super::answer::{self, excerpt, garbled};
use super::entry::Entry;
use crate::error::RequestError;
use crate::http::Response;

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
    /// One entry, without its value, for each operation that
    /// [returns one](super::Operation::returns_entry), and the tree's entries with their values.
    /// Entries that the token may not read are missing.
    pub entries: Vec<Entry<'a>>,
    /// Whether the agent says that entries are missing. It says so for transactions that only read
    /// (Consul 1.11 and newer), but not for those that write.
    pub filtered: bool,
}

/// Why a transaction was rolled back: one operation that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TxnFault {
    /// Its place among the operations, counted from zero.
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
    /// The key or node has changed since the index that a check-and-set gave.
    Stale,
    /// The key is tied to another session.
    Held,
    /// The key's last session was invalidated, and its lock delay is not over.
    Delayed,
    /// The session is gone.
    SessionGone,
    /// A check failed: another session or none, another index, or a key that exists or does not.
    /// Also a key to read that does not exist.
    Check,
    /// The token lacks a permission, or is unknown.
    Denied,
    /// Anything else.
    Other,
}

impl<'a> Results<'a> {
    /// Splits off the entries of the operations before a final
    /// [`GetTree`](super::Operation::GetTree). `heads` is the number of those operations that
    /// [return an entry](super::Operation::returns_entry).
    ///
    /// If the token may not read the key of a head, the split is at the wrong place. If that
    /// matters, compare the keys of the heads with those of the operations.
    ///
    /// # Errors
    /// [`RequestError::Garbled`] if there are fewer entries than heads.
    pub fn split(mut self, heads: usize) -> Result<(Vec<Entry<'a>>, Vec<Entry<'a>>), RequestError> {
        if self.entries.len() < heads {
            return Err(RequestError::garbled(
                "a transaction's answer with too few results",
            ));
        }
        let tree = self.entries.split_off(heads);
        Ok((self.entries, tree))
    }
}

impl TxnFaultKind {
    /// Classifies the agent's text by its beginning and its end. The key in the middle may be
    /// anything.
    fn of(what: &str) -> Self {
        let what = what.trim().to_ascii_lowercase();
        let is = |head: &str, tail: &str| what.starts_with(head) && what.ends_with(tail);
        if is("failed to set key ", ", index is stale")
            || is("failed to delete key ", ", index is stale")
            || is("failed to set node ", ", index is stale")
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
            || is("failed index check for key ", "")
            || is("failed to check index, key ", " doesn't exist")
            || is(
                "failed to unlock key ",
                ", lock isn't held, or is held by another session",
            )
            || is("key ", " exists")
            || is("key ", " doesn't exist")
        {
            Self::Check
        } else if is("permission denied", "") || is("acl not found", "") {
            Self::Denied
        } else {
            Self::Other
        }
    }
}

/// With either status the body has both members, and one of them is empty.
pub(super) fn read(response: &Response) -> Result<TxnOutcome<'_>, RequestError> {
    let (body, is_conflict) = match response.status() {
        409 => (response.body(), true),
        _ => (answer::served(response)?, false),
    };
    let text = core::str::from_utf8(body)
        .map_err(|error| garbled("a transaction's answer that is not UTF-8", error))?;
    let answer: Answer<'_> =
        serde_json::from_str(text).map_err(|error| garbled("not a transaction's answer", error))?;
    let results = answer.results.unwrap_or_default();
    let errors = answer.errors.unwrap_or_default();
    match (is_conflict, results.is_empty(), errors.is_empty()) {
        (false, _, true) => Ok(TxnOutcome::Applied(Results {
            entries: results.into_iter().map(|result| result.kv).collect(),
            filtered: answer.is_filtered || answer::is_filtered(response),
        })),
        (true, true, false) => Ok(TxnOutcome::RolledBack(
            errors.into_iter().map(Fault::into_public).collect(),
        )),
        // Both members can't be true: it is unknown whether it was applied.
        _ => Err(RequestError::garbled(
            "a transaction's answer that contradicts its status",
        )),
    }
}

/// Both members are required, even as `null`: another object is not the answer to a transaction.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer<'a> {
    #[serde(borrow, deserialize_with = "Option::deserialize")]
    results: Option<Vec<OneResult<'a>>>,
    #[serde(deserialize_with = "Option::deserialize")]
    errors: Option<Vec<Fault>>,
    #[serde(rename = "ResultsFilteredByACLs", default)]
    is_filtered: bool,
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
    use super::super::Txn;
    use super::super::examples::SESSION;
    use super::*;
    use crate::id::Index;

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
            // Members that only a transaction of reads has, and members of later agents.
            r#"{"Results":[],"Errors":null,"Index":0,"KnownLeader":true,"New":{"a":[1]}}"#,
        ] {
            assert_eq!(applied(body), []);
        }
    }

    /// A transaction that only reads reports missing entries in its body; a list does in a header.
    #[test]
    fn what_was_left_out_is_told_by_a_transaction_of_reads() {
        for (body, expected) in [
            (r#"{"Results":[],"Errors":null}"#, false),
            (
                r#"{"Results":[],"Errors":null,"ResultsFilteredByACLs":false}"#,
                false,
            ),
            (
                r#"{"Results":[],"Errors":null,"Index":1,"ResultsFilteredByACLs":true}"#,
                true,
            ),
            (
                r#"{"Results":[{"KV":{"Key":"a"}}],"Errors":null,"ResultsFilteredByACLs":true}"#,
                true,
            ),
        ] {
            let response = Response::new(200, body);
            let TxnOutcome::Applied(results) = Txn::parse(&response).unwrap() else {
                unreachable!("a rollback");
            };
            assert_eq!(results.filtered, expected, "{body}");
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
        // An unused value is not decoded.
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
            (
                r#"failed to unlock key "p/x", lock isn't held, or is held by another session"#,
                K::Check,
            ),
            (r#"key "p/x" exists"#, K::Check),
            ("Permission denied", K::Denied),
            (
                "Permission denied: token with AccessorID 'x' lacks permission 'key:write'",
                K::Denied,
            ),
            ("ACL not found", K::Denied),
            (r#"key "p/x" doesn't exist"#, K::Check),
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
            (r#"key "x exists" is odd"#, K::Other),
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
