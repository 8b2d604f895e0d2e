//! What is known about a failed request. An error counts as "not sent" only if no byte of the
//! request can have been written.

use std::error::Error as StdError;

use semaphore_core::adapter::{NotTls, TransportError, TransportErrorKind, is_no_room};

/// A request that can't be sent as it is.
pub(crate) fn misconfigured(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> TransportError {
    TransportError::with_source(TransportErrorKind::Misconfigured, cause)
}

/// The runtime that should send the request has ended.
pub(crate) fn runtime_ended(is_begun: bool) -> TransportError {
    let kind = if is_begun {
        TransportErrorKind::Unknown
    } else {
        TransportErrorKind::NotSent
    };
    TransportError::with_source(kind, "the tokio runtime has ended")
}

/// An answer that is refused.
pub(crate) fn bad_answer(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> TransportError {
    TransportError::with_source(TransportErrorKind::BadAnswer, cause)
}

/// An error before the answer's head arrived. `refused` is the kind for a refusal by TLS.
pub(crate) fn before_answer(error: reqwest::Error, refused: TransportErrorKind) -> TransportError {
    let hyper = find::<hyper::Error>(&error);
    let kind = if is_refused_by_tls(&error) {
        refused
    } else if error.is_builder() {
        TransportErrorKind::Misconfigured
    } else if find::<std::io::Error>(&error).is_some_and(is_no_room) {
        TransportErrorKind::NoRoom
    } else if error.is_connect() {
        TransportErrorKind::NotSent
    } else if hyper.is_some_and(hyper::Error::is_timeout) {
        // A shared connection gave no sign of life and was closed. That is not a slow answer.
        TransportErrorKind::Unknown
    } else if error.is_timeout() {
        TransportErrorKind::Timeout
    } else if hyper.is_some_and(hyper::Error::is_parse) {
        TransportErrorKind::BadAnswer
    } else if hyper.is_some_and(hyper::Error::is_canceled) {
        // The connection was gone before hyper took the request. An agent that refuses a client
        // certificate can cause that: in TLS 1.3 it refuses after the client's handshake is over.
        TransportErrorKind::NotSent
    } else if is_refused_stream(&error) {
        TransportErrorKind::NotSent
    } else {
        TransportErrorKind::Unknown
    };
    let is_plain = is_plain_text(&error);
    // The error names the request already.
    let error = error.without_url();
    if is_plain {
        return TransportError::with_source(kind, NotTls::new(error));
    }
    TransportError::with_source(kind, error)
}

/// Whether the other side says that it has not processed the request. It had too many streams, or
/// was about to close the connection (RFC 9113, 8.7). Streams up to the one that a GOAWAY names are
/// not refused by it.
#[cfg(feature = "tls")]
fn is_refused_stream(error: &reqwest::Error) -> bool {
    find::<h2::Error>(error).is_some_and(|it| {
        let reason = it.reason();
        it.is_remote()
            && (it.is_reset() && reason == Some(h2::Reason::REFUSED_STREAM)
                || it.is_go_away() && reason == Some(h2::Reason::NO_ERROR))
    })
}

#[cfg(not(feature = "tls"))]
fn is_refused_stream(_: &reqwest::Error) -> bool {
    false
}

/// Whether the whole connection is gone, and not only this request's stream.
pub(crate) fn breaks_the_connection(error: &reqwest::Error) -> bool {
    #[cfg(feature = "tls")]
    if find::<h2::Error>(error).is_some_and(h2::Error::is_reset) {
        return false;
    }
    let is_timeout = error.is_timeout() && find::<hyper::Error>(error).is_none();
    !error.is_connect() && !is_timeout
}

/// Whether the other side accepted none of the offered protocols.
#[cfg(feature = "tls")]
pub(crate) fn is_without_http2(error: &reqwest::Error) -> bool {
    use rustls::{AlertDescription, Error as Tls};
    let refused = Tls::AlertReceived(AlertDescription::NoApplicationProtocol);
    find::<Tls>(error) == Some(&refused)
}

#[cfg(not(feature = "tls"))]
pub(crate) fn is_without_http2(_: &reqwest::Error) -> bool {
    false
}

/// Whether the other side does not speak TLS.
#[cfg(feature = "tls")]
fn is_plain_text(error: &reqwest::Error) -> bool {
    use rustls::{Error as Tls, InvalidMessage};
    let found = find::<Tls>(error);
    let is_plain = |it: &Tls| matches!(it, Tls::InvalidMessage(InvalidMessage::InvalidContentType));
    error.is_connect() && found.is_some_and(is_plain)
}

#[cfg(not(feature = "tls"))]
fn is_plain_text(_: &reqwest::Error) -> bool {
    false
}

/// An error while the body was read.
pub(crate) fn during_body(error: reqwest::Error) -> TransportError {
    let kind = if error.is_timeout() {
        TransportErrorKind::Timeout
    } else {
        TransportErrorKind::BadAnswer
    };
    TransportError::with_source(kind, error.without_url())
}

/// Whether one side refused the other's certificate or TLS settings.
#[cfg(feature = "tls")]
pub(crate) fn is_refused_by_tls(error: &reqwest::Error) -> bool {
    use rustls::{AlertDescription as Alert, Error as Tls};
    const REFUSALS: [Alert; 14] = [
        Alert::AccessDenied,
        Alert::BadCertificate,
        Alert::CertificateExpired,
        Alert::CertificateRequired,
        Alert::CertificateRevoked,
        Alert::CertificateUnknown,
        Alert::DecryptError,
        Alert::HandshakeFailure,
        Alert::InsufficientSecurity,
        Alert::NoCertificate,
        Alert::ProtocolVersion,
        Alert::UnknownCA,
        Alert::UnrecognisedName,
        Alert::UnsupportedCertificate,
    ];
    match find::<Tls>(error) {
        Some(
            Tls::InvalidCertificate(_)
            | Tls::InvalidCertRevocationList(_)
            | Tls::NoCertificatesPresented
            | Tls::PeerIncompatible(_)
            | Tls::InconsistentKeys(_),
        ) => true,
        Some(Tls::AlertReceived(alert)) => REFUSALS.contains(alert),
        Some(_) => is_plain_text(error),
        // With HTTP/2, h2 keeps only the text of an error of TLS.
        None => find::<std::io::Error>(error).is_some_and(|it| {
            let told = it.to_string();
            let mut refusals = REFUSALS.iter();
            it.kind() == std::io::ErrorKind::InvalidData
                && refusals.any(|alert| Tls::AlertReceived(*alert).to_string() == told)
        }),
    }
}

#[cfg(not(feature = "tls"))]
pub(crate) fn is_refused_by_tls(_: &reqwest::Error) -> bool {
    false
}

/// The first error of this type among the causes. `io::Error` hides the error it wraps from
/// `source`, so it is opened here.
fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        let inner = error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref);
        next = match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}
