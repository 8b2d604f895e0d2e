//! What an error says: what failed, on which key, at which address, why, and what to do.

use real_agent::Gateway;

use crate::support::{Ran, Running, closed_port, run, scene};

/// Asserts that the error has all of these parts, in this order and in one line.
#[track_caller]
fn assert_says(ran: &Ran, parts: &[&str]) {
    let mut rest = ran.stderr.as_str();
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else {
            panic!("{part:?} is missing in {rest:?} of {ran:?}");
        };
        rest = after;
    }
    assert_eq!(ran.stderr.trim_end().lines().count(), 1, "{ran:?}");
    // Each cause appears only once.
    let cause = parts.last().expect("a part");
    assert!(!rest.contains(cause), "{ran:?}");
}

#[test]
fn an_agent_that_is_away_is_named_with_the_key_and_the_request() {
    let nowhere = closed_port();
    let session = "0c274d9e-cf27-fb56-3003-3da40744f339";
    for (arguments, what, request) in [
        (
            vec!["status", "service/db"],
            "semaphore \"service/db\"",
            "GET /v1/kv/service/db/",
        ),
        (
            vec!["list", "service"],
            "what is below \"service\"",
            "GET /v1/kv/service/",
        ),
        (
            vec!["evict", "--yes", session],
            &format!("session {session}"),
            &format!("GET /v1/session/info/{session}"),
        ),
        (
            vec!["elect", "status", "leader"],
            "election \"leader\"",
            "GET /v1/kv/leader",
        ),
    ] {
        let ran = run(&nowhere, &arguments);
        assert_eq!(ran.code, Some(121), "{ran:?}");
        assert_says(
            &ran,
            &[
                &format!("consul-semaphore: {what} at {nowhere}: {request} got no answer: "),
                "could not be reached",
                "is an agent running there, and is the address right?",
            ],
        );
    }
    let checked = run(&nowhere, &["check", "service/db"]).stdout;
    let said = format!("the agent at {nowhere}: GET /v1/status/leader got no answer: ");
    assert!(checked.contains(&said), "{checked}");
}

#[test]
fn what_answers_in_consuls_place_is_named() {
    let gateway = Gateway::start(404).expect("a port");
    let url = &format!("http://{}", gateway.addr());
    let checked = run(url, &["check"]).stdout;
    let said = format!("what answers at {url} is not Consul: 404");
    assert!(checked.contains(&said), "{checked}");
}

#[test]
fn what_is_not_there_is_named_with_what_to_do() {
    let (agent, prefix) = scene();
    let url = agent.url();
    let here = format!("semaphore {prefix:?} at {url}: ");
    assert_says(
        &run(url, &["status", &prefix]),
        &[
            &here,
            "there is no semaphore under this prefix",
            "`list` shows",
        ],
    );
    let session = "0c274d9e-cf27-fb56-3003-3da40744f339";
    assert_says(
        &run(url, &["evict", "--yes", session]),
        &[
            &format!("session {session} at {url}: "),
            "no such session",
            "`status` shows",
        ],
    );

    let key = format!("{prefix}/.lock");
    let put = agent.put(&format!("/v1/kv/{key}"), b"a note");
    assert_eq!(put.expect("an answer").status, 200);
    let ran = run(url, &["status", &prefix]);
    assert_eq!(ran.code, Some(123), "{ran:?}");
    let said = format!("the key {key:?} is not a semaphore's: ");
    assert_says(&ran, &[&here, &said, "give another prefix"]);
    let deleted = agent.delete(&format!("/v1/kv/{key}"));
    assert_eq!(deleted.expect("an answer").status, 200);
}

#[test]
fn a_try_that_gets_nothing_says_where() {
    let (agent, prefix) = scene();
    let mut holder = Running::start(agent.url(), &[&prefix, "--", "sleep", "1000"]);
    holder.event("started");
    let ran = run(agent.url(), &["run", "--try", &prefix, "--", "true"]);
    assert_eq!(ran.code, Some(124), "{ran:?}");
    let here = format!("semaphore {prefix:?} at {}: ", agent.url());
    assert_says(&ran, &[&here, "nothing was granted: "]);
    holder.signal("TERM");
    holder.end();
    agent.assert_nothing_left(&prefix);
}
