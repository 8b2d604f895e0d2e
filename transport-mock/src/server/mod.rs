//! A world over HTTP, with its faults, for clients of any language.
//!
//! ```text
//!  client ──▶ connection ── /v1/… ──▶ the world's network, faults included ──▶ Consul
//!                  └─────── /mock/… ──▶ order.rs: what is to go wrong
//! ```

mod connection;
mod order;

use std::io;

use tokio::net::TcpListener;

pub use self::order::InvalidOrder;
use crate::mock::MockConsul;

impl MockConsul {
    /// Serves this world over HTTP until the future is dropped: whoever connects to `listener` is on this host, for whom faults
    /// are as for a [`MockClient`](crate::MockClient). What is lost is not answered, and what is refused or reset has its
    /// connection closed.
    ///
    /// Below `/mock` it takes [orders](MockConsul::order): `PUT /mock/partition`, `PUT /mock/lose-answer?times=2`. `GET /mock`
    /// lists them, with the end of the trace.
    ///
    /// # Errors
    /// When the system accepts no connection any more.
    ///
    /// # Panics
    /// When the world is not [on tokio](MockConsul::on_tokio).
    ///
    /// # Cancel safety
    /// Connections end when the runtime does.
    pub async fn serve(&self, listener: &TcpListener, host: impl AsRef<str>) -> io::Result<()> {
        let client = self.client(host);
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let (world, client) = (self.clone(), client.clone());
            tokio::spawn(async move {
                // Whoever hangs up has had enough.
                let _ = connection::serve(&world, &client, stream).await;
            });
        }
    }
}
