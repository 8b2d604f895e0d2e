//! Whether a candidate's requests follow from what it was shown of its key.
//!
//! It sees every delivered answer. The key may only be written by `acquire` and `release`, with
//! sessions that the candidate created. It may only be acquired from a state that some answer has
//! shown. In that state the key must be free, or the candidate's own.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use semaphore_core::SessionId;
use semaphore_core::sans_io::api::{CreateSession, Entry, LOCK_FLAGS, ReadKey, Txn, TxnOutcome};
use semaphore_core::sans_io::{Request, Response, Term};
use serde_json::Value as Json;
use transport_mock::RequestKind;

use crate::oracle::{check_line, parameter, path};
use crate::stranger::KEY;

/// Everything that a candidate was shown.
#[derive(Default)]
pub(crate) struct KeyOracle {
    /// The sessions that it created.
    ours: BTreeSet<SessionId>,
    shown: BTreeSet<Shown>,
    /// The values that it may write.
    values: BTreeSet<Vec<u8>>,
}

/// A state of the key. If there is no key, the index is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Shown {
    modify_index: u64,
    lock_index: u64,
    session: Option<SessionId>,
    flags: u64,
    value: Vec<u8>,
}

impl KeyOracle {
    /// From now on, the candidate may write this value.
    pub(crate) fn allow(&mut self, value: &[u8]) {
        self.values.insert(value.to_vec());
    }

    /// An answer is about to be delivered.
    pub(crate) fn show(&mut self, request: &Request, response: &Response) {
        match RequestKind::of(request) {
            RequestKind::SessionCreate => self.ours.extend(CreateSession::parse(response)),
            RequestKind::KvRead | RequestKind::KvWatch => {
                if let Ok(found) = ReadKey::parse(response) {
                    self.shown
                        .insert(found.as_ref().map(shown).unwrap_or_default());
                }
            }
            RequestKind::Txn => {
                if let Ok(TxnOutcome::Applied(results)) = Txn::parse(response) {
                    self.shown.extend(results.entries.iter().map(shown));
                }
            }
            _ => {}
        }
    }

    /// The candidate leads, so an answer must have shown its session at the key, with the same
    /// indexes.
    pub(crate) fn check_term(&self, term: &Term) {
        let sequencer = &term.sequencer;
        assert_eq!(sequencer.key, KEY);
        assert!(self.is_ours(sequencer.session.as_str()), "{term:?}");
        let is_it = |shown: &Shown| {
            shown.session.as_ref() == Some(&sequencer.session)
                && shown.lock_index == sequencer.lock_index
                && shown.modify_index == term.token.0
        };
        assert!(self.shown.iter().any(is_it), "no answer shows {term:?}");
    }

    /// The candidate sends a request.
    pub(crate) fn check(&self, request: &Request) {
        check_line(request);
        let path = path(request);
        let of_session = |start: &str| path.strip_prefix(start);
        match RequestKind::of(request) {
            RequestKind::KvRead | RequestKind::KvWatch => assert_eq!(path, format!("/v1/kv/{KEY}")),
            RequestKind::KvAcquire => {
                assert_eq!(path, format!("/v1/kv/{KEY}"));
                self.check_acquisition(
                    parameter(request, "acquire").unwrap_or_default(),
                    parameter(request, "flags").and_then(|flags| flags.parse().ok()),
                    request.body(),
                );
                let may_acquire = |shown: &Shown| self.may_acquire(shown);
                assert!(self.shown.iter().any(may_acquire), "nothing shows it free");
            }
            RequestKind::KvRelease => self.check_release(&path, request),
            RequestKind::Txn => self.check_transaction(request),
            RequestKind::SessionRenew => self.check_own(of_session("/v1/session/renew/")),
            RequestKind::SessionDestroy => self.check_own(of_session("/v1/session/destroy/")),
            kind => assert_eq!(kind, RequestKind::SessionCreate, "{request:?}"),
        }
    }

    fn check_own(&self, session: Option<&str>) {
        assert!(session.is_some_and(|id| self.is_ours(id)), "{session:?}");
    }

    fn check_acquisition(&self, session: &str, flags: Option<u64>, value: &[u8]) {
        assert!(self.is_ours(session), "{session} is not its own");
        assert_eq!(flags, Some(LOCK_FLAGS));
        assert!(
            self.may_say(value) || self.has_said(value),
            "it says {value:?}"
        );
    }

    /// A release leaves a value that the key had while it was the candidate's, or one that the
    /// candidate may write.
    fn check_release(&self, path: &str, request: &Request) {
        assert_eq!(path, format!("/v1/kv/{KEY}"));
        let session = parameter(request, "release").unwrap_or_default();
        assert!(self.is_ours(session), "{session} is not its own");
        let was_shown = |it: &Shown| it.value == request.body();
        assert!(self.may_say(request.body()) || self.shown.iter().any(was_shown));
    }

    /// A transaction acquires or releases once, and checks a state of the key that was shown. Or it
    /// proves that the key is tied to a session.
    fn check_transaction(&self, request: &Request) {
        let body: Json = serde_json::from_slice(request.body()).expect("a transaction is JSON");
        let operations = body.as_array().expect("a transaction is a list");
        if let [proof] = &operations[..] {
            let proof = &proof["KV"];
            assert_eq!(
                (&proof["Verb"], &proof["Key"]),
                (&"check-session".into(), &KEY.into())
            );
            self.check_own(proof["Session"].as_str());
            return;
        }
        assert_eq!(operations.len(), 2);
        let (check, lock) = (&operations[0]["KV"], &operations[1]["KV"]);
        assert_eq!((&check["Key"], &lock["Key"]), (&KEY.into(), &KEY.into()));
        let base = if check["Verb"] == "check-not-exists" {
            0
        } else {
            assert_eq!(check["Verb"], "check-index");
            check["Index"].as_u64().expect("an index")
        };
        let session = lock["Session"].as_str().unwrap_or_default();
        let value = STANDARD.decode(lock["Value"].as_str().unwrap_or_default());
        let value = value.expect("a value is Base64");
        if lock["Verb"] == "unlock" {
            assert!(self.is_ours(session), "{session} is not its own");
            let is_base = |shown: &Shown| {
                let is_tied = shown
                    .session
                    .as_ref()
                    .is_some_and(|it| it.as_str() == session);
                shown.modify_index == base && is_tied
            };
            assert!(
                self.may_say(&value) || self.has_said(&value),
                "it leaves {value:?}"
            );
            assert!(
                self.shown.iter().any(is_base),
                "nothing shows it its own at {base}"
            );
            return;
        }
        assert_eq!(lock["Verb"], "lock");
        self.check_acquisition(session, lock["Flags"].as_u64(), &value);
        let is_base = |shown: &Shown| shown.modify_index == base && self.may_acquire(shown);
        assert!(
            self.shown.iter().any(is_base),
            "nothing shows it free at {base}"
        );
    }

    /// Whether the key is free and an election's, or the candidate's own, whose value may change.
    fn may_acquire(&self, shown: &Shown) -> bool {
        match &shown.session {
            Some(session) => self.ours.contains(session),
            None if shown.flags == 0 => shown.value.is_empty() || shown.lock_index > 0,
            None => shown.flags == LOCK_FLAGS,
        }
    }

    fn may_say(&self, value: &[u8]) -> bool {
        self.values.contains(value)
    }

    /// Whether the key was shown with this value while it was the candidate's. If Consul refuses a change,
    /// the leader keeps that.
    fn has_said(&self, value: &[u8]) -> bool {
        let is_ours = |shown: &Shown| {
            shown
                .session
                .as_ref()
                .is_some_and(|it| self.ours.contains(it))
        };
        let mut all = self.shown.iter();
        all.any(|shown| is_ours(shown) && shown.value == value)
    }

    fn is_ours(&self, session: &str) -> bool {
        SessionId::new(session).is_ok_and(|session| self.ours.contains(&session))
    }
}

fn shown(entry: &Entry<'_>) -> Shown {
    Shown {
        modify_index: entry.modify_index().0,
        lock_index: entry.lock_index(),
        session: entry.session().and_then(|id| SessionId::new(id).ok()),
        flags: entry.flags(),
        value: entry.value().unwrap_or_default(),
    }
}
