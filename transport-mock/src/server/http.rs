//! HTTP/1.1 for small requests: bytes in, a request out, and back.

use semaphore_core::Token;
use semaphore_core::adapter::{Method, Request, Response};

/// The most bytes of request line and headers.
const MAX_HEAD: usize = 64 * 1024;
/// The most bytes of a body. Consul itself refuses a value of more than 512 KiB.
const MAX_BODY: usize = 4 * 1024 * 1024;
const MAX_HEADERS: usize = 100;

/// What the bytes received so far are.
#[derive(Debug)]
pub(crate) enum Decoded {
    /// The beginning of a request.
    Partial {
        /// The client waits for a `100 Continue` before it sends the body.
        wants_continue: bool,
    },
    /// A whole request.
    Whole(Incoming),
    /// An invalid request, with its answer. What follows can't be decoded.
    Refused(Response),
}

/// A request, and what happens to its connection.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) request: Request,
    /// How many bytes it took.
    pub(crate) length: usize,
    /// Whether the connection ends after the answer.
    pub(crate) close: bool,
}

/// Reads the request at the beginning of `bytes`.
pub(crate) fn decode(bytes: &[u8]) -> Decoded {
    match try_decode(bytes) {
        Ok(Some(incoming)) => Decoded::Whole(incoming),
        Ok(None) => Decoded::Partial {
            wants_continue: wants_continue(bytes),
        },
        Err((status, text)) => Decoded::Refused(Response::new(status, text)),
    }
}

/// Writes an answer.
pub(crate) fn encode(response: &Response, close: bool) -> Vec<u8> {
    let status = response.status();
    let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    for (name, value) in response.headers() {
        if !name.eq_ignore_ascii_case("content-length") {
            head.push_str(name);
            head.push_str(": ");
            head.push_str(value);
            head.push_str("\r\n");
        }
    }
    if close {
        head.push_str("Connection: close\r\n");
    }
    head.push_str("Content-Length: ");
    head.push_str(&response.body().len().to_string());
    head.push_str("\r\n\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(response.body());
    bytes
}

type Refusal = (u16, &'static str);

fn try_decode(bytes: &[u8]) -> Result<Option<Incoming>, Refusal> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let head = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(head)) if head <= MAX_HEAD => head,
        Ok(httparse::Status::Partial) if bytes.len() <= MAX_HEAD => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => {
            return Err((431, "the request's header is too large"));
        }
        Err(_) => return Err((400, "400 Bad Request")),
    };
    let fields = Fields(parsed.headers);
    let rest = &bytes[head..];
    let Some((body, body_length)) = decode_body(&fields, rest)? else {
        return Ok(None);
    };

    let target = parsed.path.unwrap_or_default();
    if !target.starts_with('/') {
        return Err((400, "400 Bad Request"));
    }
    let method = match parsed.method {
        Some("GET") => Method::Get,
        Some("PUT") => Method::Put,
        Some("DELETE") => Method::Delete,
        _ => return Err((405, "method not allowed")),
    };
    // Consul reads a session creation's body only if its length is given.
    let body = if fields.is_chunked()? && target.starts_with("/v1/session/create") {
        Vec::new()
    } else {
        body
    };
    Ok(Some(Incoming {
        request: Request::new(method, target)
            .with_token(fields.token()?)
            .with_body(body),
        length: head + body_length,
        close: fields.has_token("connection", "close")
            || (parsed.version == Some(0) && !fields.has_token("connection", "keep-alive")),
    }))
}

/// The body at the beginning of `rest`, and its length in bytes.
fn decode_body(fields: &Fields<'_>, rest: &[u8]) -> Result<Option<(Vec<u8>, usize)>, Refusal> {
    let length = fields.content_length()?;
    if fields.is_chunked()? {
        if length.is_some() {
            return Err((400, "both Content-Length and Transfer-Encoding"));
        }
        return decode_chunks(rest);
    }
    let length = length.unwrap_or(0);
    if length > MAX_BODY {
        return Err((413, "the request's body is too large"));
    }
    Ok(rest.get(..length).map(|body| (body.to_vec(), length)))
}

fn decode_chunks(rest: &[u8]) -> Result<Option<(Vec<u8>, usize)>, Refusal> {
    const BAD: Refusal = (400, "malformed chunked encoding");
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let (start, size) = match httparse::parse_chunk_size(&rest[at..]) {
            Ok(httparse::Status::Complete(found)) => found,
            Ok(httparse::Status::Partial) if rest.len() - at <= MAX_HEAD => return Ok(None),
            _ => return Err(BAD),
        };
        at += start;
        if size == 0 {
            return end_of_trailers(&rest[at..]).map(|end| end.map(|end| (body, at + end)));
        }
        let size = usize::try_from(size)
            .ok()
            .filter(|size| body.len() + size <= MAX_BODY)
            .ok_or((413, "the request's body is too large"))?;
        let Some(chunk) = rest.get(at..at + size + 2) else {
            return Ok(None);
        };
        let Some(chunk) = chunk.strip_suffix(b"\r\n") else {
            return Err(BAD);
        };
        body.extend_from_slice(chunk);
        at += size + 2;
    }
}

/// The length of the trailers in bytes. They are ignored.
fn end_of_trailers(rest: &[u8]) -> Result<Option<usize>, Refusal> {
    let mut trailers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    match httparse::parse_headers(rest, &mut trailers) {
        Ok(httparse::Status::Complete((length, _))) => Ok(Some(length)),
        Ok(httparse::Status::Partial) if rest.len() <= MAX_HEAD => Ok(None),
        _ => Err((400, "malformed trailers")),
    }
}

fn wants_continue(bytes: &[u8]) -> bool {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    matches!(parsed.parse(bytes), Ok(httparse::Status::Complete(_)))
        && Fields(parsed.headers).has_token("expect", "100-continue")
}

/// The header fields of a request.
struct Fields<'a>(&'a [httparse::Header<'a>]);

impl Fields<'_> {
    fn all(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.0
            .iter()
            .filter(move |field| field.name.eq_ignore_ascii_case(name))
            .map(|field| field.value)
    }

    fn has_token(&self, name: &str, wanted: &str) -> bool {
        self.all(name)
            .filter_map(|value| std::str::from_utf8(value).ok())
            .flat_map(|value| value.split(','))
            .any(|token| token.trim().eq_ignore_ascii_case(wanted))
    }

    fn content_length(&self) -> Result<Option<usize>, Refusal> {
        let mut found = None;
        for value in self.all("content-length") {
            let length = std::str::from_utf8(value)
                .ok()
                .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))
                .and_then(|digits| digits.parse().ok())
                .filter(|length| found.is_none_or(|other| other == *length))
                .ok_or((400, "bad Content-Length"))?;
            found = Some(length);
        }
        Ok(found)
    }

    fn is_chunked(&self) -> Result<bool, Refusal> {
        let mut encodings = self.all("transfer-encoding");
        match (encodings.next(), encodings.next()) {
            (None, _) => Ok(false),
            (Some(encoding), None) if encoding.eq_ignore_ascii_case(b"chunked") => Ok(true),
            _ => Err((501, "unsupported transfer encoding")),
        }
    }

    /// The ACL token, which Consul accepts in two headers.
    fn token(&self) -> Result<Option<Token>, Refusal> {
        let bearer = self
            .all("authorization")
            .filter_map(|value| value.strip_prefix(b"Bearer "));
        let Some(secret) = self
            .all("x-consul-token")
            .chain(bearer)
            .find(|secret| !secret.is_empty())
        else {
            return Ok(None);
        };
        String::from_utf8(secret.to_vec())
            .ok()
            .and_then(|secret| Token::new(secret).ok())
            .map(Some)
            .ok_or((400, "malformed token"))
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        301 => "Moved Permanently",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        413 => "Request Entity Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "Status",
    }
}
