use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};

use crate::input::Value;
use crate::machine::fixture::{self, A, B, C, session};
use crate::machine::semaphore::steps::*;
use crate::record::Record;
use crate::view::{Claimed, ContenderFlags, Key};

fn settings() -> Settings {
    fixture::settings().with_value(Value::new("us").unwrap())
}

/// The operations of a transaction, one line each: the verb, the key, and other arguments.
fn lines(request: &Request) -> Vec<String> {
    assert!(request.target().starts_with("/v1/txn"), "{request:?}");
    let body: Vec<Json> = serde_json::from_slice(request.body()).unwrap();
    let line = |it: &Json| {
        let it = &it["KV"];
        let text = |name| it[name].as_str().unwrap_or("-").to_owned();
        let number = |name| it[name].as_u64().map_or("-".to_owned(), |n| n.to_string());
        let value = it["Value"].as_str().map(|it| STANDARD.decode(it).unwrap());
        let value = value.map_or("-".to_owned(), |it| String::from_utf8(it).unwrap());
        [
            text("Verb"),
            text("Key"),
            text("Session"),
            number("Index"),
            number("Flags"),
            value,
        ]
        .join(" ")
    };
    body.iter().map(line).collect()
}

fn write(holders: &[&str]) -> Write {
    let mut record = Record::new(1);
    for holder in holders {
        record.add(holder);
    }
    Write {
        record,
        base: Index(50),
        admit: vec![],
        withdraw: vec![],
    }
}

fn rest(steps: Vec<Step>) -> Rest {
    Rest {
        steps,
        ..Rest::default()
    }
}

/// For a session with a lock delay of half a minute.
const ENTERING: ContenderFlags = ContenderFlags::entering(core::time::Duration::from_secs(30));
const CLAIMING: ContenderFlags = ContenderFlags {
    claim: Claimed::One,
    ..ENTERING
};

/// The entry of a key below the prefix, as a result.
fn result(name: &str, tied_to: &str, index: u64) -> Json {
    json!({"KV": {
        "Key": format!("jobs/{name}"), "Session": tied_to, "CreateIndex": 7, "ModifyIndex": index,
        "LockIndex": 1, "Flags": CLAIMING.encode(), "Value": null,
    }})
}

fn applied(results: &[Json]) -> Response {
    Response::new(200, json!({"Results": results, "Errors": null}).to_string())
}

fn rolled_back(faults: &[(usize, &str)]) -> Response {
    let fault = |(at, what): &(usize, &str)| json!({"OpIndex": at, "What": what});
    let faults: Vec<_> = faults.iter().map(fault).collect();
    Response::new(409, json!({"Results": null, "Errors": faults}).to_string())
}

const STALE: &str = r#"failed to set key "jobs/.lock", index is stale"#;
const HELD: &str = r#"failed to lock key "jobs/x", lock is already held"#;
const DELAYED: &str = r#"failed to lock key "jobs/x" due to lock delay"#;
const GONE: &str = r#"invalid session "aaaaaaaa-0000-0000-0000-000000000000""#;
const CHECK: &str = r#"key "jobs/x" exists"#;
const DENIED: &str = "Permission denied: token lacks permission 'key:write' on 'jobs/x'";
const OTHER: &str = "raft apply failed";

#[test]
fn entering_locks_the_key_and_reads_the_prefix() {
    let request = enter(&session(A), ENTERING, Along::Prefix, &settings());
    assert_eq!(
        lines(&request),
        [
            format!("lock jobs/{A} {A} - {} us", ENTERING.encode()),
            "get-tree jobs/ - - - -".to_owned(),
        ]
    );
}

#[test]
fn where_the_queue_is_known_entering_locks_the_key_alone() {
    let request = enter(&session(A), ENTERING, Along::Nothing, &settings());
    let lock = format!("lock jobs/{A} {A} - {} us", ENTERING.encode());
    assert_eq!(lines(&request), [lock]);
}

/// How the answer to entering with `A` is read.
fn entry(response: &Response) -> Result<Entered, RequestError> {
    entered(response, &session(A), Along::Prefix, &settings())
}

#[test]
fn whoever_entered_by_a_transaction_is_shown_its_key_and_the_prefix() {
    let own = result(A, A, 9);
    let answer = applied(&[own.clone(), own, result(B, B, 8)]);
    let Ok(Entered::Tied(Some(arrival))) = entry(&answer) else {
        unreachable!("it shows both");
    };
    let (own, view) = *arrival;
    let view = view.expect("the prefix");
    assert_eq!((own.session, own.modify_index), (session(A), Index(9)));
    assert_eq!(view.index(), Index(9));
    assert!(matches!(view.key(&session(A)), Key::Tied(_)));
    assert!(matches!(view.key(&session(B)), Key::Tied(_)));
}

#[test]
fn an_answer_to_entering_that_does_not_begin_with_the_own_key_shows_nothing() {
    // If the token may not read its key, the tree begins where the key should be.
    for results in [vec![], vec![result(B, B, 8)], vec![result(".lock", "", 8)]] {
        let found = entry(&applied(&results));
        assert!(matches!(found, Ok(Entered::Tied(None))), "{found:?}");
    }
}

#[test]
fn a_key_that_another_session_has_is_taken() {
    for fault in [HELD, DELAYED] {
        let answer = rolled_back(&[(0, fault)]);
        let found = entry(&answer);
        assert!(matches!(found, Ok(Entered::Taken)), "{fault}: {found:?}");
    }
}

#[test]
fn why_nobody_entered_is_told() {
    let error = |fault| entry(&rolled_back(&[(0, fault)])).unwrap_err();
    assert!(matches!(error(GONE), RequestError::InvalidSession { text, .. } if text == GONE));
    assert!(matches!(error(DENIED), RequestError::Denied { .. }));
    assert!(matches!(
        error(OTHER),
        RequestError::Rejected { status: 409, .. }
    ));
    let garbled = entry(&Response::new(200, "true"));
    assert!(matches!(garbled, Err(RequestError::Garbled { .. })));
}

#[test]
fn each_step_of_a_write_is_one_operation_before_the_records() {
    let steps = vec![
        Step::Tied(session(A)),
        Step::Claim(ContenderNo(0), session(A), CLAIMING),
        Step::Enter(ContenderNo(1), session(B), ENTERING),
        Step::Absent(session(C)),
        Step::Free(session(C)),
        Step::Leave(session(B)),
    ];
    let record = String::from_utf8(write(&[A]).record.encode()).unwrap();
    let flags = write(&[A]).record.flags();
    let mut expected = vec![
        format!("check-session jobs/{A} {A} - - -"),
        format!("lock jobs/{A} {A} - {} us", CLAIMING.encode()),
        format!("lock jobs/{B} {B} - {} us", ENTERING.encode()),
        format!("check-not-exists jobs/{C} - - - -"),
        format!("check-session jobs/{C}  - - -"),
        format!("delete jobs/{B} - - - -"),
        format!("cas jobs/.lock - 50 {flags} {record}"),
    ];
    let request = super::write(&write(&[A]), &rest(steps.clone()), &settings());
    assert_eq!(lines(&request), expected);

    expected.push("get-tree jobs/ - - - -".to_owned());
    let reads = Rest {
        steps,
        reads: true,
        ..Rest::default()
    };
    let request = super::write(&write(&[A]), &reads, &settings());
    assert_eq!(lines(&request), expected);
}

/// A claim of `A`, a newcomer `B`, somebody pruned and somebody who leaves.
fn claim(reads: bool) -> Rest {
    let steps = vec![
        Step::Tied(session(A)),
        Step::Claim(ContenderNo(0), session(A), CLAIMING),
        Step::Enter(ContenderNo(1), session(B), ENTERING),
        Step::Absent(session(C)),
        Step::Leave(session(C)),
    ];
    Rest {
        steps,
        reads,
        ..Rest::default()
    }
}

/// The first results of [`claim`].
fn heads() -> Vec<Json> {
    vec![
        result(A, A, 60),
        result(A, A, 61),
        result(B, B, 61),
        result(".lock", "", 61),
    ]
}

fn written_by(rest: &Rest, response: &Response) -> Result<Written, RequestError> {
    written(response, rest, &settings())
}

#[test]
fn an_applied_write_tells_the_index_and_the_keys_that_it_locked() {
    let Ok(Written::Applied(Some(after))) = written_by(&claim(false), &applied(&heads())) else {
        unreachable!("it shows all");
    };
    assert_eq!(after.index, Index(61));
    let locked: Vec<_> = after
        .locked
        .iter()
        .map(|(no, it)| (*no, it.session.as_str(), it.modify_index, it.flags))
        .collect();
    assert_eq!(
        locked,
        [
            (ContenderNo(0), A, Index(61), CLAIMING.encode()),
            (ContenderNo(1), B, Index(61), CLAIMING.encode()),
        ]
    );
    assert!(after.view.is_none(), "it was not read along");
}

#[test]
fn a_prefix_that_was_read_along_is_shown_at_the_index_of_the_write() {
    let mut results = heads();
    results.push(result(B, B, 61));
    let Ok(Written::Applied(Some(after))) = written_by(&claim(true), &applied(&results)) else {
        unreachable!("it shows all");
    };
    let view = after.view.unwrap();
    assert_eq!(view.index(), Index(61));
    assert!(matches!(view.key(&session(B)), Key::Tied(_)));
    // The heads don't belong to the tree.
    assert!(matches!(view.key(&session(A)), Key::Absent));
}

#[test]
fn an_applied_write_that_leaves_keys_out_tells_no_more_than_that() {
    let mut swapped = heads();
    swapped.swap(0, 2);
    let mut results = vec![vec![], swapped];
    for left_out in 0..heads().len() {
        let mut heads = heads();
        heads.remove(left_out);
        results.push(heads.clone());
        // A tree that begins too early.
        heads.push(result(C, C, 5));
        results.push(heads);
    }
    for results in results {
        for reads in [false, true] {
            let found = written_by(&claim(reads), &applied(&results));
            assert!(
                matches!(found, Ok(Written::Applied(None))),
                "{results:?}: {found:?}"
            );
        }
    }
}

#[test]
fn a_write_is_refused_for_the_records_index_or_for_what_it_took_for_granted() {
    let record = claim(false).steps.len();
    for (faults, expected) in [
        (vec![(record, STALE)], false),
        // The same for a key that is deleted only if it is unchanged.
        (vec![(record - 1, STALE)], true),
        (vec![(0, HELD)], true),
        (vec![(1, DELAYED)], true),
        (vec![(0, CHECK)], true),
        (vec![(2, GONE)], true),
        (vec![(0, CHECK), (record, STALE)], true),
    ] {
        let found = written_by(&claim(false), &rolled_back(&faults));
        assert!(
            matches!(found, Ok(Written::Refused { is_unfounded }) if is_unfounded == expected),
            "{faults:?}: {found:?}"
        );
    }
}

#[test]
fn a_write_that_failed_for_another_reason_is_an_error() {
    for faults in [
        vec![(5, DENIED)],
        vec![(5, STALE), (0, DENIED)],
        vec![(0, DENIED), (0, CHECK)],
    ] {
        let found = written_by(&claim(false), &rolled_back(&faults));
        assert!(
            matches!(found, Err(RequestError::Denied { .. })),
            "{faults:?}: {found:?}"
        );
    }
    let found = written_by(&claim(false), &rolled_back(&[(5, STALE), (0, OTHER)]));
    assert!(
        matches!(&found, Err(RequestError::Rejected { status: 409, text, .. }) if text == OTHER),
        "{found:?}"
    );
}

#[test]
fn whose_keys_a_write_deletes_is_known() {
    let rest = claim(false);
    assert_eq!(rest.leaving(), [session(C)]);
    assert!(rest.deletes_key_of(&session(C)));
    assert!(!rest.deletes_key_of(&session(A)));
}

#[test]
fn a_probe_asks_for_every_key_and_can_never_be_applied() {
    let request = probe(&[session(B), session(C)], &session(A), &settings()).unwrap();
    assert_eq!(
        lines(&request),
        [
            format!("lock jobs/{B} {A} - 0 "),
            format!("lock jobs/{C} {A} - 0 "),
            format!("check-not-exists jobs/{B} - - - -"),
        ]
    );
    assert!(probe(&[], &session(A), &settings()).is_none());
}

#[test]
fn a_probe_tells_of_each_key_whether_it_could_be_acquired() {
    use Probed::{Free, NotYet, Unknown};
    for (faults, probed) in [
        (&[(2, CHECK)][..], [Free, Free]),
        (&[(0, HELD), (2, CHECK)], [NotYet, Free]),
        (&[(1, HELD), (2, CHECK)], [Free, NotYet]),
        // If there is a lock delay, only that is reported.
        (&[(0, DELAYED)], [NotYet, Unknown]),
        (&[(0, DELAYED), (1, DELAYED)], [NotYet, NotYet]),
        (&[(0, DELAYED), (2, CHECK)], [NotYet, Unknown]),
        // Without the last one it is unknown whether the others were checked.
        (&[(0, HELD)], [NotYet, Unknown]),
    ] {
        let found = super::probed(&rolled_back(faults), 2).unwrap();
        assert_eq!(found, probed, "{faults:?}");
    }
}

#[test]
fn a_probe_that_failed_tells_nothing() {
    let error = |faults: &[(usize, &str)]| probed(&rolled_back(faults), 1).unwrap_err();
    for faults in [&[(0, GONE)][..], &[(0, GONE), (1, CHECK)]] {
        assert!(matches!(error(faults), RequestError::InvalidSession { .. }));
    }
    assert!(matches!(error(&[(0, DENIED)]), RequestError::Denied { .. }));
    assert!(matches!(error(&[(1, DENIED)]), RequestError::Denied { .. }));
    for faults in [
        &[(0, OTHER)][..],
        &[(0, CHECK)],
        &[(1, HELD)],
        &[(2, CHECK)],
    ] {
        let error = error(faults);
        assert!(matches!(error, RequestError::Rejected { .. }), "{error:?}");
    }
    let applied = probed(&applied(&[]), 1);
    assert!(matches!(applied, Err(RequestError::Garbled { .. })));
}
