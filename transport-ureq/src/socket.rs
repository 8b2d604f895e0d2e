//! A connection to a Unix socket. ureq has none.

use std::fmt;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use async_io::Async;
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, LazyBuffers, NextTimeout, ShutdownHandle, Transport,
};

/// An open connection. Timeouts work as those of ureq's TCP connections.
pub(crate) struct Socket {
    /// Shared with the caller, which can give the request up.
    stream: Arc<Stream>,
    buffers: LazyBuffers,
}

struct Stream(UnixStream);

impl Socket {
    pub(crate) fn connect(path: &Path, details: &ConnectionDetails) -> Result<Self, Error> {
        let stream = Arc::new(Stream(open(path)?));
        let handle = Arc::downgrade(&stream) as Weak<dyn ShutdownHandle>;
        (details.register_shutdown)(handle)?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Self { stream, buffers })
    }
}

/// A plain `connect` would wait forever for an agent that stands still and whose backlog is full.
fn open(path: &Path) -> io::Result<UnixStream> {
    let stream = async_io::block_on(Async::<UnixStream>::connect(path))?.into_inner()?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

impl ShutdownHandle for Stream {
    fn shutdown(&self) {
        // An error means that it is closed already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Transport for Socket {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let deadline = Deadline::new(timeout.for_write());
        let mut stream = &self.stream.0;
        let mut left = &self.buffers.output()[..amount];
        while !left.is_empty() {
            let written = deadline.attempt(|remaining| {
                stream.set_write_timeout(remaining)?;
                stream.write(left)
            })?;
            if written == 0 {
                return Err(Error::Io(ErrorKind::WriteZero.into()));
            }
            left = &left[written..];
        }
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let deadline = Deadline::new(timeout.for_read());
        let mut stream = &self.stream.0;
        let input = self.buffers.input_append_buf();
        let amount = deadline.attempt(|remaining| {
            stream.set_read_timeout(remaining)?;
            stream.read(input)
        })?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    /// Whether it is open and has no unexpected bytes.
    fn is_open(&mut self) -> bool {
        let mut stream = &self.stream.0;
        let is_quiet = stream.set_nonblocking(true).is_ok()
            && matches!(stream.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
        is_quiet && stream.set_nonblocking(false).is_ok()
    }
}

/// The time at which an operation must be over.
struct Deadline {
    began: Instant,
    timeout: NextTimeout,
}

impl Deadline {
    fn new(timeout: NextTimeout) -> Self {
        let began = Instant::now();
        Self { began, timeout }
    }

    /// Tries it with the remaining time, and again after each signal.
    fn attempt<T>(
        &self,
        mut attempt: impl FnMut(Option<Duration>) -> io::Result<T>,
    ) -> Result<T, Error> {
        let is_over = || Error::Timeout(self.timeout.reason);
        if self.timeout.after.is_zero() {
            return Err(is_over());
        }
        loop {
            let all = self.timeout.not_zero();
            let remaining = all.map(|all| all.saturating_sub(self.began.elapsed()));
            if remaining == Some(Duration::ZERO) {
                return Err(is_over());
            }
            match attempt(remaining) {
                Ok(done) => return Ok(done),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => return Err(is_over()),
                    _ => return Err(Error::Io(error)),
                },
            }
        }
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").finish_non_exhaustive()
    }
}
