//! An agent that speaks HTTP/2. It hands what arrives to the test, which answers.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Method, Request, Response};
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Listens on a loopback port until it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// The protocol that each connection negotiated.
    protocols: Arc<Mutex<Vec<Option<Vec<u8>>>>>,
    arrivals: mpsc::UnboundedReceiver<Arrived>,
    commands: broadcast::Sender<Command>,
}

/// A request that waits for its answer.
pub(crate) struct Arrived {
    /// The number of its connection, from 1 on.
    pub(crate) connection: usize,
    pub(crate) method: Method,
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    respond: SendResponse<bytes::Bytes>,
}

#[derive(Clone, Copy)]
enum Command {
    Cut,
    GoAway,
}

impl Server {
    /// With this TLS configuration, but always with the protocols HTTP/2 and HTTP/1.1.
    pub(crate) async fn start(tls: &ServerConfig) -> Self {
        let acceptor = acceptor(tls, &["h2", "http/1.1"]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (arrive, arrivals) = mpsc::unbounded_channel();
        let (commands, _) = broadcast::channel(4);
        let server = Self {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            protocols: Arc::default(),
            arrivals,
            commands: commands.clone(),
        };
        let connections = Arc::clone(&server.connections);
        let protocols = Arc::clone(&server.protocols);
        let commands = commands.downgrade();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let no = connections.fetch_add(1, Ordering::SeqCst) + 1;
                let (acceptor, arrive) = (acceptor.clone(), arrive.clone());
                let protocols = Arc::clone(&protocols);
                let Some(commands) = commands.upgrade().map(|it| it.subscribe()) else {
                    return;
                };
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
                    let is_http2 = agreed.as_deref() == Some(b"h2");
                    protocols.lock().unwrap().push(agreed);
                    if is_http2 {
                        serve(no, stream, arrive, commands).await;
                    }
                });
            }
        });
        server
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// How many connections were accepted so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn protocols(&self) -> Vec<Option<Vec<u8>>> {
        self.protocols.lock().unwrap().clone()
    }

    /// The next request.
    pub(crate) async fn next(&mut self) -> Arrived {
        self.arrivals.recv().await.unwrap()
    }

    /// The next requests.
    pub(crate) async fn next_of(&mut self, count: usize) -> Vec<Arrived> {
        let mut arrived = Vec::new();
        while arrived.len() < count {
            arrived.push(self.next().await);
        }
        arrived
    }

    /// Closes all connections without notice.
    pub(crate) fn cut(&self) {
        let _ = self.commands.send(Command::Cut);
    }

    /// Tells all connections that they serve no further request.
    pub(crate) fn go_away(&self) {
        let _ = self.commands.send(Command::GoAway);
    }
}

async fn serve(
    no: usize,
    stream: TlsStream<TcpStream>,
    arrive: mpsc::UnboundedSender<Arrived>,
    mut commands: broadcast::Receiver<Command>,
) {
    let Ok(mut connection) = server::handshake(stream).await else {
        return;
    };
    loop {
        tokio::select! {
            accepted = connection.accept() => {
                let Some(Ok((request, respond))) = accepted else {
                    return;
                };
                let arrive = arrive.clone();
                tokio::spawn(async move {
                    if let Some(arrived) = receive(no, request, respond).await {
                        let _ = arrive.send(arrived);
                    }
                });
            }
            command = commands.recv() => match command {
                Ok(Command::GoAway) => connection.graceful_shutdown(),
                Ok(Command::Cut) | Err(_) => return,
            },
        }
    }
}

async fn receive(
    connection: usize,
    request: Request<RecvStream>,
    respond: SendResponse<bytes::Bytes>,
) -> Option<Arrived> {
    let (head, mut stream) = request.into_parts();
    let mut body = Vec::new();
    while let Some(chunk) = stream.data().await {
        let chunk = chunk.ok()?;
        let _ = stream.flow_control().release_capacity(chunk.len());
        body.extend_from_slice(&chunk);
    }
    Some(Arrived {
        connection,
        method: head.method,
        target: head.uri.path_and_query()?.to_string(),
        headers: head.headers,
        body,
        respond,
    })
}

impl Arrived {
    /// A whole answer. The client may be gone: some tests are about that.
    pub(crate) fn answer(self, body: &str) {
        if let Some(mut stream) = self.begin() {
            let _ = stream.send_data(body.to_owned().into(), true);
        }
    }

    /// The head of an answer.
    pub(crate) fn begin(mut self) -> Option<SendStream<bytes::Bytes>> {
        self.respond.send_response(Response::new(()), false).ok()
    }

    pub(crate) fn reset(mut self, reason: Reason) {
        self.respond.send_reset(reason);
    }

    /// Why the client has given up the request.
    pub(crate) async fn given_up(mut self) -> Reason {
        let given_up = std::future::poll_fn(|context| self.respond.poll_reset(context));
        given_up.await.unwrap()
    }
}

/// An agent that answers the first request of a connection with these bytes, as HTTP/2 frames.
pub(crate) async fn start_raw(tls: &ServerConfig, answer: Vec<u8>) -> SocketAddr {
    const PREFACE: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
    const HEADERS: u8 = 1;
    let acceptor = acceptor(tls, &["h2"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.unwrap();
        stream.read_exact(&mut [0; PREFACE]).await.unwrap();
        stream.write_all(&frame(4, 0, &[])).await.unwrap();
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await.unwrap();
            let length = usize::from(head[1]) << 8 | usize::from(head[2]);
            stream.read_exact(&mut vec![0; length]).await.unwrap();
            if head[3] == HEADERS {
                break;
            }
        }
        stream.write_all(&answer).await.unwrap();
        stream.flush().await.unwrap();
        // Until the client closes.
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    address
}

/// A frame without flags (RFC 9113, 4.1).
pub(crate) fn frame(kind: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    let mut frame = vec![0, 0, length, kind, 0, 0, 0, 0, stream];
    frame.extend_from_slice(payload);
    frame
}

fn acceptor(tls: &ServerConfig, protocols: &[&str]) -> TlsAcceptor {
    let mut tls = tls.clone();
    tls.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(tls))
}
