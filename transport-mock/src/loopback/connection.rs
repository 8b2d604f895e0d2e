//! One connection: requests one after the other, while a second thread reads ahead, so that a
//! client that hangs up during a blocking query is noticed at once.
//!
//! ```text
//!  socket ──▶ reading thread ──Received, HungUp──▶ inbox ──▶ this thread ──▶ socket
//!             hub ────────────Answer────────────▶
//! ```

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use semaphore_core::adapter::{Request, Response};

use super::http::{self, Decoded};
use super::hub::Hub;

/// What a connection waits for.
#[derive(Debug)]
pub(super) enum Event {
    /// Bytes from the client.
    Received(Vec<u8>),
    /// The client sends no more.
    HungUp,
    /// Consul has answered the present request.
    Answer(Response),
}

/// A client that does not take its answer for so long is gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// The most bytes that a client may send ahead while a request of its own is under way.
const MAX_AHEAD: usize = 8 * 1024 * 1024;

/// Serves `stream` until either side has enough.
pub(super) fn serve(hub: &Hub, stream: TcpStream) {
    let (sender, inbox) = mpsc::channel();
    let Ok(reading) = prepare(&stream).and_then(|reader| {
        let sender = sender.clone();
        thread::Builder::new()
            .name("consul-connection-reader".to_owned())
            .spawn(move || read_all(reader, &sender))
    }) else {
        return;
    };
    let mut connection = Connection {
        hub,
        stream,
        sender,
        inbox,
        ahead: Vec::new(),
        hung_up: false,
    };
    // Whatever ends it, all that is left to do is to close.
    let _ = connection.run();
    let _ = connection.stream.shutdown(Shutdown::Both);
    let _ = reading.join();
}

fn prepare(stream: &TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    stream.try_clone()
}

fn read_all(mut reader: TcpStream, sender: &Sender<Event>) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let event = match reader.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => Event::HungUp,
            Ok(length) => Event::Received(buffer[..length].to_vec()),
        };
        let last = matches!(event, Event::HungUp);
        if sender.send(event).is_err() || last {
            return;
        }
    }
}

struct Connection<'a> {
    hub: &'a Hub,
    stream: TcpStream,
    sender: Sender<Event>,
    inbox: Receiver<Event>,
    /// What has been received and not been decoded.
    ahead: Vec<u8>,
    hung_up: bool,
}

impl Connection<'_> {
    fn run(&mut self) -> io::Result<()> {
        let mut continued = false;
        loop {
            match http::decode(&self.ahead) {
                Decoded::Whole(incoming) => {
                    self.ahead.drain(..incoming.length);
                    continued = false;
                    let Some(answer) = self.exchange(&incoming.request) else {
                        return Ok(());
                    };
                    self.stream
                        .write_all(&http::encode(&answer, incoming.close))?;
                    if incoming.close {
                        return Ok(());
                    }
                }
                Decoded::Partial { wants_continue } => {
                    if wants_continue && !continued {
                        continued = true;
                        self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
                    }
                    if self.hung_up || !self.receive() {
                        return Ok(());
                    }
                }
                Decoded::Refused(answer) => {
                    self.stream.write_all(&http::encode(&answer, true))?;
                    self.drain_rest();
                    return Ok(());
                }
            }
        }
    }

    /// Consul's answer, or nothing when the client has gone before it.
    fn exchange(&mut self, request: &Request) -> Option<Response> {
        let exchange = self.hub.submit(request, &self.sender);
        loop {
            // An answer that is there is sent to a client that has only closed its own half.
            let event = if self.hung_up {
                self.inbox.try_recv().ok()
            } else {
                self.inbox.recv().ok()
            };
            match event {
                Some(Event::Answer(answer)) => return Some(answer),
                Some(Event::Received(bytes)) if self.ahead.len() < MAX_AHEAD => {
                    self.ahead.extend_from_slice(&bytes);
                }
                Some(Event::HungUp) => self.hung_up = true,
                Some(Event::Received(_)) | None => {
                    self.hub.abandon(exchange);
                    return None;
                }
            }
        }
    }

    /// Waits for more bytes. Returns whether some came.
    fn receive(&mut self) -> bool {
        match self.inbox.recv() {
            Ok(Event::Received(bytes)) => {
                self.ahead.extend_from_slice(&bytes);
                true
            }
            Ok(Event::HungUp | Event::Answer(_)) | Err(_) => {
                self.hung_up = true;
                false
            }
        }
    }

    /// Reads past what the client still sends, for a moment: closing on unread bytes would reset
    /// the connection and take the refusal away from under the client.
    fn drain_rest(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
        while let Ok(Event::Received(_)) = self.inbox.recv_timeout(Duration::from_millis(500)) {}
    }
}
