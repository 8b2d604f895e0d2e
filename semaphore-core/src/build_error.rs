//! Why an adapter could not be built, with the same texts for all adapters. As in all errors here,
//! `Display` includes the causes.

use std::io;

use crate::agent_url::InvalidUrl;
use crate::input::InvalidInput;
use crate::one_line::WithCauses;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a transport could not be built. Nothing was sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The address given is not the URL of an agent.
    #[error("{_0}; an address is http://host:port, https://host:port or unix:///path")]
    Url(#[source] InvalidUrl),
    /// A `CONSUL_*` variable of the environment can't be understood.
    #[error("the environment does not name an agent: {_0}")]
    Environment(#[source] InvalidEnvironment),
    /// A file or folder from a `CONSUL_*` variable or an option can't be read.
    #[error(
        "the file {path:?} of {variable} can't be read: {}",
        WithCauses(source)
    )]
    File {
        /// The variable, or the option's name.
        variable: &'static str,
        /// Its path.
        path: String,
        /// Why the file can't be read.
        source: io::Error,
    },
    /// The trusted authorities are not certificates in PEM, or there are none.
    #[error("the CA certificates can't be used: {}", WithCauses(&**_0))]
    CaCertificate(#[source] Cause),
    /// The client certificate or its key is not PEM, or they don't belong together.
    #[error("the client certificate and its key can't be used: {}", WithCauses(&**_0))]
    ClientCertificate(#[source] Cause),
    /// Only one of `CONSUL_CLIENT_CERT` and `CONSUL_CLIENT_KEY` is set.
    #[error("CONSUL_CLIENT_CERT and CONSUL_CLIENT_KEY must be set together")]
    ClientCertificateIncomplete,
    /// The user or the password can't be sent. They are not shown.
    #[error("the user and the password can't be sent: {_0}")]
    BasicAuth(#[source] InvalidInput),
    /// The expected name in the agent's certificate is not a DNS name.
    #[error("the TLS server name is not a DNS name: {_0}")]
    ServerName(#[source] InvalidUrl),
    /// The machine's certificate authorities can't be used. Give an authority to avoid this.
    #[error("the platform's certificate authorities can't be used: {}; give a CA", WithCauses(&**_0))]
    PlatformVerifier(#[source] Cause),
    /// The address is `https://`, but the crate was built without its feature `tls`.
    #[error("the address is https://, but the crate was built without its feature `tls`")]
    TlsNotBuilt,
    /// The address is `unix://`, and this system has no Unix sockets.
    #[error("this system has no Unix sockets")]
    NoUnixSockets,
    /// Options of the connection were set together with a client. The client has its own; set a
    /// Unix socket there, too.
    #[error(
        "options of the connection can't be combined with a client of your own: set them on that client"
    )]
    OptionsOfOwnClient,
    /// A transport without connections was requested. One is enough, but a few are faster.
    #[error("the maximum of connections is 0; a transport needs at least one")]
    NoConnections,
    /// The adapter's HTTP client, TLS or runtime can't be used here. The cause has a type of the
    /// adapter or of that library, and can be downcast.
    #[error("the transport can't be built: {}", WithCauses(&**_0))]
    Backend(#[source] Cause),
}

/// Which variable of the environment can't be understood. The value is not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEnvironment {
    /// `CONSUL_HTTP_ADDR` is not the address of an agent.
    #[error("CONSUL_HTTP_ADDR is not the address of an agent: {_0}")]
    Address(#[source] InvalidUrl),
    /// `CONSUL_HTTP_SSL` is neither true nor false.
    #[error("CONSUL_HTTP_SSL is neither true nor false")]
    Ssl,
    /// `CONSUL_HTTP_SSL_VERIFY` is neither true nor false.
    #[error("CONSUL_HTTP_SSL_VERIFY is neither true nor false")]
    SslVerify,
    /// `CONSUL_HTTP_SSL` is true, but `CONSUL_HTTP_ADDR` is a Unix socket.
    #[error("CONSUL_HTTP_SSL is true, but CONSUL_HTTP_ADDR can't use TLS: {_0}")]
    SslOnSocket(#[source] InvalidUrl),
    /// `CONSUL_HTTP_AUTH` is not `user:password`. The value is not shown.
    #[error("CONSUL_HTTP_AUTH is not a user and a password that can be sent: {_0}")]
    Auth(#[source] InvalidInput),
    /// A variable is not Unicode.
    #[error("{variable} is not valid Unicode")]
    NotUnicode {
        /// The variable.
        variable: &'static str,
    },
    /// A variable's value is not a valid name.
    #[error("{variable} is not a name: {source}")]
    Name {
        /// The variable.
        variable: &'static str,
        /// Why it is not.
        source: InvalidInput,
    },
    /// `CONSUL_HTTP_TOKEN` can't be sent.
    #[error("CONSUL_HTTP_TOKEN is not a token: {_0}")]
    Token(#[source] InvalidInput),
}
