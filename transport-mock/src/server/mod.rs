//! A world over HTTP, with its faults, for clients of any language.
//!
//! ```text
//!  client ──▶ connection ── /v1/… ──▶ the world's network, faults included ──▶ Consul
//!                  └─────── /mock/… ──▶ order.rs: what is to go wrong
//!
//!  loopback.rs: such a world on a separate thread, on the real clock
//! ```

mod connection;
mod http;
mod loopback;
mod order;

use std::time::Duration;

use tokio::net::TcpListener;

pub use self::loopback::LoopbackConsul;
pub use self::order::InvalidOrder;
use crate::mock::MockConsul;

/// How long to wait when a connection could not be accepted: out of file descriptors, most likely, and some may be free then.
const AFTER_FAILURE: Duration = Duration::from_millis(10);

impl MockConsul {
    /// Serves this world over HTTP until the future is dropped: a client that connects to `listener` is on this host, for whom faults
    /// are as for a [`MockClient`](crate::MockClient). What is lost is not answered, and what is refused or reset has its
    /// connection closed, as has a connection beyond those that the agent [allows](MockConsul::set_max_connections).
    ///
    /// Below `/mock` it takes [orders](MockConsul::order): `PUT /mock/partition`, `PUT /mock/lose-answer?times=2`. `GET /mock`
    /// lists them, with the end of the trace.
    ///
    /// # Panics
    /// When the world is not [on tokio](MockConsul::on_tokio).
    ///
    /// # Cancel safety
    /// Connections end when the runtime does.
    pub async fn serve(&self, listener: &TcpListener, host: impl AsRef<str>) {
        let client = self.client(host);
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(AFTER_FAILURE).await;
                continue;
            };
            let Some(open) = client.connect() else {
                continue;
            };
            let (world, client) = (self.clone(), client.clone());
            tokio::spawn(async move {
                // A client that hangs up has had enough.
                let _ = connection::serve(&world, &client, stream).await;
                drop(open);
            });
        }
    }
}
