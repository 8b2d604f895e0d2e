//! One connection: requests one after the other, each of which ends when its client hangs up.

use std::io;
use std::time::Duration;

use semaphore_core::adapter::{Method, Request, Response, Transport as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::order;
use crate::client::MockClient;
use crate::loopback::http::{self, Decoded};
use crate::mock::MockConsul;

/// Until when an answer may come: when to give up is the client's part.
const FOR_EVER: Duration = Duration::from_hours(24);

/// The most bytes that a client may send ahead while a request of its own is under way.
const MAX_AHEAD: usize = 8 * 1024 * 1024;

pub(super) async fn serve(
    world: &MockConsul,
    client: &MockClient,
    mut stream: TcpStream,
) -> io::Result<()> {
    let mut ahead = Vec::new();
    let mut continued = false;
    loop {
        match http::decode(&ahead) {
            Decoded::Whole(incoming) => {
                ahead.drain(..incoming.length);
                continued = false;
                let answer = match incoming.request.target().strip_prefix("/mock") {
                    Some(order) => Some(page(world, &incoming.request, order)),
                    None => exchange(client, incoming.request, &mut stream, &mut ahead).await?,
                };
                let Some(answer) = answer else {
                    return Ok(());
                };
                let bytes = http::encode(&answer, incoming.close);
                stream.write_all(&bytes).await?;
                if incoming.close {
                    return stream.shutdown().await;
                }
            }
            Decoded::Partial { wants_continue } => {
                if wants_continue && !continued {
                    continued = true;
                    stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
                }
                if stream.read_buf(&mut ahead).await? == 0 {
                    return Ok(());
                }
            }
            Decoded::Refused(answer) => {
                stream.write_all(&http::encode(&answer, true)).await?;
                return stream.shutdown().await;
            }
        }
    }
}

/// The answer, unless there is none or the client hangs up before.
async fn exchange(
    client: &MockClient,
    request: Request,
    stream: &mut TcpStream,
    ahead: &mut Vec<u8>,
) -> io::Result<Option<Response>> {
    let mut answer = client.send(request.with_timeout(FOR_EVER));
    loop {
        tokio::select! {
            biased;
            answer = &mut answer => return Ok(answer.ok()),
            length = stream.read_buf(ahead) => {
                if length? == 0 || ahead.len() > MAX_AHEAD {
                    return Ok(None);
                }
            }
        }
    }
}

/// What `/mock` answers.
fn page(world: &MockConsul, request: &Request, order: &str) -> Response {
    let order = order.strip_prefix('/').unwrap_or(order);
    match request.method() {
        Method::Get => {
            let (help, now, trace) = (order::HELP, world.now(), world.end_of_trace());
            Response::new(200, format!("{help}\nIt is {now}.\n\n{trace}\n"))
        }
        Method::Put | Method::Delete => match world.order(order) {
            Ok(()) => Response::new(200, "done\n"),
            Err(error) => Response::new(400, format!("{error}\n")),
        },
    }
}
