//! The lines of a recording after the first: the machine's inputs, one line for each call.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::http::Response;
use crate::id::RequestId;
use crate::machine::{Command, Nanos};
use crate::one_line::WithCauses;
use crate::transport::{TransportError, TransportErrorKind};

/// One call, and when it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    pub(crate) at: Nanos,
    pub(crate) step: Step,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Step {
    /// A caller has given a command.
    Command(Command),
    /// Time has passed, and this was sent.
    Time { sent: Option<String> },
    /// The outcome of a request.
    Answer(Answer),
    /// There is no room for more.
    Full,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answer {
    pub(crate) id: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    response: Option<Told>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Told {
    status: u16,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// A body that is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
}

/// The headers that the machines use. Others, such as a proxy's cookie, are not recorded.
const HEADERS: [&str; 3] = [
    "X-Consul-Index",
    "X-Consul-Results-Filtered-By-ACLs",
    "Location",
];

impl Answer {
    pub(crate) fn new(id: RequestId, result: &Result<Response, TransportError>) -> Self {
        let (response, error) = match result {
            Ok(response) => (Some(Told::new(response)), None),
            Err(error) => (None, Some(Failure::new(error))),
        };
        Self {
            id: id.0,
            response,
            error,
        }
    }

    /// The outcome. `None` if a recorder never writes such a line.
    pub(crate) fn result(&self) -> Option<Result<Response, TransportError>> {
        match (&self.response, &self.error) {
            (Some(told), None) => Some(Ok(told.response()?)),
            (None, Some(failure)) => Some(Err(failure.error()?)),
            _ => None,
        }
    }
}

impl Told {
    fn new(response: &Response) -> Self {
        let headers = HEADERS.iter().filter_map(|name| {
            let value = response.header(name)?;
            Some(((*name).to_owned(), value.to_owned()))
        });
        let (text, base64) = match core::str::from_utf8(response.body()) {
            Ok(text) => (Some(text.to_owned()), None),
            Err(_) => (None, Some(STANDARD.encode(response.body()))),
        };
        Self {
            status: response.status(),
            headers: headers.collect(),
            text,
            base64,
        }
    }

    fn response(&self) -> Option<Response> {
        let body = match (&self.text, &self.base64) {
            (Some(text), None) => text.clone().into_bytes(),
            (None, Some(base64)) => STANDARD.decode(base64).ok()?,
            _ => return None,
        };
        let response = Response::new(self.status, body);
        let headers = self.headers.iter();
        Some(headers.fold(response, |response, (name, value)| {
            response.with_header(name, value)
        }))
    }
}

const KINDS: [(TransportErrorKind, &str); 6] = [
    (TransportErrorKind::NotSent, "not_sent"),
    (TransportErrorKind::Unknown, "unknown"),
    (TransportErrorKind::NoRoom, "no_room"),
    (TransportErrorKind::Timeout, "timeout"),
    (TransportErrorKind::BadAnswer, "bad_answer"),
    (TransportErrorKind::Misconfigured, "misconfigured"),
];

impl Failure {
    fn new(error: &TransportError) -> Self {
        let known = KINDS.iter().find(|(kind, _)| *kind == error.kind());
        let cause = core::error::Error::source(error);
        Self {
            kind: known.map_or("unknown", |(_, name)| *name).to_owned(),
            cause: cause.map(|cause| WithCauses(cause).to_string()),
        }
    }

    fn error(&self) -> Option<TransportError> {
        let (kind, _) = *KINDS.iter().find(|(_, name)| *name == self.kind)?;
        Some(match &self.cause {
            Some(cause) => TransportError::with_source(kind, cause.clone()),
            None => TransportError::new(kind),
        })
    }
}

/// The text of a line, with its end.
pub(crate) fn end_line<T: Serialize>(line: &T) -> Option<String> {
    let mut text = serde_json::to_string(line).ok()?;
    text.push('\n');
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(result: &Result<Response, TransportError>) -> Result<Response, TransportError> {
        let line = Line {
            at: crate::time::Instant::ORIGIN.into(),
            step: Step::Answer(Answer::new(RequestId(3), result)),
        };
        let text = end_line(&line).unwrap();
        let read: Line = serde_json::from_str(&text).unwrap();
        assert_eq!(read, line);
        let Step::Answer(answer) = read.step else {
            panic!("{text}");
        };
        answer.result().unwrap()
    }

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        for body in [&b"[]"[..], b"", &[0xff, 0x00, 0xfe], "\u{e4}\n".as_bytes()] {
            let response = Response::new(500, body).with_header("X-Consul-Index", "7");
            assert_eq!(again(&Ok(response.clone())).unwrap(), response);
        }
    }

    #[test]
    fn what_a_proxy_adds_is_not_written() {
        let response = Response::new(200, "[]").with_header("Set-Cookie", "secret");
        let read = again(&Ok(response)).unwrap();
        assert_eq!(read.headers().count(), 0);
    }

    #[test]
    fn each_kind_of_failure_is_read_as_it_was_written() {
        for (kind, _) in KINDS {
            let error = again(&Err(TransportError::with_source(kind, "why"))).unwrap_err();
            assert_eq!(error.kind(), kind);
            let cause = core::error::Error::source(&error).map(ToString::to_string);
            assert_eq!(cause.as_deref(), Some("why"));
        }
    }
}
