//! An agent that follows a script.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

/// Listens on a loopback port or on a Unix socket. It runs the script for each connection on a
/// separate thread.
pub struct Server {
    address: Address,
    https: bool,
    connections: Arc<AtomicUsize>,
    stopped: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Clone)]
enum Address {
    Port(SocketAddr),
    Socket(PathBuf),
}

impl Server {
    /// A server of plain HTTP.
    pub fn start(script: impl Fn(&mut Connection) + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0", script)
    }

    /// The same on another address of this machine.
    pub fn start_at(
        address: &str,
        script: impl Fn(&mut Connection) + Send + Sync + 'static,
    ) -> Self {
        Self::listen(address, false, move |stream| {
            script(&mut Connection::new(Box::new(stream)));
        })
    }

    /// The same on a Unix socket, which is created at this path.
    pub fn start_on_socket(
        path: impl Into<PathBuf>,
        script: impl Fn(&mut Connection) + Send + Sync + 'static,
    ) -> Self {
        let path = path.into();
        let listener = UnixListener::bind(&path).unwrap();
        let accept = move || listener.accept().map(|(stream, _)| stream);
        Self::accept(Address::Socket(path), false, accept, move |stream| {
            script(&mut Connection::new(Box::new(stream)));
        })
    }

    /// A server of HTTPS. A connection whose handshake fails does not reach the script.
    pub fn start_tls(
        config: Arc<rustls::ServerConfig>,
        script: impl Fn(&mut Connection) + Send + Sync + 'static,
    ) -> Self {
        Self::start_tls_at("127.0.0.1:0", move || Arc::clone(&config), script)
    }

    /// The same on another address of this machine. Each connection asks for the configuration.
    pub fn start_tls_at(
        address: &str,
        config: impl Fn() -> Arc<rustls::ServerConfig> + Send + Sync + 'static,
        script: impl Fn(&mut Connection) + Send + Sync + 'static,
    ) -> Self {
        Self::listen(address, true, move |mut stream: TcpStream| {
            let mut tls = rustls::ServerConnection::new(config()).unwrap();
            while tls.is_handshaking() {
                if tls.complete_io(&mut stream).is_err() {
                    return drain(&stream);
                }
            }
            let shown = tls.peer_certificates().and_then(|chain| chain.first());
            let client = shown.map(|certificate| certificate.to_vec());
            let stream = Box::new(rustls::StreamOwned::new(tls, stream));
            script(&mut Connection {
                client,
                ..Connection::new(stream)
            });
        })
    }

    fn listen(
        address: &str,
        https: bool,
        serve: impl Fn(TcpStream) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = Address::Port(listener.local_addr().unwrap());
        let accept = move || listener.accept().map(|(stream, _)| stream);
        Self::accept(address, https, accept, serve)
    }

    fn accept<S: Send + 'static>(
        address: Address,
        https: bool,
        accept: impl Fn() -> io::Result<S> + Send + 'static,
        serve: impl Fn(S) + Send + Sync + 'static,
    ) -> Self {
        let connections = Arc::new(AtomicUsize::new(0));
        let stopped = Arc::new(AtomicBool::new(false));
        let serve = Arc::new(serve);
        let acceptor = thread::spawn({
            let connections = Arc::clone(&connections);
            let stopped = Arc::clone(&stopped);
            move || {
                loop {
                    let stream = accept();
                    if stopped.load(Ordering::SeqCst) {
                        return;
                    }
                    connections.fetch_add(1, Ordering::SeqCst);
                    let serve = Arc::clone(&serve);
                    thread::spawn(move || serve(stream.unwrap()));
                }
            }
        });
        Self {
            address,
            https,
            connections,
            stopped,
            acceptor: Some(acceptor),
        }
    }

    /// The address, without a trailing slash.
    pub fn url(&self) -> String {
        match &self.address {
            Address::Port(address) => format!("{}://{address}", self.scheme()),
            Address::Socket(path) => format!("unix://{}", path.to_str().unwrap()),
        }
    }

    /// The URL with another host, which must be one of this machine.
    pub fn url_at(&self, host: &str) -> String {
        match &self.address {
            Address::Port(address) => format!("{}://{host}:{}", self.scheme(), address.port()),
            Address::Socket(_) => panic!("a socket has no host"),
        }
    }

    fn scheme(&self) -> &'static str {
        if self.https { "https" } else { "http" }
    }

    /// How many connections were accepted so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        // Wakes the acceptor.
        match &self.address {
            Address::Port(address) => drop(TcpStream::connect(address)),
            Address::Socket(path) => drop(UnixStream::connect(path)),
        }
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

/// The script's side of one connection.
pub struct Connection {
    /// The certificate that the client has shown, in DER.
    pub client: Option<Vec<u8>>,
    stream: Box<dyn Stream>,
    unread: Vec<u8>,
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A request as it was received.
#[derive(Clone, Debug)]
pub struct Received {
    pub method: String,
    pub target: String,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Received {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers(name).next()
    }

    pub fn headers(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self
            .headers
            .iter()
            .filter(move |(found, _)| found.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str())
    }
}

impl Connection {
    fn new(stream: Box<dyn Stream>) -> Self {
        Self {
            client: None,
            stream,
            unread: Vec::new(),
        }
    }

    /// The next request, or `None` when the other side has closed.
    pub fn read(&mut self) -> Option<Received> {
        let end = loop {
            if let Some(end) = self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            self.fill()?;
        };
        let head = String::from_utf8(self.unread[..end].to_vec()).unwrap();
        let mut lines = head.split("\r\n");
        let mut first = lines.next().unwrap().split(' ');
        let mut received = Received {
            method: first.next().unwrap().to_owned(),
            target: first.next().unwrap().to_owned(),
            headers: lines
                .map(|line| line.split_once(": ").unwrap())
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            body: Vec::new(),
        };
        let length = received
            .header("content-length")
            .map_or(0, |length| length.parse().unwrap());
        self.unread.drain(..end + 4);
        while self.unread.len() < length {
            self.fill()?;
        }
        received.body = self.unread.drain(..length).collect();
        Some(received)
    }

    /// Writes these bytes. An error means that the other side has closed.
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())?;
        self.stream.flush()
    }

    /// Sends a whole answer.
    pub fn answer(&mut self, status: u16, body: &str) {
        self.answer_with(status, "", body);
    }

    /// The same with further header lines, each with its line end.
    pub fn answer_with(&mut self, status: u16, headers: &str, body: &str) {
        let length = body.len();
        let head =
            format!("HTTP/1.1 {status} Whatever\r\n{headers}Content-Length: {length}\r\n\r\n");
        // In some tests the caller is gone.
        let _ = self.write(head + body);
    }

    /// Answers every request like this until the other side closes.
    pub fn answer_all(&mut self, status: u16, body: &str) {
        while self.read().is_some() {
            self.answer(status, body);
        }
    }

    /// Waits for bytes of a request, and leaves them unread. Closing then resets the connection.
    pub fn wait_for_request(&mut self) {
        let mut first = [0];
        if let Ok(1) = self.stream.read(&mut first) {
            self.unread.push(first[0]);
        }
    }

    /// Waits until the other side has closed or reset the connection.
    pub fn wait_for_close(&mut self) {
        while self.fill().is_some() {}
    }

    fn fill(&mut self) -> Option<()> {
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) | Err(_) => None,
            Ok(length) => {
                self.unread.extend_from_slice(&buffer[..length]);
                Some(())
            }
        }
    }
}

/// Reads what still comes. Otherwise closing would reset the connection, and the alert with the
/// reason would be lost.
fn drain(mut stream: &TcpStream) {
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = io::copy(&mut stream, &mut io::sink());
}
