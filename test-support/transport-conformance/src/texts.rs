//! What a user reads when a semaphore can't reach its agent.

use std::time::Duration;

use semaphore_core::{Error, Semaphore};

use crate::server::Server;
use crate::unreachable::NobodyListens;
use crate::{Backend, chain};

/// The error of acquiring at this address.
fn failure(backend: &impl Backend, url: &str) -> Error {
    let semaphore = Semaphore::builder("service/db", 1)
        .connect_blocking(backend.to(url))
        .unwrap();
    let tried = semaphore.try_acquire().map(drop).unwrap_err();
    let waited = semaphore.acquire_timeout(Duration::from_secs(2));
    let waited = waited.map(drop).unwrap_err();
    for error in [&tried, &waited] {
        let text = error.to_string();
        let begin = format!("semaphore \"service/db\" at {url}: ");
        assert!(text.starts_with(&begin), "{text}");
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
    waited
}

fn assert_says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    let mut rest = text.as_str();
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else {
            panic!("{part:?} is missing in {rest:?} of {text:?}");
        };
        rest = after;
    }
}

pub fn an_address_where_nobody_listens_is_named_with_the_reason(backend: &impl Backend) {
    let nobody = NobodyListens::new();
    let error = failure(backend, &nobody.url());
    let parts = [
        "nothing was granted within 2 s: ",
        " /v1/",
        " got no answer: the agent could not be reached: ",
        "efused",
        "; is an agent running there, and is the address right?",
    ];
    assert_says(&error, &parts);
    assert!(chain(&error).contains("efused"), "the causes stay");
}

pub fn https_where_plain_http_is_spoken_says_so(backend: &impl Backend) {
    let server = Server::start(|connection| {
        // Consul gives this answer to the first bytes of a handshake.
        let _ = connection.write("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        connection.wait_for_close();
    });
    let url = server.url().replace("http://", "https://");
    let error = failure(backend, &url);
    let parts = [
        " got no answer: the connection to the agent is misconfigured: ",
        "does not speak TLS: use http:// in the address",
    ];
    assert_says(&error, &parts);
}

pub fn plain_http_where_https_is_spoken_says_so(backend: &impl Backend) {
    // An agent gives this answer, since its HTTP server is Go's.
    let text = "Client sent an HTTP request to an HTTPS server.\n";
    let server = Server::start(move |connection| connection.answer_all(400, text));
    let error = failure(backend, &server.url());
    let parts = ["Consul rejects ", "status 400: Client sent", "use https://"];
    assert_says(&error, &parts);
}

pub fn a_path_that_is_not_consuls_says_so(backend: &impl Backend) {
    let server = Server::start(|connection| connection.answer_all(404, ""));
    let url = format!("{}/consul", server.url());
    let error = failure(backend, &url);
    let parts = [
        " /v1/",
        "is the address, with its path, that of a Consul agent?",
    ];
    assert_says(&error, &parts);
}
