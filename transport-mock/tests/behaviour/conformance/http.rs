//! Plain HTTP, without a client library that would clean a path, follow a redirect or hide a
//! header.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use semaphore_core::adapter::{Request, Response};

/// How long an immediate answer may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A longer body gets a separate connection, since the agent may answer and close before it has
/// read the body.
const SHORT: usize = 64 * 1024;

/// Stands for the status if there is no answer, for example when the agent's handler panics.
pub(crate) const NO_ANSWER: u16 = 0;

/// The connections to one server: one that is kept, and others for requests that don't fit it.
pub(crate) struct Connections {
    address: SocketAddr,
    kept: Option<BufReader<TcpStream>>,
}

impl Connections {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            kept: None,
        }
    }

    /// Sends one request and reads its whole answer.
    pub(crate) fn exchange(&mut self, request: &Request) -> Response {
        if request.body().len() > SHORT {
            return self.exchange_alone(request);
        }
        let kept = self.kept.take();
        let Some(mut reader) = kept.or_else(|| connect(self.address).ok().map(BufReader::new))
        else {
            return no_answer();
        };
        let response = send(reader.get_ref(), request, "keep-alive")
            .ok()
            .and_then(|()| read_response(&mut reader))
            .unwrap_or_else(no_answer);
        if response.status() != NO_ANSWER && response.header("Connection") != Some("close") {
            self.kept = Some(reader);
        }
        response
    }

    /// Sends a request that is answered later.
    pub(crate) fn query(&self, request: &Request) -> Query {
        let stream = connect(self.address).ok();
        if let Some(stream) = &stream {
            send(stream, request, "close").expect("the agent takes a query");
        }
        Query(stream)
    }

    fn exchange_alone(&self, request: &Request) -> Response {
        let Ok(stream) = connect(self.address) else {
            return no_answer();
        };
        thread::scope(|scope| {
            // Sending may fail when the agent has answered already. So the answer is read at the
            // same time.
            scope.spawn(|| send(&stream, request, "close"));
            let response = read_response(&mut BufReader::new(&stream));
            response.unwrap_or_else(no_answer)
        })
    }
}

/// A request that waits for its answer, if its server could be reached. Dropping this closes the
/// connection.
pub(crate) struct Query(Option<TcpStream>);

impl Query {
    /// The answer, if it comes in time.
    pub(crate) fn answer_within(&self, patience: Duration) -> Option<Response> {
        let stream = self.0.as_ref()?;
        stream.set_read_timeout(Some(patience)).ok()?;
        stream.peek(&mut [0]).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        read_response(&mut BufReader::new(stream))
    }

    /// Whether no answer comes within this time.
    pub(crate) fn is_quiet_for(&self, time: Duration) -> bool {
        self.0.as_ref().is_some_and(|stream| {
            stream.set_read_timeout(Some(time)).is_ok() && stream.peek(&mut [0]).is_err()
        })
    }
}

fn no_answer() -> Response {
    Response::new(NO_ANSWER, "no answer: the connection was closed")
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn send(mut stream: &TcpStream, request: &Request, connection: &str) -> io::Result<()> {
    let mut head = format!(
        "{} {} HTTP/1.1\r\nHost: consul\r\nConnection: {connection}\r\nContent-Length: {}\r\n",
        request.method(),
        request.target(),
        request.body().len()
    );
    for (name, value) in request.headers() {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(request.body());
    stream.write_all(&bytes)
}

fn read_response(reader: &mut impl BufRead) -> Option<Response> {
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        Some(line.trim_end().to_owned())
    };
    let status = line()?;
    let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
    let mut headers = Vec::new();
    loop {
        let header = line()?;
        match header.split_once(": ") {
            Some((name, value)) => headers.push((name.to_owned(), value.to_owned())),
            None => break,
        }
    }
    let find = |name: &str| {
        headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    };
    let mut body = Vec::new();
    if find("Transfer-Encoding") == Some("chunked") {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size).unwrap();
            let size = usize::from_str_radix(size.trim_end(), 16).unwrap();
            let mut chunk = vec![0; size + 2];
            reader.read_exact(&mut chunk).unwrap();
            if size == 0 {
                break;
            }
            body.extend_from_slice(&chunk[..size]);
        }
    } else if let Some(length) = find("Content-Length") {
        body.resize(length.parse().unwrap(), 0);
        reader.read_exact(&mut body).unwrap();
    } else {
        reader.read_to_end(&mut body).unwrap();
    }
    let mut response = Response::new(status?, body);
    for (name, value) in headers {
        response = response.with_header(name, value);
    }
    Some(response)
}
