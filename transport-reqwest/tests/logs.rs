//! The token is in no line of the log, at any level.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Mutex;

use log::{LevelFilter, Log, Metadata, Record};
use transport_conformance::server::Server;
use transport_reqwest::{Method, Request, ReqwestTransport, Token, Transport};

struct Lines(Mutex<String>);

static LINES: Lines = Lines(Mutex::new(String::new()));

impl Log for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let line = format!("{} {}\n", record.target(), record.args());
        self.0.lock().unwrap().push_str(&line);
    }

    fn flush(&self) {}
}

#[test]
fn the_token_is_not_logged() {
    log::set_logger(&LINES).unwrap();
    log::set_max_level(LevelFilter::Trace);
    let server = Server::start(|connection| connection.answer_all(200, "true"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let transport = ReqwestTransport::new(server.url()).unwrap();
    let token = Token::new("b1gs33cr3t").unwrap();
    let request = Request::new(Method::Put, "/v1/kv/a").with_token(Some(token));
    runtime.block_on(transport.send(request)).unwrap();
    let lines = LINES.0.lock().unwrap();
    assert!(lines.contains("reqwest"), "nothing was logged");
    assert!(!lines.contains("b1gs33cr3t"), "{lines}");
}
