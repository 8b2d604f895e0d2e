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

/// How long to wait after a connection could not be accepted. The usual reason is a lack of file
/// descriptors, and some may be free then.
const AFTER_FAILURE: Duration = Duration::from_millis(10);

impl MockConsul {
    /// Serves this world over HTTP until the future is dropped. Clients that connect to `listener`
    /// are on this host, and get its faults like a [`MockClient`](crate::MockClient). A lost
    /// exchange gets no answer. If a request is refused or reset, the connection is closed. So is a
    /// connection beyond those that the agent [allows](MockConsul::set_max_connections).
    ///
    /// `/mock` takes [orders](MockConsul::order): `PUT /mock/partition`,
    /// `PUT /mock/lose-answer?times=2`. `GET /mock` lists them, with the end of the trace.
    ///
    /// # Panics
    /// If the world is not [on tokio](MockConsul::on_tokio).
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
                // An error means that the client hung up.
                let _ = connection::serve(&world, &client, stream).await;
                drop(open);
            });
        }
    }
}
