//! One connection, with one request after the other. A request ends when its client hangs up.

use std::io;
use std::time::Duration;

use semaphore_core::adapter::{Method, Request, Response, Transport as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::http::{self, Decoded};
use super::order;
use crate::client::MockClient;
use crate::mock::MockConsul;

/// The longest time for an answer. Giving up earlier is the client's task.
const FOR_EVER: Duration = Duration::from_secs(24 * 60 * 60);

/// A client that does not read its answer for so long is gone. So is one that has closed its half
/// and waits for so long.
const LONGEST_WRITE: Duration = Duration::from_secs(10);

/// How long a refused client may still send. Closing with unread bytes would reset the connection,
/// and the client would lose the refusal.
const LONGEST_DRAIN: Duration = Duration::from_millis(500);

/// The most bytes that a client may send ahead during one of its requests.
const MAX_AHEAD: usize = 8 * 1024 * 1024;

/// Serves `stream` until either side ends it.
pub(super) async fn serve(
    world: &MockConsul,
    client: &MockClient,
    stream: TcpStream,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut connection = Connection {
        stream,
        ahead: Vec::new(),
        hung_up: false,
    };
    let mut continued = false;
    loop {
        match http::decode(&connection.ahead) {
            Decoded::Whole(incoming) => {
                connection.ahead.drain(..incoming.length);
                continued = false;
                let answer = match incoming.request.target().strip_prefix("/mock") {
                    Some(order) => Some(page(world, &incoming.request, order)),
                    None => connection.exchange(client, incoming.request).await?,
                };
                let Some(answer) = answer else {
                    return Ok(());
                };
                let bytes = http::encode(&answer, incoming.close);
                connection.write(&bytes).await?;
                if incoming.close {
                    return connection.stream.shutdown().await;
                }
            }
            Decoded::Partial { wants_continue } => {
                if wants_continue && !continued {
                    continued = true;
                    connection.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
                }
                if connection.hung_up || connection.read().await? == 0 {
                    return Ok(());
                }
            }
            Decoded::Refused(answer) => {
                connection.write(&http::encode(&answer, true)).await?;
                return connection.end().await;
            }
        }
    }
}

struct Connection {
    stream: TcpStream,
    /// Bytes that are received but not decoded.
    ahead: Vec<u8>,
    hung_up: bool,
}

impl Connection {
    /// The answer, or `None` if there is none or the client has hung up.
    async fn exchange(
        &mut self,
        client: &MockClient,
        request: Request,
    ) -> io::Result<Option<Response>> {
        let may_wait = request.target().contains("index=");
        let mut answer = client.send(request.with_timeout(FOR_EVER));
        while !self.hung_up {
            tokio::select! {
                biased;
                answer = &mut answer => return Ok(answer.ok()),
                length = self.stream.read_buf(&mut self.ahead) => {
                    self.hung_up = length? == 0;
                    if self.ahead.len() > MAX_AHEAD {
                        return Ok(None);
                    }
                }
            }
        }
        if may_wait {
            return Ok(None);
        }
        // The client may have closed only its half.
        let answer = timeout(LONGEST_WRITE, answer).await;
        Ok(answer.ok().and_then(Result::ok))
    }

    /// How many more bytes came; zero if the client sends no more.
    async fn read(&mut self) -> io::Result<usize> {
        self.stream.read_buf(&mut self.ahead).await
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        timeout(LONGEST_WRITE, self.stream.write_all(bytes)).await?
    }

    /// Reads and ignores what the client still sends, then closes.
    async fn end(&mut self) -> io::Result<()> {
        self.stream.shutdown().await?;
        let mut rest = Vec::new();
        let drained = async {
            while self.stream.read_buf(&mut rest).await? > 0 {
                rest.clear();
            }
            Ok(())
        };
        timeout(LONGEST_DRAIN, drained).await.unwrap_or(Ok(()))
    }
}

/// The answer to `/mock`.
fn page(world: &MockConsul, request: &Request, order: &str) -> Response {
    let order = order.strip_prefix('/').unwrap_or(order);
    match request.method() {
        Method::Get => {
            let (help, now, story) = (order::HELP, world.now(), world.end_of_story());
            let trace = world.end_of_trace();
            let page = format!("{help}\nIt is {now}.\n\n{story}\n\nOf the trace:\n{trace}\n");
            Response::new(200, page)
        }
        Method::Put | Method::Delete => match world.order(order) {
            Ok(()) => Response::new(200, "done\n"),
            Err(error) => Response::new(400, format!("{error}\n")),
        },
    }
}
