//! A transport and the agent that it speaks to.

use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use semaphore_core::adapter::{Method, Request, Response, Transport as _, TransportError};
use tokio::task::JoinHandle;
use transport_conformance::tls::{Authority, Names};
use transport_reqwest::{ReqwestTransport, TransportBuilder};

use crate::server::Server;

/// Both sides of TLS.
pub(crate) struct Trust {
    authority: Authority,
    pub(crate) tls: Arc<ServerConfig>,
}

impl Trust {
    pub(crate) fn new() -> Self {
        Self::of_clients(None)
    }

    /// The agent asks for a certificate of another authority.
    pub(crate) fn demanding_certificates() -> Self {
        Self::of_clients(Some(&Authority::new()))
    }

    fn of_clients(clients: Option<&Authority>) -> Self {
        let authority = Authority::new();
        let tls = authority.certify(Names::loopback()).server_config(clients);
        Self { authority, tls }
    }

    pub(crate) fn builder(&self, url: &str) -> TransportBuilder {
        ReqwestTransport::builder(url).ca_cert(self.authority.pem())
    }
}

/// An agent, and a transport that already knows that it speaks HTTP/2.
pub(crate) async fn start() -> (Server, ReqwestTransport) {
    start_with(|builder| builder).await
}

pub(crate) async fn start_with(
    options: impl FnOnce(TransportBuilder) -> TransportBuilder,
) -> (Server, ReqwestTransport) {
    let trust = Trust::new();
    let mut server = Server::start(&trust.tls).await;
    let transport = options(trust.builder(&server.url())).build().unwrap();
    meet(&mut server, &transport).await;
    (server, transport)
}

/// Sends the first request.
pub(crate) async fn meet(server: &mut Server, transport: &ReqwestTransport) {
    let first = send(transport, get("/v1/first"));
    server.next().await.answer("true");
    assert_eq!(first.await.unwrap().unwrap().body(), b"true");
}

pub(crate) fn get(target: &str) -> Request {
    Request::new(Method::Get, target).with_timeout(Duration::from_secs(60))
}

pub(crate) fn put(target: &str, body: &str) -> Request {
    Request::new(Method::Put, target)
        .with_body(body)
        .with_timeout(Duration::from_secs(60))
}

pub(crate) fn poll(target: &str) -> Request {
    get(target).as_long_poll()
}

/// In the background. Aborting the task drops the future.
pub(crate) fn send(
    transport: &ReqwestTransport,
    request: Request,
) -> JoinHandle<Result<Response, TransportError>> {
    let transport = transport.clone();
    tokio::spawn(async move { transport.send(request).await })
}
