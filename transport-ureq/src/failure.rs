//! What is known about a failed request. An error counts as "not sent" only if no byte of the
//! request can have been written.

use std::error::Error as StdError;
use std::io;

use semaphore_core::adapter::{NotTls, TransportError, TransportErrorKind, is_no_room};
use ureq::{Error, Timeout};

/// A request that can't be sent as it is.
pub(crate) fn misconfigured(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> TransportError {
    TransportError::with_source(TransportErrorKind::Misconfigured, cause)
}

/// An answer that is refused.
pub(crate) fn bad_answer(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> TransportError {
    TransportError::with_source(TransportErrorKind::BadAnswer, cause)
}

/// An error before the answer's head arrived, other than a refusal by TLS. `connecting` says that
/// it came while a connection was opened; it is never set with the user's configuration.
pub(crate) fn before_answer(error: Error, connecting: bool) -> TransportError {
    let kind = match &error {
        Error::Io(error) if is_no_room(error) => TransportErrorKind::NoRoom,
        _ if connecting => TransportErrorKind::NotSent,
        Error::Timeout(Timeout::Resolve | Timeout::Connect)
        | Error::HostNotFound
        | Error::ConnectionFailed => TransportErrorKind::NotSent,
        Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            TransportErrorKind::NotSent
        }
        Error::Timeout(_) => TransportErrorKind::Timeout,
        Error::Http(_)
        | Error::BadUri(_)
        | Error::RequireHttpsOnly(_)
        | Error::InvalidProxyUrl
        | Error::Tls(_)
        | Error::TlsRequired => TransportErrorKind::Misconfigured,
        Error::Protocol(_) | Error::LargeResponseHeader(..) => TransportErrorKind::BadAnswer,
        _ => TransportErrorKind::Unknown,
    };
    TransportError::with_source(kind, error)
}

/// An error while the body was read.
pub(crate) fn during_body(error: Error) -> TransportError {
    let kind = match error {
        Error::Timeout(_) => TransportErrorKind::Timeout,
        _ => TransportErrorKind::BadAnswer,
    };
    TransportError::with_source(kind, error)
}

/// A refusal by TLS of this kind.
pub(crate) fn by_tls(kind: TransportErrorKind, error: Error) -> TransportError {
    if is_plain_text(&error) {
        return TransportError::with_source(kind, NotTls::new(error));
    }
    TransportError::with_source(kind, error)
}

/// The error of TLS, if this is one.
#[cfg(feature = "tls")]
fn tls_error(error: &Error) -> Option<&rustls::Error> {
    match error {
        Error::Rustls(error) => Some(error),
        Error::Io(error) => error.get_ref().and_then(|inner| inner.downcast_ref()),
        _ => None,
    }
}

/// Whether the other side does not speak TLS.
#[cfg(feature = "tls")]
fn is_plain_text(error: &Error) -> bool {
    use rustls::{Error as Tls, InvalidMessage};
    matches!(
        tls_error(error),
        Some(Tls::InvalidMessage(InvalidMessage::InvalidContentType))
    )
}

#[cfg(not(feature = "tls"))]
fn is_plain_text(_: &Error) -> bool {
    false
}

/// Whether one side refused the other's certificate or TLS settings.
#[cfg(feature = "tls")]
pub(crate) fn is_refused_by_tls(error: &Error, connecting: bool) -> bool {
    use rustls::{AlertDescription as Alert, Error as Tls};
    match tls_error(error) {
        Some(
            Tls::InvalidCertificate(_)
            | Tls::InvalidCertRevocationList(_)
            | Tls::NoCertificatesPresented
            | Tls::PeerIncompatible(_)
            | Tls::InconsistentKeys(_),
        ) => true,
        Some(Tls::AlertReceived(alert)) => matches!(
            alert,
            Alert::AccessDenied
                | Alert::BadCertificate
                | Alert::CertificateExpired
                | Alert::CertificateRequired
                | Alert::CertificateRevoked
                | Alert::CertificateUnknown
                | Alert::DecryptError
                | Alert::HandshakeFailure
                | Alert::InsufficientSecurity
                | Alert::NoCertificate
                | Alert::ProtocolVersion
                | Alert::UnknownCA
                | Alert::UnrecognisedName
                | Alert::UnsupportedCertificate
        ),
        _ => connecting && is_plain_text(error),
    }
}

#[cfg(not(feature = "tls"))]
pub(crate) fn is_refused_by_tls(_: &Error, _: bool) -> bool {
    false
}
