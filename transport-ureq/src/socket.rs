//! A connection to a socket of the file system, which ureq has none of.

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

/// An open connection. Time is kept as ureq does for TCP.
pub(crate) struct Socket {
    /// Shared with whoever gives the request up.
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

/// A plain `connect` would wait without end for an agent that stands still and has no room for one more.
fn open(path: &Path) -> io::Result<UnixStream> {
    let stream = async_io::block_on(Async::<UnixStream>::connect(path))?.into_inner()?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

impl ShutdownHandle for Stream {
    fn shutdown(&self) {
        // An error says that it is closed already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Transport for Socket {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let timeout = timeout.for_write();
        let mut stream = &self.stream.0;
        let mut left = &self.buffers.output()[..amount];
        within(timeout, |remaining| {
            stream.set_write_timeout(remaining)?;
            while !left.is_empty() {
                match stream.write(left)? {
                    0 => return Err(ErrorKind::WriteZero.into()),
                    written => left = &left[written..],
                }
            }
            Ok(())
        })
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = timeout.for_read();
        let mut stream = &self.stream.0;
        let input = self.buffers.input_append_buf();
        let amount = within(timeout, |remaining| {
            stream.set_read_timeout(remaining)?;
            stream.read(input)
        })?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    /// Whether it is neither closed nor has what nobody asked for.
    fn is_open(&mut self) -> bool {
        let mut stream = &self.stream.0;
        let is_quiet = stream.set_nonblocking(true).is_ok()
            && matches!(stream.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
        is_quiet && stream.set_nonblocking(false).is_ok()
    }
}

/// Does it, again after each signal, in the time that is left of the timeout.
fn within<T>(
    timeout: NextTimeout,
    mut attempt: impl FnMut(Option<Duration>) -> io::Result<T>,
) -> Result<T, Error> {
    if timeout.after.is_zero() {
        return Err(Error::Timeout(timeout.reason));
    }
    let began = Instant::now();
    let all = timeout.not_zero().map(|duration| *duration);
    loop {
        let remaining = all.map(|all| all.saturating_sub(began.elapsed()));
        if remaining.is_some_and(|remaining| remaining.is_zero()) {
            return Err(Error::Timeout(timeout.reason));
        }
        match attempt(remaining) {
            Ok(done) => return Ok(done),
            Err(error) => match error.kind() {
                ErrorKind::Interrupted => {}
                ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                    return Err(Error::Timeout(timeout.reason));
                }
                _ => return Err(Error::Io(error)),
            },
        }
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").finish_non_exhaustive()
    }
}
