use std::env;
use std::ffi::OsString;
#[cfg(feature = "tls")]
use std::fs;
#[cfg(feature = "tls")]
use std::path::PathBuf;
use std::time::Duration;

#[cfg(feature = "tls")]
use semaphore_core::adapter::Pem;
use semaphore_core::adapter::{
    AgentEnvironment, AgentUrl, BasicAuth, Connections, Lane, MOST_CONNECTIONS,
};
use semaphore_core::{BuildError, InvalidInput, Scope, Token};

use ureq::config::ConfigBuilder;
use ureq::typestate::AgentScope;

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
    basic_auth: Result<Option<BasicAuth>, InvalidInput>,
    max_connections: usize,
    pub(crate) connection: Connection,
    client: Option<Agents>,
}

/// The options that a client of the user's own replaces.
#[derive(Default, PartialEq, Eq)]
pub(crate) struct Connection {
    connect_timeout: Option<Duration>,
    #[cfg(feature = "tls")]
    pub(crate) ca_cert: Option<Pem>,
    #[cfg(feature = "tls")]
    pub(crate) client_cert: Option<(Pem, Pem)>,
    /// A folder. It counts where there is no `ca_cert`.
    #[cfg(feature = "tls")]
    ca_path: Option<Pem>,
    #[cfg(feature = "tls")]
    server_name: Option<String>,
    #[cfg(feature = "tls")]
    pub(crate) accepts_any: bool,
    #[cfg(test)]
    pub(crate) lookup: Option<transport_conformance::Lookup>,
}

impl TransportBuilder {
    pub(crate) fn new(url: Result<AgentUrl, BuildError>) -> Self {
        Self {
            url,
            max_body: DEFAULT_MAX_BODY,
            defaults: Scope::new(),
            basic_auth: Ok(None),
            max_connections: MOST_CONNECTIONS,
            connection: Connection::default(),
            client: None,
        }
    }

    /// The agent that the environment names, with the options of the environment, as the `consul`
    /// command reads them: `CONSUL_HTTP_ADDR` (by default `127.0.0.1:8500`; a socket as `unix:///path`), `CONSUL_HTTP_SSL`,
    /// `CONSUL_HTTP_AUTH`, `CONSUL_CACERT` or else `CONSUL_CAPATH`, `CONSUL_CLIENT_CERT`, `CONSUL_CLIENT_KEY`,
    /// `CONSUL_TLS_SERVER_NAME` and `CONSUL_HTTP_SSL_VERIFY`. `CONSUL_NAMESPACE` and `CONSUL_PARTITION` hold for each handle
    /// that names no other. The token is set on the handle, see [`token_source_from_env`](crate::token_source_from_env).
    ///
    /// `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` are never used: an agent is near, and a proxy would see the token. If you
    /// need one, give a [`client`](Self::client) that has it.
    ///
    /// # Errors
    /// [`BuildError::Environment`] for what can't be understood: a truth value that is misspelt, too. [`BuildError::File`] or
    /// [`BuildError::ClientCertificateIncomplete`].
    pub fn from_env() -> Result<Self, BuildError> {
        Self::from_lookup(|name| env::var(name).ok())
    }

    /// Like [`from_env`](Self::from_env), with the variables as `lookup` gives them: for programs whose command line or
    /// configuration goes before the environment.
    ///
    /// # Errors
    /// The same.
    pub fn from_lookup<S: Into<OsString>>(
        lookup: impl Fn(&str) -> Option<S>,
    ) -> Result<Self, BuildError> {
        let found = AgentEnvironment::read(lookup).map_err(BuildError::Environment)?;
        let mut builder = Self::new(Ok(found.url.clone()));
        builder.defaults = found.scope.clone();
        builder.basic_auth = Ok(found.basic_auth.clone());
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

    /// Sends this user and password with each request, as HTTP Basic authentication, beside the ACL token. Consul doesn't ask
    /// for them; what stands before it may. Without TLS everybody on the way can read them.
    pub fn basic_auth(mut self, user: impl AsRef<str>, password: impl AsRef<str>) -> Self {
        self.basic_auth = BasicAuth::new(user.as_ref(), password.as_ref()).map(Some);
        self
    }

    /// Gives up opening a connection after this long; the request then counts as not sent. Of several addresses that a name
    /// leads to each gets the same part of it. By default [`DEFAULT_CONNECT_TIMEOUT`].
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connection.connect_timeout = Some(timeout);
        self
    }

    /// Trusts these authorities, certificates in PEM, instead of the platform's.
    #[cfg(feature = "tls")]
    pub fn ca_cert(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.connection.ca_cert = Some(Pem::Given(pem.into()));
        self
    }

    /// The same with a file of them. It may be replaced: a new connection trusts those that are in it then. A file that can't be
    /// used, as while it is written, leaves those in use that were in it before; that is logged.
    #[cfg(feature = "tls")]
    pub fn ca_cert_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.connection.ca_cert = Some(file("ca_cert_file", path));
        self
    }

    /// Trusts the authorities in all files of this folder and of the folders in it, in PEM, instead of the platform's. A file
    /// without a certificate is an error. They may be replaced, as those of [`ca_cert_file`](Self::ca_cert_file). That and
    /// [`ca_cert`](Self::ca_cert) go before it.
    #[cfg(feature = "tls")]
    pub fn ca_path(mut self, folder: impl Into<PathBuf>) -> Self {
        self.connection.ca_path = Some(self::folder("ca_path", folder));
        self
    }

    /// Shows this certificate (in PEM, with its chain) to an agent that asks for one. The key is
    /// PEM, too.
    #[cfg(feature = "tls")]
    pub fn client_cert(mut self, pem: impl Into<Vec<u8>>, key_pem: impl Into<Vec<u8>>) -> Self {
        self.connection.client_cert = Some((Pem::Given(pem.into()), Pem::Given(key_pem.into())));
        self
    }

    /// The same with a file of the certificate and one of its key. They may be replaced: a new connection shows what is in them
    /// then. Files that can't be used, or don't fit together, leave in use what was in them before; that is logged.
    #[cfg(feature = "tls")]
    pub fn client_cert_files(mut self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        let named_by = "client_cert_files";
        self.connection.client_cert = Some((file(named_by, cert), file(named_by, key)));
        self
    }

    /// Expects this DNS name in the agent's certificate, for example `server.dc1.consul`, whatever
    /// host the URL names.
    #[cfg(feature = "tls")]
    pub fn tls_server_name(mut self, name: impl Into<String>) -> Self {
        self.connection.server_name = Some(name.into());
        self
    }

    /// With `true` it takes any certificate for the agent's, as `CONSUL_HTTP_SSL_VERIFY=false` does. An attacker who can answer in the
    /// agent's place then reads the ACL token and the password, and says who holds what: more can hold than the limit allows. A
    /// warning in the log says so when the transport is built.
    #[cfg(feature = "tls")]
    pub fn danger_accept_any_certificate(mut self, accepts_any: bool) -> Self {
        self.connection.accepts_any = accepts_any;
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
        let basic_auth = self.basic_auth.map_err(BuildError::BasicAuth)?;
        #[cfg(not(unix))]
        if url.socket().is_some() {
            return Err(BuildError::NoUnixSockets);
        }
        let connections = Connections::new(self.max_connections, seed())?;
        let agents = match self.client {
            Some(_) if self.connection != Connection::default() || url.socket().is_some() => {
                return Err(BuildError::OptionsOfOwnClient);
            }
            Some(agents) => agents,
            None => self.connection.agents(&url)?,
        };
        let max_body = self.max_body;
        Ok(UreqTransport::from_parts(
            url,
            max_body,
            basic_auth,
            agents,
            connections,
            self.defaults,
        ))
    }

    #[cfg(feature = "tls")]
    fn with_tls_of(mut self, found: AgentEnvironment) -> Result<Self, BuildError> {
        // What can't be read is told now.
        found.certificates(|path| fs::read(path))?;
        let named = |named_by: &'static str| move |path: String| file(named_by, path);
        let client = found.client_cert.map(named("CONSUL_CLIENT_CERT"));
        let key = found.client_key.map(named("CONSUL_CLIENT_KEY"));
        self.connection.ca_cert = found.ca_cert.map(named("CONSUL_CACERT"));
        self.connection.ca_path = found.ca_path.map(|path| folder("CONSUL_CAPATH", path));
        self.connection.accepts_any = !found.verifies;
        self.connection.client_cert = client.zip(key);
        self.connection.server_name = found.tls_server_name;
        Ok(self)
    }
}

impl std::fmt::Debug for TransportBuilder {
    /// Shows the address and the limit, never a key or a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransportBuilder")
            .field("url", &self.url)
            .field("max_body", &self.max_body)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// With the folder of authorities where that counts. Tells what is not verified.
    #[cfg(feature = "tls")]
    fn trusting(mut self, url: &AgentUrl) -> Self {
        self.ca_cert = self.ca_cert.or(self.ca_path.take());
        if self.accepts_any && url.is_https() {
            tracing::warn!(agent = %url, "any certificate is taken for the agent's: a server that answers in the agent's place sees the token");
        }
        self
    }

    /// How to make agents with these options.
    fn agents(self, url: &AgentUrl) -> Result<Agents, BuildError> {
        #[cfg(not(feature = "tls"))]
        if url.is_https() {
            return Err(BuildError::TlsNotBuilt);
        }
        #[cfg(feature = "tls")]
        let this = self.trusting(url);
        #[cfg(not(feature = "tls"))]
        let this = self;
        let config = config(&this)().build();
        #[cfg(not(feature = "tls"))]
        let dial = Dial::new(url);
        #[cfg(feature = "tls")]
        let dial = Dial::new(url, crate::tls::credentials(&this, url)?);
        #[cfg(test)]
        let dial = dial.with_lookup(this.lookup.clone());
        #[cfg(feature = "tls")]
        let dial = match this.server_name {
            Some(name) if url.is_https() => dial
                .with_server_name(url, &name)
                .map_err(BuildError::ServerName)?,
            _ => dial,
        };
        Ok(Agents::Ours {
            config: Box::new(config),
            dial,
        })
    }
}

/// How to begin configurations of agents that are all alike.
pub(crate) fn config(options: &Connection) -> impl Fn() -> ConfigBuilder<AgentScope> + use<> {
    let connect_timeout = options.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT);
    move || {
        ureq::config::Config::builder()
            .proxy(None)
            .timeout_connect(Some(connect_timeout))
            .input_buffer_size(BUFFER)
            .output_buffer_size(BUFFER)
            // A head that fills the buffer would look like the end of the connection.
            .max_response_header_size(BUFFER - 1)
            .max_idle_connections(1)
            .max_idle_connections_per_host(1)
            // A worker that rests for shorter closes its connection when it ends.
            .max_idle_age(Lane::Short(0).idle_time())
    }
}

/// ureq's own 128 KiB, twice for each connection, are far more than a request of Consul's needs.
const BUFFER: usize = 8 * 1024;

#[cfg(feature = "tls")]
fn folder(named_by: &'static str, path: impl Into<PathBuf>) -> Pem {
    let path = path.into();
    Pem::Folder { named_by, path }
}

#[cfg(feature = "tls")]
fn file(named_by: &'static str, path: impl Into<PathBuf>) -> Pem {
    let path = path.into();
    Pem::File { named_by, path }
}

/// The token of the process's environment, see [`AgentEnvironment::token`].
///
/// # Errors
/// [`BuildError::File`] or [`BuildError::Environment`].
pub fn token_from_env() -> Result<Option<Token>, BuildError> {
    AgentEnvironment::token(|name| env::var(name).ok(), |path| std::fs::read(path))
}
