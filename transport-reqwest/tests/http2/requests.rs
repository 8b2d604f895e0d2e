//! One request and its answer, beside others on the same connection.

use h2::Reason;
use semaphore_core::Token;
use semaphore_core::adapter::TransportErrorKind;

use crate::scene::{get, poll, put, send, start, start_with};

#[tokio::test]
async fn method_target_headers_and_body_arrive_as_described() {
    let (mut server, transport) = start_with(|it| it.basic_auth("user", "password")).await;
    let request = put("/v1/kv/a?cas=1", "value").with_token(Token::new("secret").ok());
    let sent = send(&transport, request);
    let arrived = server.next().await;
    assert_eq!(arrived.method, "PUT");
    assert_eq!(arrived.target, "/v1/kv/a?cas=1");
    assert_eq!(arrived.body, b"value");
    for (name, value) in [
        ("X-Consul-Token", "secret"),
        ("Authorization", "Basic dXNlcjpwYXNzd29yZA=="),
        ("Content-Length", "5"),
    ] {
        assert_eq!(arrived.headers[name], value);
    }
    arrived.answer("true");
    assert_eq!(sent.await.unwrap().unwrap().body(), b"true");
}

#[tokio::test]
async fn a_dropped_future_resets_its_stream_and_no_other() {
    let (mut server, transport) = start().await;
    let kept = send(&transport, poll("/v1/kept"));
    let kept_there = server.next().await;
    let dropped = send(&transport, poll("/v1/dropped"));
    let dropped_there = server.next().await;
    assert_eq!(kept_there.connection, dropped_there.connection);

    dropped.abort();
    assert_eq!(dropped_there.given_up().await, Reason::CANCEL);
    kept_there.answer("true");
    assert_eq!(kept.await.unwrap().unwrap().status(), 200);
}

#[tokio::test]
async fn a_body_over_the_limit_ends_its_request_and_no_other() {
    let (mut server, transport) = start_with(|it| it.max_body(10)).await;
    let kept = send(&transport, get("/v1/kept"));
    let kept_there = server.next().await;
    let large = send(&transport, get("/v1/large"));
    let large_there = server.next().await;
    assert_eq!(kept_there.connection, large_there.connection);

    let mut stream = large_there.begin().unwrap();
    stream.send_data(vec![b' '; 11].into(), false).unwrap();
    let error = large.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), TransportErrorKind::BadAnswer);
    let reason = std::future::poll_fn(|context| stream.poll_reset(context)).await;
    assert_eq!(reason.unwrap(), Reason::CANCEL);
    kept_there.answer("exactly 10");
    assert_eq!(kept.await.unwrap().unwrap().body(), b"exactly 10");
}
