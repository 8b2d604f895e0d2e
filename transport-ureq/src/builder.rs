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
    AgentEnvironment, AgentUrl, BasicAuth, Connections, Lane, MOST_CONNECTIONS, TokenProvider,
};
use semaphore_core::{BuildError, InvalidInput, Scope, TokenSource};

use ureq::config::ConfigBuilder;
use ureq::typestate::AgentScope;

use crate::client::Agents;
use crate::dial::Dial;
use crate::disk::Disk;
use crate::runtime::seed;
use crate::transport::UreqTransport;

/// The limit on an answer's body unless [`TransportBuilder::max_body`] sets another: 32 MiB, enough
/// for about 100,000 contenders.
pub const DEFAULT_MAX_BODY: usize = 32 * 1024 * 1024;

/// The limit on the time to open a connection unless [`TransportBuilder::connect_timeout`] sets
/// another: 5 seconds.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The options of a [`UreqTransport`].
#[must_use]
pub struct TransportBuilder {
    url: Result<AgentUrl, BuildError>,
    max_body: usize,
    /// What requests carry unless a handle sets something else.
    defaults: Scope,
    basic_auth: Result<Option<BasicAuth>, InvalidInput>,
    tokens: Option<TokenProvider>,
    max_connections: usize,
    pub(crate) connection: Connection,
    client: Option<Agents>,
}

/// The options that have no effect on a client that the user gives.
#[derive(Default, PartialEq, Eq)]
pub(crate) struct Connection {
    connect_timeout: Option<Duration>,
    #[cfg(feature = "tls")]
    pub(crate) ca_cert: Option<Pem>,
    #[cfg(feature = "tls")]
    pub(crate) client_cert: Option<(Pem, Pem)>,
    /// A folder. It is used only if there is no `ca_cert`.
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
            tokens: None,
            max_connections: MOST_CONNECTIONS,
            connection: Connection::default(),
            client: None,
        }
    }

    /// A builder with the address and options of the environment. It reads the variables of the
    /// `consul` command: `CONSUL_HTTP_ADDR` (by default `127.0.0.1:8500`; a socket as
    /// `unix:///path`), `CONSUL_HTTP_SSL`, `CONSUL_HTTP_AUTH`, `CONSUL_CACERT` or else
    /// `CONSUL_CAPATH`, `CONSUL_CLIENT_CERT`, `CONSUL_CLIENT_KEY`, `CONSUL_TLS_SERVER_NAME` and
    /// `CONSUL_HTTP_SSL_VERIFY`. `CONSUL_NAMESPACE` and `CONSUL_PARTITION` apply to each handle
    /// that sets no other. So does the token: that in the file of `CONSUL_HTTP_TOKEN_FILE`, which
    /// is read again when it changes, or else `CONSUL_HTTP_TOKEN`.
    ///
    /// `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` are ignored: an agent is local, and a proxy would
    /// see the token. If you need a proxy, pass a [`client`](Self::client) that has one.
    ///
    /// # Errors
    /// [`BuildError::Environment`] for a value that can't be understood, such as a misspelt truth
    /// value. [`BuildError::File`] for a file that can't be read.
    /// [`BuildError::ClientCertificateIncomplete`] if only one of `CONSUL_CLIENT_CERT` and
    /// `CONSUL_CLIENT_KEY` is set.
    pub fn from_env() -> Result<Self, BuildError> {
        Self::from_lookup(|name| env::var_os(name))
    }

    /// Like [`from_env`](Self::from_env), but asks `lookup` for the variables. This is for programs
    /// whose command line or configuration overrides the environment.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env).
    pub fn from_lookup<S: Into<OsString>>(
        lookup: impl Fn(&str) -> Option<S>,
    ) -> Result<Self, BuildError> {
        let found = AgentEnvironment::read(&lookup).map_err(BuildError::Environment)?;
        let tokens = AgentEnvironment::tokens(&lookup, Disk)?;
        let mut builder = Self::new(Ok(found.url.clone()));
        builder.defaults = found.scope.clone();
        builder.basic_auth = Ok(found.basic_auth.clone());
        builder.tokens = tokens;
        #[cfg(feature = "tls")]
        let builder = builder.with_tls_of(found)?;
        Ok(builder)
    }

    /// Reads at most this many bytes of an answer's body. A request with a larger answer fails with
    /// [`BadAnswer`](semaphore_core::adapter::TransportErrorKind::BadAnswer). The default is
    /// [`DEFAULT_MAX_BODY`].
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.max_body = bytes;
        self
    }

    /// Opens at most this many connections to the agent, each with a thread. Half of them are for
    /// long polls. The default is [`MOST_CONNECTIONS`]. An agent allows 200 connections from one
    /// address unless `limits.http_max_conns_per_client` sets another limit. All programs of a
    /// machine together must stay below it.
    pub fn max_connections(mut self, most: usize) -> Self {
        self.max_connections = most;
        self
    }

    /// Sends this user and password with each request, as HTTP Basic authentication, beside the ACL
    /// token. Consul doesn't ask for them, but a proxy in front of it may. Without TLS everybody on
    /// the network path can read them.
    pub fn basic_auth(mut self, user: impl AsRef<str>, password: impl AsRef<str>) -> Self {
        self.basic_auth = BasicAuth::new(user.as_ref(), password.as_ref()).map(Some);
        self
    }

    /// Sets the source of the ACL token of each request, unless a handle sets another
    /// ([`Builder::token_source`](semaphore_core::Builder::token_source)). It replaces the token of
    /// the environment.
    pub fn token_source(mut self, source: impl TokenSource + 'static) -> Self {
        self.tokens = Some(TokenProvider::new(source));
        self
    }

    /// Gives up opening a connection after this time; the request then counts as not sent. If a
    /// name has several addresses, each gets an equal part of the time. The default is
    /// [`DEFAULT_CONNECT_TIMEOUT`].
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connection.connect_timeout = Some(timeout);
        self
    }

    /// Trusts these authorities instead of the platform's. They are certificates in PEM.
    #[cfg(feature = "tls")]
    pub fn ca_cert(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.connection.ca_cert = Some(Pem::Given(pem.into()));
        self
    }

    /// Like [`ca_cert`](Self::ca_cert), from a file. The file may be replaced: each new connection
    /// uses its present content. While the file can't be used, for example because it is being
    /// written, the last usable content stays in use. That is logged.
    #[cfg(feature = "tls")]
    pub fn ca_cert_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.connection.ca_cert = Some(file("ca_cert_file", path));
        self
    }

    /// Trusts the authorities in all files of this folder and its subfolders instead of the
    /// platform's. The files are PEM. A file without a certificate is an error. The files may be
    /// replaced, as with [`ca_cert_file`](Self::ca_cert_file). [`ca_cert`](Self::ca_cert) and
    /// `ca_cert_file` take precedence over this.
    #[cfg(feature = "tls")]
    pub fn ca_path(mut self, folder: impl Into<PathBuf>) -> Self {
        self.connection.ca_path = Some(self::folder("ca_path", folder));
        self
    }

    /// Presents this certificate to an agent that asks for one. The certificate, with its chain,
    /// and the key are PEM.
    #[cfg(feature = "tls")]
    pub fn client_cert(mut self, pem: impl Into<Vec<u8>>, key_pem: impl Into<Vec<u8>>) -> Self {
        self.connection.client_cert = Some((Pem::Given(pem.into()), Pem::Given(key_pem.into())));
        self
    }

    /// Like [`client_cert`](Self::client_cert), from one file for the certificate and one for the
    /// key. The files may be replaced: each new connection uses their present content. While they
    /// can't be used or don't match, the last usable content stays in use. That is logged.
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

    /// With `true`, any certificate of the agent is accepted, as with
    /// `CONSUL_HTTP_SSL_VERIFY=false`. An attacker who can answer in the agent's place then reads
    /// the ACL token and the password. The attacker can also lie about who holds what, so more may
    /// hold than the limit allows. A warning is logged when the transport is built.
    #[cfg(feature = "tls")]
    pub fn danger_accept_any_certificate(mut self, accepts_any: bool) -> Self {
        self.connection.accepts_any = accepts_any;
        self
    }

    /// Sends through ureq agents with this configuration instead of ours. Its owner then decides
    /// about proxies, TLS, buffers and middleware.
    ///
    /// Some settings are overridden for each request: statuses as errors, redirects, compression
    /// and the total timeout. Other timeouts must leave time for a blocking query. Middleware
    /// doesn't see the token.
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
            self.tokens,
            agents,
            connections,
            self.defaults,
        ))
    }

    #[cfg(feature = "tls")]
    fn with_tls_of(mut self, found: AgentEnvironment) -> Result<Self, BuildError> {
        // Read now so that an unreadable file is reported now.
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
    /// Uses the folder of authorities if there is no `ca_cert`. Warns if certificates are not
    /// verified.
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

/// Makes builders of equal configurations.
pub(crate) fn config(options: &Connection) -> impl Fn() -> ConfigBuilder<AgentScope> + use<> {
    let connect_timeout = options.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT);
    move || {
        ureq::config::Config::builder()
            .proxy(None)
            .timeout_connect(Some(connect_timeout))
            .input_buffer_size(BUFFER)
            .output_buffer_size(BUFFER)
            // ureq would take a head that fills the buffer for the end of the connection.
            .max_response_header_size(BUFFER - 1)
            .max_idle_connections(1)
            .max_idle_connections_per_host(1)
            // A worker that rests for a shorter time closes its connection when it ends.
            .max_idle_age(Lane::Short(0).idle_time())
    }
}

/// ureq's default is 128 KiB, twice for each connection. A request to Consul needs far less.
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
