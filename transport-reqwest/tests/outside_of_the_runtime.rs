//! What happens on threads that don't belong to tokio.

use semaphore_core::adapter::{Method, Request, Transport};
use tokio::runtime::Runtime;
use transport_conformance::server::Server;
use transport_reqwest::{BuildError, NoRuntime, ReqwestTransport};

#[test]
fn building_outside_of_a_runtime_is_refused() {
    let error = ReqwestTransport::new("http://127.0.0.1:8500").unwrap_err();
    let BuildError::Backend(cause) = &error else {
        panic!("{error:?}");
    };
    assert!(cause.is::<NoRuntime>(), "{cause:?}");
    let text = error.to_string();
    let says = "built outside of a tokio runtime: build it in an async function that tokio runs";
    assert!(text.contains(says), "{text}");
    assert!(cause.source().is_some());
}

#[test]
fn a_request_can_be_awaited_on_another_executor() {
    let server = Server::start(|connection| connection.answer_all(200, "true"));
    let runtime = Runtime::new().unwrap();
    let transport = {
        let _inside = runtime.enter();
        ReqwestTransport::new(server.url()).unwrap()
    };
    let request = Request::new(Method::Get, "/v1/status/leader");
    let answer = pollster::block_on(transport.send(request)).unwrap();
    assert_eq!(answer.body(), b"true");
}

#[test]
fn a_current_thread_runtime_is_enough() {
    let server = Server::start(|connection| connection.answer_all(200, "true"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let answer = runtime.block_on(async {
        let transport = ReqwestTransport::new(server.url()).unwrap();
        let request = Request::new(Method::Get, "/v1/status/leader");
        transport.send(request).await.unwrap()
    });
    assert_eq!(answer.body(), b"true");
}
