//! Leftovers of any kind are found.

// Helpers are part of the tests.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use real_agent::{Agent, Client, assert_nothing_left};

#[test]
fn an_untouched_prefix_has_nothing_left() {
    let client = Agent::shared().unwrap();
    assert_nothing_left(client.url(), "untouched");
}

#[test]
fn a_record_without_holders_is_not_left_over() {
    let client = Agent::shared().unwrap();
    for record in [
        r#"{"Limit":3,"Holders":{}}"#,
        r#"{"Limit":3,"Holders":[]}"#,
        r#"{"limit":3,"holders":[]}"#,
    ] {
        client.put("/v1/kv/quiet/.lock", record.as_bytes()).unwrap();
        client.assert_nothing_left("quiet");
    }
}

#[test]
fn a_holder_entry_is_found_in_each_dialect() {
    let client = Agent::shared().unwrap();
    for record in [
        r#"{"Limit":3,"Holders":{"somebody":true}}"#,
        r#"{"Limit":3,"Holders":["somebody"]}"#,
        r#"{"limit":3,"holders":["somebody"]}"#,
    ] {
        client.put("/v1/kv/held/.lock", record.as_bytes()).unwrap();
        let left = client.leftovers("held").unwrap();
        assert!(left.holders.contains("somebody"), "{left}");
        assert!(complaint(&client, "held").contains("somebody"));
    }
}

#[test]
fn an_unreadable_record_is_left_over() {
    let client = Agent::shared().unwrap();
    client.put("/v1/kv/garbage/.lock", b"<html>").unwrap();
    assert!(complaint(&client, "garbage").contains("unreadable"));
}

#[test]
fn a_contender_key_and_its_session_are_found() {
    let client = Agent::shared().unwrap();
    let id = client.create_session(r#"{"Behavior":"delete"}"#).unwrap();
    client
        .put(&format!("/v1/kv/entered/{id}?acquire={id}"), b"")
        .unwrap();
    let left = client.leftovers("entered").unwrap();
    assert!(left.sessions.contains(&id), "{left}");
    assert!(left.keys.contains(&format!("entered/{id}")), "{left}");
    assert!(complaint(&client, "entered").contains(&id));

    client.destroy_session(&id).unwrap();
    client.assert_nothing_left("entered");
}

#[test]
fn a_session_without_a_key_is_found_by_its_name() {
    let client = Agent::shared().unwrap();
    let id = client
        .create_session(r#"{"Name":"semaphore alone/db"}"#)
        .unwrap();
    assert!(complaint(&client, "alone/db").contains(&id));
    client.destroy_session(&id).unwrap();
    client.assert_nothing_left("alone/db");
}

#[test]
fn a_session_of_any_name_is_found_on_an_agent_of_the_tests_own() {
    let agent = Agent::start().unwrap();
    agent.assert_nothing_left("own");
    let id = agent.client().create_session("{}").unwrap();
    let asserted = catch_unwind(AssertUnwindSafe(|| agent.assert_nothing_left("own")));
    assert!(message(asserted.expect_err("a session is left").as_ref()).contains(&id));
}

#[test]
fn a_neighbour_prefix_and_characters_that_need_encoding_are_told_apart() {
    let client = Agent::shared().unwrap();
    client.put("/v1/kv/a%20b%3F2/x", b"").unwrap();
    client.assert_nothing_left("a b?");
    assert!(complaint(&client, "a b?2").contains("a b?2/x"));
}

#[test]
fn patience_waits_for_a_clean_up_in_the_background() {
    let client = Agent::shared().unwrap();
    client.put("/v1/kv/slow/x", b"").unwrap();
    let cleaning = std::thread::spawn({
        let client = client.clone();
        move || client.delete("/v1/kv/slow/x").unwrap()
    });
    client.assert_nothing_left_within("slow", Duration::from_secs(30));
    cleaning.join().unwrap();
}

#[test]
fn an_agent_that_is_gone_is_not_a_clean_one() {
    let agent = Agent::start().unwrap();
    let client = agent.client();
    drop(agent);
    complaint(&client, "any");
}

/// The message of the assertion, which must fail.
fn complaint(client: &Client, prefix: &str) -> String {
    let asserted = catch_unwind(AssertUnwindSafe(|| client.assert_nothing_left(prefix)));
    message(asserted.expect_err("something is left").as_ref())
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    panic.downcast_ref::<String>().cloned().unwrap()
}
