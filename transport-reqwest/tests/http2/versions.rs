//! Which version of HTTP is spoken.

use std::net::SocketAddr;
use std::sync::Arc;

use real_agent::Proxy;
use rustls::ServerConfig;
use semaphore_core::adapter::Transport as _;
use transport_conformance::server::Server as Http1;

use crate::scene::{Trust, get, meet, send};
use crate::server::Server;

#[tokio::test]
async fn http2_is_spoken_where_it_is_offered() {
    let trust = Trust::new();
    let mut server = Server::start(&trust.tls).await;
    let transport = trust.builder(&server.url()).build().unwrap();
    meet(&mut server, &transport).await;
    assert_eq!(server.protocols(), [Some(b"h2".to_vec())]);
}

#[tokio::test]
async fn http1_is_spoken_where_it_is_asked_for() {
    let trust = Trust::new();
    let server = Server::start(&trust.tls).await;
    let builder = trust.builder(&server.url()).http1_only(true);
    let transport = builder.build().unwrap();
    // This agent closes such a connection.
    transport.send(get("/v1/a")).await.unwrap_err();
    assert_eq!(server.protocols(), [Some(b"http/1.1".to_vec())]);
}

/// One agent refuses the connection, the other knows nothing of protocols.
#[tokio::test]
async fn an_agent_that_speaks_http2_no_more_is_spoken_to_by_http1() {
    for protocols in [vec![b"http/1.1".to_vec()], Vec::new()] {
        let trust = Trust::new();
        let mut server = Server::start(&trust.tls).await;
        let proxy = Proxy::start(server.address()).unwrap();
        let builder = trust.builder(&format!("https://{}", proxy.addr()));
        let transport = builder.build().unwrap();
        meet(&mut server, &transport).await;
        meet(&mut server, &transport).await;

        let mut tls = ServerConfig::clone(&trust.tls);
        tls.alpn_protocols = protocols;
        let old = http1(tls);
        proxy.set_target(address_of(&old));
        proxy.cut();
        let mut tries = 0;
        while let Err(error) = transport.send(get("/v1/a")).await {
            tries += 1;
            assert!(tries < 5, "{error:?}");
        }

        proxy.set_target(server.address());
        proxy.cut();
        let mut tries = 0;
        loop {
            let mut sent = send(&transport, get("/v1/a"));
            tokio::select! {
                arrived = server.next() => {
                    arrived.answer("true");
                    sent.await.unwrap().unwrap();
                    break;
                }
                failed = &mut sent => {
                    failed.unwrap().unwrap_err();
                    tries += 1;
                    assert!(tries < 5);
                }
            }
        }
    }
}

/// An HTTP/1.1 agent that answers HTTP/2 as a Consul without HTTP/2 does.
fn http1(tls: ServerConfig) -> Http1 {
    Http1::start_tls(Arc::new(tls), |connection| {
        while let Some(request) = connection.read() {
            if request.method == "PRI" {
                let _ = connection.write("HTTP/1.1 505 HTTP Version Not Supported\r\n\r\n");
                return;
            }
            connection.answer(200, "true");
        }
    })
}

fn address_of(server: &Http1) -> SocketAddr {
    server.url().trim_start_matches("https://").parse().unwrap()
}
