//! A proxy that counts the requests of clients that don't count them.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::failure::Failure;

/// A port that leads to an agent. It stays open until the program ends.
#[derive(Debug)]
pub(crate) struct Counter {
    addr: SocketAddr,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU64,
    open: AtomicU64,
    peak: AtomicU64,
}

impl Counter {
    /// Forwards to `agent`.
    ///
    /// # Errors
    /// [`Failure::System`] when there is no port to be had.
    pub(crate) fn start(agent: SocketAddr) -> Result<Self, Failure> {
        let no_port = "no port for the counter of requests";
        let listener = TcpListener::bind("127.0.0.1:0").map_err(Failure::system(no_port))?;
        let addr = listener.local_addr().map_err(Failure::system(no_port))?;
        let counts = Arc::<Counts>::default();
        let shared = Arc::clone(&counts);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let counts = Arc::clone(&shared);
                // The client itself notices when a connection fails.
                thread::spawn(move || counts.forward(client, agent));
            }
        });
        Ok(Self { addr, counts })
    }

    /// Where clients connect to.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// How many requests passed.
    pub(crate) fn requests(&self) -> u64 {
        self.counts.requests.load(Ordering::SeqCst)
    }

    /// The most connections that were open at one time.
    pub(crate) fn peak(&self) -> u64 {
        self.counts.peak.load(Ordering::SeqCst)
    }
}

impl Counts {
    fn forward(&self, mut client: TcpStream, agent: SocketAddr) -> io::Result<()> {
        let mut up = TcpStream::connect(agent)?;
        let (mut down, mut back) = (up.try_clone()?, client.try_clone()?);
        for half in [&up, &client] {
            half.set_nodelay(true)?;
        }
        let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.peak.fetch_max(open, Ordering::SeqCst);
        let answers = thread::spawn(move || {
            let _ = io::copy(&mut down, &mut back);
            let _ = back.shutdown(Shutdown::Both);
        });
        let forwarded = self.count(&mut client, &mut up);
        let _ = up.shutdown(Shutdown::Both);
        let _ = answers.join();
        self.open.fetch_sub(1, Ordering::SeqCst);
        forwarded
    }

    fn count(&self, from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
        let mut heads = Heads::default();
        let mut buffer = [0; 16 * 1024];
        loop {
            let length = from.read(&mut buffer)?;
            if length == 0 {
                return Ok(());
            }
            let part = &buffer[..length];
            let found = part.iter().filter(|byte| heads.ends_line(**byte)).count();
            self.requests.fetch_add(found as u64, Ordering::SeqCst);
            to.write_all(part)?;
        }
    }
}

/// Finds the ends of request lines in a stream. The protocol's bodies are JSON and short texts, and
/// contain none.
#[derive(Debug, Default)]
struct Heads {
    matched: usize,
}

impl Heads {
    fn ends_line(&mut self, byte: u8) -> bool {
        const END: &[u8] = b" HTTP/1.1\r\n";
        // Only the first byte of `END` is a space, so a match can only start over at its beginning.
        self.matched = match END.get(self.matched) {
            Some(expected) if *expected == byte => self.matched + 1,
            _ => usize::from(byte == b' '),
        };
        if self.matched == END.len() {
            self.matched = 0;
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_wherever_the_stream_is_cut() {
        let stream = b"PUT /v1/kv/a%20b HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n HTTP/1.\
            GET /v1/kv/a HTTP/1.1\r\n\r\nGET  HTTP/1.1\r\n\r\n";
        for cut in 0..stream.len() {
            let counts = Counts::default();
            let (mut before, mut after) = stream.split_at(cut);
            let mut forwarded = Vec::new();
            let mut both = Read::chain(&mut before, &mut after);
            counts.count(&mut both, &mut forwarded).expect("no I/O");
            assert_eq!(forwarded, stream);
        }
        let counts = Counts::default();
        let whole = counts.count(&mut &stream[..], &mut io::sink());
        whole.expect("no I/O");
        assert_eq!(counts.requests.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn a_line_end_is_found_after_a_false_start() {
        let mut heads = Heads::default();
        let found = b"  HTTP HTTP/1.1\r\n"
            .iter()
            .filter(|byte| heads.ends_line(**byte));
        assert_eq!(found.count(), 1);
    }
}
