//! A gateway that has lost its backend.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

/// A server on a free port of 127.0.0.1. It answers every request with the same HTML page, and
/// hangs up. [`Proxy::set_target`](crate::Proxy::set_target) puts it in an agent's place.
#[derive(Debug)]
pub struct Gateway {
    addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    asked: AtomicU64,
    is_closed: AtomicBool,
}

impl Gateway {
    /// Starts a gateway that answers with this status, such as 404.
    ///
    /// # Errors
    /// If no port is free.
    pub fn start(status: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let addr = listener.local_addr()?;
        let shared = Arc::<Shared>::default();
        let accepting = thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared, status)
        });
        Ok(Self {
            addr,
            shared,
            accepting: Some(accepting),
        })
    }

    /// Its address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// How many requests it received.
    pub fn asked(&self) -> u64 {
        self.shared.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::SeqCst);
        // The accepting thread notices the end only when a connection comes.
        let _ = TcpStream::connect(self.addr);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>, status: u16) {
    for connection in listener.incoming().map_while(Result::ok) {
        if shared.is_closed.load(Ordering::SeqCst) {
            return;
        }
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            // An error ends the connection, which the client sees.
            let _ = refuse(connection, &shared, status);
        });
    }
}

/// Hangs up only when the client does. If the client sent more afterwards, that would reset the
/// connection and the answer would be lost.
fn refuse(mut connection: TcpStream, shared: &Shared, status: u16) -> io::Result<()> {
    let mut request = [0; 8_192];
    // A client that hangs up has sent no request.
    if connection.read(&mut request)? == 0 {
        return Ok(());
    }
    shared.asked.fetch_add(1, Ordering::SeqCst);
    let page = "<html>no backend</html>\r\n";
    write!(
        connection,
        "HTTP/1.1 {status} No Backend\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{page}",
        page.len()
    )?;
    connection.shutdown(std::net::Shutdown::Write)?;
    while connection.read(&mut request)? > 0 {}
    Ok(())
}
