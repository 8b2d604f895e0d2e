//! The token of the environment is sent with each request without a token.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use semaphore_core::{Error, RequestError, Semaphore, Token};
use tempfile::TempDir;

use crate::environment::{in_child, is_child};
use crate::server::Server;
use crate::{Backend, assert_told, chain, get, run, send};

/// A server that answers each request with its token, after it has called `before` with its target.
fn repeating(before: impl Fn(&str) + Send + Sync + 'static) -> Server {
    Server::start(move |connection| {
        while let Some(request) = connection.read() {
            before(&request.target);
            let token = request.header("x-consul-token").unwrap_or("none");
            connection.answer(200, token);
        }
    })
}

/// A file with this content, in a folder that goes with the first value.
fn file(content: &str) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("token");
    fs::write(&path, content).unwrap();
    (folder, path)
}

/// The token that a new adapter of the environment sends with a request that has none.
fn sent(backend: &impl Backend) -> String {
    let answer = send(&backend.build_from_env().unwrap(), get("/v1/a"));
    String::from_utf8(answer.unwrap().body().to_owned()).unwrap()
}

pub fn the_token_of_the_environment_is_sent_unless_a_request_has_its_own(backend: &impl Backend) {
    if is_child() {
        let adapter = backend.build_from_env().unwrap();
        let answer = send(&adapter, get("/v1/a")).unwrap();
        assert_eq!(answer.body(), b"of-the-variable");
        let own = get("/v1/a").with_token(Token::new("own").ok());
        assert_eq!(send(&adapter, own).unwrap().body(), b"own");
        let shown = format!("{adapter:?} {answer:?}");
        return assert!(!shown.contains("\"of-the-variable"), "{shown}");
    }
    let server = repeating(|_| {});
    in_child(&[
        ("CONSUL_HTTP_ADDR", &server.url()),
        ("CONSUL_HTTP_TOKEN", "of-the-variable"),
    ]);
}

pub fn without_a_token_in_the_environment_none_is_sent(backend: &impl Backend) {
    if is_child() {
        return assert_eq!(sent(backend), "none");
    }
    let server = repeating(|_| {});
    in_child(&[
        ("CONSUL_HTTP_ADDR", &server.url()),
        ("CONSUL_HTTP_TOKEN", ""),
        ("CONSUL_HTTP_TOKEN_FILE", ""),
    ]);
}

pub fn the_token_file_comes_before_the_variable_and_is_trimmed(backend: &impl Backend) {
    if is_child() {
        return assert_eq!(sent(backend), "of-the-file");
    }
    let server = repeating(|_| {});
    let (_folder, path) = file(" of-the-file\n");
    in_child(&[
        ("CONSUL_HTTP_ADDR", &server.url()),
        ("CONSUL_HTTP_TOKEN", "of-the-variable"),
        ("CONSUL_HTTP_TOKEN_FILE", path.to_str().unwrap()),
    ]);
}

pub fn an_empty_token_file_leaves_the_variable_until_it_has_a_token(backend: &impl Backend) {
    if is_child() {
        let adapter = backend.build_from_env().unwrap();
        let tokens = ["/v1/a", "/v1/write", "/v1/a"].map(|target| {
            let answer = send(&adapter, get(target)).unwrap();
            String::from_utf8(answer.body().to_owned()).unwrap()
        });
        let expected = ["of-the-variable", "of-the-variable", "of-the-file"];
        return assert_eq!(tokens, expected);
    }
    let (_folder, path) = file("\n");
    let written = path.clone();
    let server = repeating(move |target| {
        if target == "/v1/write" {
            fs::write(&written, "of-the-file").unwrap();
        }
    });
    in_child(&[
        ("CONSUL_HTTP_ADDR", &server.url()),
        ("CONSUL_HTTP_TOKEN", "of-the-variable"),
        ("CONSUL_HTTP_TOKEN_FILE", path.to_str().unwrap()),
    ]);
}

pub fn a_missing_token_file_is_named_with_its_variable(backend: &impl Backend) {
    if is_child() {
        let error = backend.build_from_env().unwrap_err();
        let told = "the file \"no/such/file\" of CONSUL_HTTP_TOKEN_FILE can't be read";
        return assert_told(&*error, told);
    }
    in_child(&[
        ("CONSUL_HTTP_TOKEN", "of-the-variable"),
        ("CONSUL_HTTP_TOKEN_FILE", "no/such/file"),
    ]);
}

pub fn a_token_that_can_t_be_sent_is_refused_and_not_shown(backend: &impl Backend) {
    if is_child() {
        let error = chain(&*backend.build_from_env().unwrap_err());
        assert!(
            error.contains("CONSUL_HTTP_TOKEN is not a token"),
            "{error}"
        );
        return assert!(!error.contains("secret"), "{error}");
    }
    in_child(&[("CONSUL_HTTP_TOKEN", "two\nsecret lines")]);
}

/// A request that is refused is sent again with the file's next token, before anybody hears of it.
pub fn a_token_file_is_followed_and_read_again_at_a_refusal(backend: &impl Backend) {
    if is_child() {
        let adapter = backend.build_from_env().unwrap();
        for _ in 0..2 {
            assert_eq!(send(&adapter, get("/v1/a")).unwrap().status(), 200);
        }
        return;
    }
    let (_folder, path) = file("first");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (telling, written) = (Arc::clone(&seen), path.clone());
    let server = Server::start(move |connection| {
        while let Some(request) = connection.read() {
            let token = request.header("x-consul-token").unwrap().to_owned();
            telling.lock().unwrap().push(token.clone());
            if token == "second" {
                connection.answer(200, "true");
            } else {
                fs::write(&written, "second").unwrap();
                connection.answer(403, "ACL not found");
            }
        }
    });
    in_child(&[
        ("CONSUL_HTTP_ADDR", &server.url()),
        ("CONSUL_HTTP_TOKEN_FILE", path.to_str().unwrap()),
    ]);
    assert_eq!(*seen.lock().unwrap(), ["first", "second", "second"]);
}

/// Each handle is refused at its first request.
pub fn a_handle_sends_its_own_token_and_else_that_of_the_environment(backend: &impl Backend) {
    if is_child() {
        let adapter = backend.build_from_env().unwrap();
        for builder in [
            Semaphore::builder("a", 1),
            Semaphore::builder("a", 1).token("own"),
            Semaphore::builder("a", 1).token_source(|| Token::new("of-a-source").ok()),
        ] {
            let semaphore = builder.connect(adapter.clone()).unwrap();
            let refused = run(&adapter, semaphore.acquire()).unwrap_err();
            let is_denied = matches!(refused, Error::Request(RequestError::Denied { .. }));
            assert!(is_denied, "{refused}");
            let told = refused.to_string();
            assert!(told.contains("the token lacks"), "{told}");
            run(&adapter, semaphore.shutdown());
        }
        return;
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let telling = Arc::clone(&seen);
    let server = Server::start(move |connection| {
        while let Some(request) = connection.read() {
            let token = request.header("x-consul-token").unwrap_or("none");
            telling.lock().unwrap().push(token.to_owned());
            connection.answer(403, "Permission denied");
        }
    });
    in_child(&[
        ("CONSUL_HTTP_ADDR", &server.url()),
        ("CONSUL_HTTP_TOKEN", "of-the-variable"),
    ]);
    // In the order in which each came first: a request that a handle gave up may be read after its end.
    let mut first = Vec::new();
    for token in seen.lock().unwrap().iter() {
        if !first.contains(token) {
            first.push(token.clone());
        }
    }
    assert_eq!(first, ["of-the-variable", "own", "of-a-source"]);
}
