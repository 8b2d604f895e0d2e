use std::sync::mpsc;

use semaphore_core::Token;
use semaphore_core::adapter::{Method, Request, TransportErrorKind};

use crate::server::{Received, Server};
use crate::{Backend, Options, assert_told, chain, get, put, send};

/// Sends the request and returns it as the server received it.
fn arrived(backend: &impl Backend, path: &str, request: Request) -> Received {
    let (arrived, arrivals) = mpsc::channel();
    let server = Server::start(move |connection| {
        while let Some(request) = connection.read() {
            arrived.send(request).unwrap();
            connection.answer(200, "true");
        }
    });
    let answer = send(&backend.to(server.url() + path), request).unwrap();
    assert_eq!((answer.status(), answer.body()), (200, &b"true"[..]));
    let request = arrivals.try_recv().unwrap();
    assert!(arrivals.try_recv().is_err(), "sent more than once");
    request
}

pub fn method_target_and_body_arrive_as_described(backend: &impl Backend) {
    let target = "/v1/kv/service/d%20b/%3F%23?cas=0&flags=16210313421097356768&dc=a%26b";
    let request = arrived(backend, "", put(target, "{\"Limit\":3}"));
    assert_eq!(
        (request.method.as_str(), request.target.as_str()),
        ("PUT", target)
    );
    assert_eq!(request.body, b"{\"Limit\":3}");
    assert_eq!(request.header("content-length"), Some("11"));
    assert_eq!(request.header("transfer-encoding"), None);

    let request = arrived(backend, "", Request::new(Method::Delete, "/v1/kv/a?cas=7"));
    assert_eq!(
        (request.method.as_str(), request.target.as_str()),
        ("DELETE", "/v1/kv/a?cas=7")
    );
}

pub fn an_empty_put_has_a_content_length(backend: &impl Backend) {
    let request = arrived(backend, "", put("/v1/session/create", ""));
    assert_eq!(request.header("content-length"), Some("0"));
    assert_eq!(request.header("transfer-encoding"), None);
}

pub fn a_read_has_no_body(backend: &impl Backend) {
    let request = arrived(backend, "", get("/v1/kv/a?recurse="));
    assert_eq!(
        (request.method.as_str(), request.target.as_str()),
        ("GET", "/v1/kv/a?recurse=")
    );
    assert!(matches!(request.header("content-length"), None | Some("0")));
    assert_eq!(request.header("transfer-encoding"), None);
    // The limit on bodies counts the bytes that are sent, so nothing may be compressed.
    assert!(matches!(
        request.header("accept-encoding"),
        None | Some("identity")
    ));
}

pub fn a_path_in_the_url_comes_before_the_target(backend: &impl Backend) {
    let request = arrived(backend, "/consul/eu/", get("/v1/status/leader"));
    assert_eq!(request.target, "/consul/eu/v1/status/leader");
}

pub fn a_host_name_is_resolved(backend: &impl Backend) {
    let server = Server::start(|connection| connection.answer_all(200, "here"));
    let adapter = backend.to(server.url_at("localhost"));
    let answer = send(&adapter, get("/v1/status/leader")).unwrap();
    assert_eq!(answer.body(), b"here");
}

pub fn an_ipv6_address_is_spoken_to(backend: &impl Backend) {
    let server = Server::start_at("[::1]:0", |connection| {
        while let Some(request) = connection.read() {
            connection.answer(200, request.header("host").unwrap());
        }
    });
    let answer = send(&backend.to(server.url() + "/consul"), get("/v1/a")).unwrap();
    let host = String::from_utf8(answer.body().to_vec()).unwrap();
    assert_eq!(format!("http://{host}"), server.url());
}

pub fn the_token_travels_in_its_header(backend: &impl Backend) {
    let token = Token::new("b1gs33cr3t").unwrap();
    let request = arrived(backend, "", get("/v1/kv/a").with_token(Some(token)));
    assert_eq!(request.header("X-Consul-Token"), Some("b1gs33cr3t"));
    let request = arrived(backend, "", get("/v1/kv/a"));
    assert_eq!(request.header("X-Consul-Token"), None);
}

pub fn a_user_and_a_password_travel_beside_the_token(backend: &impl Backend) {
    let (arrived, arrivals) = mpsc::channel();
    let server = Server::start(move |connection| {
        while let Some(request) = connection.read() {
            arrived.send(request).unwrap();
            connection.answer(200, "true");
        }
    });
    for own_client in [None, Some("my-client/1")] {
        let options = Options {
            basic_auth: Some(("Aladdin", "open sesame")),
            own_client,
            ..Options::to(server.url())
        };
        let adapter = backend.build(options).unwrap();
        for secret in [Some("b1gs33cr3t"), None] {
            let token = secret.map(|secret| Token::new(secret).unwrap());
            let requests = [get("/v1/a").as_long_poll(), put("/v1/a", "value")];
            for request in requests.map(|request| request.with_token(token.clone())) {
                send(&adapter, request).unwrap();
                let arrived = arrivals.try_recv().unwrap();
                let sent: Vec<_> = arrived.headers("authorization").collect();
                assert_eq!(sent, ["Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="]);
                assert_eq!(arrived.header("x-consul-token"), secret);
            }
        }
    }
}

pub fn a_user_and_a_password_that_cant_be_sent_are_refused_and_not_shown(backend: &impl Backend) {
    for basic_auth in [("s3:cret", "a"), ("a", "s3\ncret")] {
        let options = Options {
            basic_auth: Some(basic_auth),
            ..Options::to("http://127.0.0.1:8500")
        };
        let error = backend.build(options).unwrap_err();
        let told = "the user and the password can't be sent";
        assert_told(&*error, told);
        assert!(!chain(&*error).contains("cret"));
    }
}

pub fn each_request_on_a_kept_connection_has_its_own_token(backend: &impl Backend) {
    let (arrived, arrivals) = mpsc::channel();
    let server = Server::start(move |connection| {
        while let Some(request) = connection.read() {
            arrived.send(request).unwrap();
            connection.answer(200, "true");
        }
    });
    for own_client in [None, Some("my-client/1")] {
        let options = Options {
            own_client,
            ..Options::to(server.url())
        };
        let adapter = backend.build(options).unwrap();
        // A body that is longer than any buffer and looks like a request's head.
        let body = "GET / HTTP/1.1\r\nX-Consul-Token: body\r\n\r\n".repeat(1000);
        for token in [Some("first"), None, Some("second"), None] {
            let secret = token.map(|secret| Token::new(secret).unwrap());
            let request = put(&format!("/v1/kv/{}", "k".repeat(500)), &body);
            send(&adapter, request.with_token(secret)).unwrap();
            let arrived = arrivals.try_recv().unwrap();
            let tokens: Vec<_> = arrived.headers("x-consul-token").collect();
            assert_eq!(tokens, Vec::from_iter(token));
            assert_eq!(arrived.body, body.as_bytes());
        }
    }
}

pub fn the_token_is_in_no_error_and_no_debug_output(backend: &impl Backend) {
    let server = Server::start(|connection| {
        connection.read();
    });
    let adapter = backend.to(server.url());
    let token = Token::new("b1gs33cr3t").unwrap();
    let request = get("/v1/kv/a").with_token(Some(token));
    let error = send(&adapter, request.clone()).unwrap_err();
    let shown = format!("{} {adapter:?} {request:?}", chain(&error));
    assert!(!shown.contains("b1gs33cr3t"), "{shown}");

    let no_target = Request::new(Method::Get, "v1/kv/a");
    let error = send(&adapter, no_target).unwrap_err();
    assert_eq!(error.kind(), TransportErrorKind::Misconfigured);
}

pub fn any_status_is_an_answer(backend: &impl Backend) {
    let server = Server::start(|connection| {
        while let Some(request) = connection.read() {
            let status = request.target.trim_start_matches("/v1/").parse().unwrap();
            connection.answer(status, "rpc error: No cluster leader");
        }
    });
    let adapter = backend.to(server.url());
    for status in [200, 400, 403, 404, 409, 413, 429, 500, 502, 503, 504] {
        let answer = send(&adapter, put(&format!("/v1/{status}"), "")).unwrap();
        assert_eq!(answer.status(), status);
        assert_eq!(answer.body(), b"rpc error: No cluster leader");
    }
}

pub fn the_headers_of_the_answer_are_handed_over(backend: &impl Backend) {
    let server = Server::start(|connection| {
        while connection.read().is_some() {
            connection
                .write("HTTP/1.1 404 Not Found\r\nX-Consul-Index: 17\r\nX-Other: \u{fc}\r\nContent-Length: 0\r\n\r\n")
                .unwrap();
        }
    });
    let answer = send(&backend.to(server.url()), get("/v1/kv/a")).unwrap();
    assert_eq!(answer.status(), 404);
    assert_eq!(answer.header("x-consul-index"), Some("17"));
    assert_eq!(answer.body(), b"");
}
