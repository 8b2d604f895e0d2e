//! The core alone. The protocol is a state machine, and this file is all the I/O around it: no
//! adapter, no HTTP library, no async, but a thread and a socket for each request.
//!
//! `cargo run --bin by_hand`, on a Consul in memory or on the agent at `CONSUL_HTTP_ADDR` (plain
//! HTTP or `unix://`; no TLS).

use std::error::Error;
use std::io;
use std::net::TcpStream;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use examples::agent::Agent;
use semaphore_core::adapter::AgentUrl;
use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::{
    Event, Instant, Participant, Request, RequestId, Response, Settings, TransportError,
    TransportErrorKind,
};
use semaphore_core::{Prefix, Scope};

type Answer = (RequestId, Result<Response, TransportError>);

fn main() -> Result<(), Box<dyn Error>> {
    let agent = Agent::find()?;
    let origin = std::time::Instant::now();
    // The core reads no clock, and has no source of randomness: both are passed to it.
    let now = || Instant::from_origin(origin.elapsed());
    let mut scope = Scope::new();
    if let Some(token) = agent.token() {
        scope = scope.with_token(token);
    }
    let settings = Settings::new(Prefix::new("examples/by-hand")?, 3)?.with_scope(scope);
    let mut participant = Participant::new(settings, u64::from(std::process::id()));
    let (answers, answered): (Sender<Answer>, Receiver<Answer>) = mpsc::channel();

    participant.acquire(now(), 1, Some(now() + Duration::from_secs(30)))?;
    loop {
        // Do what is due, and send.
        participant.handle_timeout(now());
        while let Some(transmit) = participant.poll_transmit(now()) {
            println!(
                "{} {} {}",
                now(),
                transmit.request.method(),
                transmit.request.target()
            );
            let (answers, url) = (answers.clone(), agent.url().clone());
            thread::spawn(move || {
                let _ = answers.send((transmit.id, send(&url, &transmit.request)));
            });
        }

        // Handle what happened.
        while let Some(event) = participant.poll_event() {
            match event {
                Event::Granted {
                    command: acquire,
                    grant,
                } => {
                    println!("{} held, token {}", now(), grant.token);
                    participant.release(now(), acquire);
                }
                Event::Done { result, .. } => {
                    result?;
                    // Its session is not kept for another turn.
                    participant.close(now());
                }
                Event::Failed { error, .. } => return Err(error.into()),
                other => println!("{} {other:?}", now()),
            }
        }

        if participant.is_idle() {
            println!("{} released", now());
            return Ok(());
        }

        // Sleep until an answer comes, or until the machine must be called again.
        let wake = participant.poll_timeout();
        let sleep = wake.map_or(Duration::from_secs(1), |at| at.saturating_since(now()));
        if let Ok((id, result)) = answered.recv_timeout(sleep) {
            participant.handle_response(now(), id, result);
        }
    }
}

/// One request on a separate connection.
fn send(url: &AgentUrl, request: &Request) -> Result<Response, TransportError> {
    // The core must know only one thing about a failure: whether the agent can have seen the
    // request.
    let failed = |kind| move |error: io::Error| TransportError::with_source(kind, error);
    let stream = connect(url, request.timeout()).map_err(failed(TransportErrorKind::NotSent))?;
    exchange(stream, url, request).map_err(failed(TransportErrorKind::Unknown))
}

fn connect(url: &AgentUrl, patience: Duration) -> io::Result<Box<dyn Stream>> {
    if url.is_https() {
        return Err(io::Error::other("TLS takes more than a socket"));
    }
    #[cfg(unix)]
    if let Some(path) = url.socket() {
        let stream = std::os::unix::net::UnixStream::connect(path)?;
        stream.set_read_timeout(Some(patience))?;
        return Ok(Box::new(stream));
    }
    let stream = TcpStream::connect((url.host(), url.port()))?;
    stream.set_read_timeout(Some(patience))?;
    Ok(Box::new(stream))
}

trait Stream: io::Read + io::Write {}
impl<T: io::Read + io::Write> Stream for T {}

fn exchange(
    mut stream: Box<dyn Stream>,
    url: &AgentUrl,
    request: &Request,
) -> io::Result<Response> {
    write!(
        stream,
        "{} {} HTTP/1.1\r\n",
        request.method(),
        request.target()
    )?;
    write!(stream, "Host: {}\r\nConnection: close\r\n", url.host())?;
    for (name, value) in request.headers() {
        write!(stream, "{name}: {value}\r\n")?;
    }
    write!(stream, "Content-Length: {}\r\n\r\n", request.body().len())?;
    stream.write_all(request.body())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    parse(&answer).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// An answer that ended with its connection.
fn parse(answer: &[u8]) -> Option<Response> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<_> = lines.filter_map(|line| line.split_once(": ")).collect();
    let has = |name: &str, value: &str| {
        headers
            .iter()
            .any(|(n, v)| n.eq_ignore_ascii_case(name) && v.eq_ignore_ascii_case(value))
    };
    let body = &answer[end + 4..];
    let is_chunked = has("Transfer-Encoding", "chunked");
    let is_whole = is_chunked || has("Content-Length", &body.len().to_string());
    let body = if is_chunked {
        joined(body)?
    } else {
        body.to_vec()
    };
    let response = Response::new(status, body);
    is_whole.then(|| {
        headers
            .iter()
            .fold(response, |r, (name, value)| r.with_header(*name, *value))
    })
}

/// Joins the chunks of a body. Each follows a line with its length, and an empty one is the last.
fn joined(mut chunks: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = chunks.windows(2).position(|two| two == b"\r\n")?;
        let length = std::str::from_utf8(&chunks[..line]).ok()?;
        let length = usize::from_str_radix(length, 16).ok()?;
        if length == 0 {
            return Some(body);
        }
        body.extend_from_slice(chunks.get(line + 2..line + 2 + length)?);
        chunks = chunks.get(line + 2 + length + 2..)?;
    }
}
