//! What hostile answers leave in errors: one short line that is fit for a log.

use semaphore_core::Scope;
use semaphore_core::sans_io::api::{CasKey, CreateSession, ListKeys, RenewSession};
use semaphore_core::sans_io::{Record, Response, SessionOptions};

/// The text of an answer ends up in a log. There, another line could forge an entry.
#[test]
fn an_error_is_one_short_line_whatever_the_answer_says() {
    let text = format!("Session id\u{7}\r\nforged{}", " and more".repeat(1_000));
    let quoted = serde_json::Value::from(text.as_str());
    for (status, body) in [
        (404, text.clone()),
        (200, text.clone()),
        (200, quoted.to_string()),
        (200, format!(r#"{{"ID":{quoted}}}"#)),
        (200, format!(r#"[{{"TTL":[{quoted}]}}]"#)),
        (200, format!(r#"[{{"Key":"k","Flags":{quoted}}}]"#)),
        (403, text.clone()),
        (500, text.clone()),
    ] {
        let response = Response::new(status, body).with_header("X-Consul-Index", "1");
        let errors = [
            CreateSession::parse(&response).err(),
            RenewSession::parse(&response).err(),
            ListKeys::parse(&response).err(),
            CasKey::parse(&response).err(),
        ];
        for error in errors.into_iter().flatten() {
            // The error's own text contains its causes, and each cause is one line, too.
            let mut cause: Option<&dyn std::error::Error> = Some(&error);
            while let Some(error) = cause {
                assert_line(error);
                cause = error.source();
            }
        }
    }
}

#[test]
fn a_conflict_is_one_short_line_whatever_the_record_says() {
    let text = "\u{7}\r\nforged".repeat(1_000);
    let quoted = serde_json::Value::from(text.as_str());
    for value in [
        text.clone(),
        quoted.to_string(),
        format!(r#"{{"Limit":1,"Holders":{quoted}}}"#),
        format!(r#"{{{quoted}:1,"Limit":{quoted}}}"#),
    ] {
        let conflict = Record::decode(value.as_bytes(), 0).expect_err("no record");
        assert_line(&conflict);
    }
}

/// An agent with `allow_write_http_from` refuses writes from other addresses, whatever the token
/// (1.8.7).
#[test]
fn an_agent_that_takes_writes_only_from_some_addresses_is_not_told_as_a_missing_permission() {
    let request = CreateSession {
        options: &SessionOptions::new(),
    };
    let request = request.request(&Scope::new());
    let response = Response::new(403, "Access is restricted").answering(&request);
    let error = CreateSession::parse(&response).expect_err("refused");
    let text = error.to_string();
    assert!(text.contains("Access is restricted"), "{text}");
    assert!(text.contains("allow_write_http_from"), "{text}");
    assert!(
        !text.contains("permission") && !text.contains("token"),
        "{text}"
    );
}

fn assert_line(error: &dyn std::error::Error) {
    let line = error.to_string();
    assert!(line.chars().count() <= 500, "{line}");
    assert!(!line.chars().any(char::is_control), "{line:?}");
}
