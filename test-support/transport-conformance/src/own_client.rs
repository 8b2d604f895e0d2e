use std::sync::mpsc;

use crate::server::Server;
use crate::{Backend, Options, get, put, send};

pub fn a_client_of_the_users_own_sends_the_requests(backend: &impl Backend) {
    let (arrived, arrivals) = mpsc::channel();
    let server = Server::start(move |connection| {
        while let Some(request) = connection.read() {
            arrived.send(request).unwrap();
            connection.answer(403, "Permission denied");
        }
    });
    let options = Options {
        own_client: Some("my-client/1"),
        max_body: Some(1000),
        ..Options::to(server.url())
    };
    let adapter = backend.build(options).unwrap();
    for request in [
        put("/v1/kv/a", ""),
        get("/v1/kv/a"),
        get("/v1/kv/a").as_long_poll(),
    ] {
        let answer = send(&adapter, request).unwrap();
        assert_eq!(answer.status(), 403);
        let arrived = arrivals.try_recv().unwrap();
        assert_eq!(arrived.header("user-agent"), Some("my-client/1"));
    }
}

pub fn a_client_of_the_users_own_takes_no_options_of_the_connection(backend: &impl Backend) {
    let to = |url: &str| Options {
        own_client: Some("my-client/1"),
        ..Options::to(url)
    };
    let ca_cert = Options {
        ca_cert: Some(String::new()),
        ..to("https://127.0.0.1:8501")
    };
    let accept_any_certificate = Options {
        accept_any_certificate: true,
        ..to("https://127.0.0.1:8501")
    };
    let socket = to("unix:///run/consul.sock");
    for options in [ca_cert, accept_any_certificate, socket] {
        let error = backend.build(options).unwrap_err();
        assert_eq!(
            error.to_string(),
            "options of the connection can't be combined with a client of your own: set them on that client"
        );
    }
}
