use std::env;
use std::fs;
use std::time::Duration;

use semaphore_core::adapter::{AgentEnvironment, AgentUrl, Connections, Lane, MOST_CONNECTIONS};
use semaphore_core::{BuildError, Scope, Token};

use crate::client::Agents;
use crate::dial::Dial;
use crate::runtime::seed;
use crate::transport::UreqTransport;

/// The largest body of an answer that is read unless [`TransportBuilder::max_body`] says
/// otherwise: 32 MiB, room for some 100,000 contenders.
pub const DEFAULT_MAX_BODY: usize = 32 * 1024 * 1024;

/// How long a connection may take to open unless [`TransportBuilder::connect_timeout`] says
/// otherwise: 5 seconds.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The options of a [`UreqTransport`].
#[must_use]
pub struct TransportBuilder {
    url: Result<AgentUrl, BuildError>,
    max_body: usize,
    /// What requests carry unless a handle is told otherwise.
    defaults: Scope,
    max_connections: usize,
    connection: Connection,
    client: Option<Agents>,
}

/// The options that a client of the user's own replaces.
#[derive(Default, PartialEq, Eq)]
pub(crate) struct Connection {
    connect_timeout: Option<Duration>,
    #[cfg(feature = "tls")]
    pub(crate) ca_cert: Option<Vec<u8>>,
    #[cfg(feature = "tls")]
    pub(crate) client_cert: Option<(Vec<u8>, Vec<u8>)>,
    #[cfg(feature = "tls")]
    server_name: Option<String>,
}

impl TransportBuilder {
    pub(crate) fn new(url: Result<AgentUrl, BuildError>) -> Self {
        Self {
            url,
            max_body: DEFAULT_MAX_BODY,
            defaults: Scope::new(),
            max_connections: MOST_CONNECTIONS,
            connection: Connection::default(),
            client: None,
        }
    }

    /// The agent that the environment names, with the options of the environment, as the `consul`
    /// command reads them: `CONSUL_HTTP_ADDR` (by default `127.0.0.1:8500`), `CONSUL_HTTP_SSL`,
    /// `CONSUL_CACERT`, `CONSUL_CLIENT_CERT`, `CONSUL_CLIENT_KEY` and `CONSUL_TLS_SERVER_NAME`. `CONSUL_NAMESPACE` and
    /// `CONSUL_PARTITION` hold for each handle that names no other.
    ///
    /// Certificates are always verified, and no proxy of the environment is used: [`AgentEnvironment::read`] says which
    /// variables are refused. The token is set on the handle, see
    /// [`token_source_from_env`](crate::token_source_from_env).
    ///
    /// # Errors
    /// [`BuildError::Environment`], [`BuildError::File`] or
    /// [`BuildError::ClientCertificateIncomplete`].
    pub fn from_env() -> Result<Self, BuildError> {
        let found =
            AgentEnvironment::read(|name| env::var(name).ok()).map_err(BuildError::Environment)?;
        let mut builder = Self::new(Ok(found.url.clone()));
        builder.defaults = found.scope.clone();
        #[cfg(feature = "tls")]
        let builder = builder.with_tls_of(found)?;
        Ok(builder)
    }

    /// Reads at most this many bytes of an answer's body. A larger one ends its request with
    /// [`BadAnswer`](semaphore_core::adapter::TransportErrorKind::BadAnswer). By default
    /// [`DEFAULT_MAX_BODY`].
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.max_body = bytes;
        self
    }

    /// Opens at most this many connections to the agent, each with a thread, whatever is sent; half of them are
    /// for long polls. By default [`MOST_CONNECTIONS`]. An agent allows an address 200 unless
    /// `limits.http_max_conns_per_client` says otherwise: let all that run on a machine stay below it.
    pub fn max_connections(mut self, most: usize) -> Self {
        self.max_connections = most;
        self
    }

    /// Gives up opening a connection after this long; the request then counts as not sent. By
    /// default [`DEFAULT_CONNECT_TIMEOUT`].
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connection.connect_timeout = Some(timeout);
        self
    }

    /// Trusts these authorities, certificates in PEM, instead of the platform's.
    #[cfg(feature = "tls")]
    pub fn ca_cert(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.connection.ca_cert = Some(pem.into());
        self
    }

    /// Shows this certificate (in PEM, with its chain) to an agent that asks for one. The key is
    /// PEM, too.
    #[cfg(feature = "tls")]
    pub fn client_cert(mut self, pem: impl Into<Vec<u8>>, key_pem: impl Into<Vec<u8>>) -> Self {
        self.connection.client_cert = Some((pem.into(), key_pem.into()));
        self
    }

    /// Expects this DNS name in the agent's certificate, for example `server.dc1.consul`, whatever
    /// host the URL names.
    #[cfg(feature = "tls")]
    pub fn tls_server_name(mut self, name: impl Into<String>) -> Self {
        self.connection.server_name = Some(name.into());
        self
    }

    /// Sends through agents with this configuration instead of ours. What they do to a request is
    /// then its owner's choice: proxies, TLS, buffers, middleware.
    ///
    /// Statuses as errors, redirects, compression and the total timeout are overridden for each
    /// request; other timeouts must leave room for a blocking query. Middleware doesn't see the
    /// token.
    pub fn client(mut self, config: ureq::config::Config) -> Self {
        self.client = Some(Agents::Own(Box::new(config)));
        self
    }

    /// Builds the transport.
    ///
    /// # Errors
    /// [`BuildError`], before anything is sent.
    pub fn build(self) -> Result<UreqTransport, BuildError> {
        let url = self.url?;
        let connections = Connections::new(self.max_connections, seed())?;
        let agents = match self.client {
            Some(_) if self.connection != Connection::default() => {
                return Err(BuildError::OptionsOfOwnClient);
            }
            Some(agents) => agents,
            None => self.connection.agents(&url)?,
        };
        let max_body = self.max_body;
        Ok(UreqTransport::from_parts(
            url,
            max_body,
            agents,
            connections,
            self.defaults,
        ))
    }

    #[cfg(feature = "tls")]
    fn with_tls_of(mut self, found: AgentEnvironment) -> Result<Self, BuildError> {
        let certificates = found.certificates(|path| fs::read(path))?;
        self.connection.ca_cert = certificates.authorities;
        self.connection.client_cert = certificates.client;
        self.connection.server_name = found.tls_server_name;
        Ok(self)
    }
}

impl std::fmt::Debug for TransportBuilder {
    /// Shows the address and the limit, never a key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransportBuilder")
            .field("url", &self.url)
            .field("max_body", &self.max_body)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// How to make agents with these options.
    fn agents(self, url: &AgentUrl) -> Result<Agents, BuildError> {
        let config = ureq::config::Config::builder()
            .proxy(None)
            .timeout_connect(Some(
                self.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT),
            ))
            .input_buffer_size(BUFFER)
            .output_buffer_size(BUFFER)
            // A head that fills the buffer would look like the end of the connection.
            .max_response_header_size(BUFFER - 1)
            .max_idle_connections(1)
            .max_idle_connections_per_host(1)
            // A worker that rests for shorter closes its connection when it ends.
            .max_idle_age(Lane::Short(0).idle_time());
        #[cfg(feature = "tls")]
        let config = config.tls_config(crate::tls::config(&self, url)?);
        #[cfg(not(feature = "tls"))]
        if url.is_https() {
            return Err(BuildError::TlsNotBuilt);
        }
        let dial = Dial::new(url);
        #[cfg(feature = "tls")]
        let dial = match self.server_name {
            Some(name) if url.is_https() => dial
                .with_server_name(url, &name)
                .map_err(BuildError::ServerName)?,
            _ => dial,
        };
        Ok(Agents::Ours {
            config: Box::new(config.build()),
            dial,
        })
    }
}

/// ureq's own 128 KiB, twice for each connection, are far more than a request of Consul's needs.
const BUFFER: usize = 8 * 1024;

/// The token of the process's environment, see [`AgentEnvironment::token`].
///
/// # Errors
/// [`BuildError::File`] or [`BuildError::Environment`].
pub fn token_from_env() -> Result<Option<Token>, BuildError> {
    AgentEnvironment::token(|name| env::var(name).ok(), |path| fs::read(path))
}
