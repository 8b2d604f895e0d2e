use std::env;
#[cfg(feature = "tls")]
use std::fs;
#[cfg(feature = "tls")]
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Client;
#[cfg(feature = "tls")]
use semaphore_core::adapter::Pem;
use semaphore_core::adapter::{
    AgentEnvironment, AgentUrl, BasicAuth, Connections, Instant, Lane, MOST_CONNECTIONS,
    TokenProvider,
};
use semaphore_core::{BuildError, InvalidInput, Scope, TokenSource};
use tokio::runtime::Handle;

use crate::clients::Clients;
use crate::clock::Clock;
use crate::disk::Disk;
use crate::farewell::Farewell;
use crate::life::Life;
use crate::recipe::{Ours, Recipe};
use crate::route::Host;
use crate::runtime::{NoRuntime, seed};
use crate::transport::ReqwestTransport;
use crate::wire::Wire;

/// The limit on an answer's body unless [`TransportBuilder::max_body`] sets another: 32 MiB, enough
/// for about 100,000 contenders.
pub const DEFAULT_MAX_BODY: usize = 32 * 1024 * 1024;

/// The limit on the time to open a connection unless [`TransportBuilder::connect_timeout`] sets
/// another: 5 seconds.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The options of a [`ReqwestTransport`].
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
    client: Option<Client>,
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
    http1_only: bool,
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
        let lookup = |name: &str| env::var_os(name);
        let found = AgentEnvironment::read(lookup).map_err(BuildError::Environment)?;
        let tokens = AgentEnvironment::tokens(lookup, Disk)?;
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

    /// Opens at most this many connections to the agent. Half of them are for long polls. The
    /// default is [`MOST_CONNECTIONS`]. HTTP/2 needs far fewer, see [`ReqwestTransport`]. An agent
    /// allows 200 connections from one address unless `limits.http_max_conns_per_client` sets
    /// another limit. All programs of a machine together must stay below it.
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

    /// With `true`, only HTTP/1.1 is used. Otherwise HTTP/2 is used with each agent at an `https`
    /// address that offers it, as Consul does.
    #[cfg(feature = "tls")]
    pub fn http1_only(mut self, is_only: bool) -> Self {
        self.connection.http1_only = is_only;
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

    /// Sends through this client instead of one that is built here. Its owner then decides about
    /// proxies, TLS and the connection pool.
    ///
    /// The client must not follow redirects (`redirect(Policy::none())`) and must not retry
    /// (`retry(reqwest::retry::never())`). It must have no `read_timeout`, which would end a
    /// blocking query during its wait. A `timeout` is overridden for each request. With
    /// `connection_verbose`, reqwest writes the token into the log.
    pub fn client(mut self, client: Client) -> Self {
        self.client = Some(client);
        self
    }

    /// Builds the transport. It uses the tokio runtime of the caller.
    ///
    /// # Errors
    /// [`BuildError`], before anything is sent. Outside a runtime it is [`BuildError::Backend`]
    /// with [`NoRuntime`].
    pub fn build(self) -> Result<ReqwestTransport, BuildError> {
        let url = self.url?;
        let basic_auth = self.basic_auth.map_err(BuildError::BasicAuth)?;
        let handle =
            Handle::try_current().map_err(|error| BuildError::Backend(NoRuntime(error).into()))?;
        #[cfg(not(unix))]
        if url.socket().is_some() {
            return Err(BuildError::NoUnixSockets);
        }
        let connections = Connections::new(self.max_connections, seed())?;
        let (recipe, url) = match self.client {
            Some(_) if self.connection != Connection::default() || url.socket().is_some() => {
                return Err(BuildError::OptionsOfOwnClient);
            }
            Some(client) => (Recipe::Own(client), url),
            None => self.connection.recipe(url)?,
        };
        let clients = Clients::new(recipe);
        // Made now so that wrong options are reported now.
        clients
            .of(Lane::Short(0), Instant::ORIGIN)
            .map_err(|error| BuildError::Backend(error.into()))?;
        let wire = Wire {
            clients,
            url,
            max_body: self.max_body,
            basic_auth,
            tokens: self.tokens,
            life: Life::of(&handle),
            handle,
            clock: Clock::start(),
            farewell: Farewell::default(),
        };
        Ok(ReqwestTransport::from_parts(
            wire,
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

    /// How to make clients with these options, and the URL to ask them for.
    fn recipe(self, url: AgentUrl) -> Result<(Recipe, AgentUrl), BuildError> {
        #[cfg(feature = "tls")]
        let this = self.trusting(&url);
        #[cfg(not(feature = "tls"))]
        let this = self;
        let host = Host {
            name: url.host().to_owned(),
            #[cfg(test)]
            lookup: this.lookup.clone(),
        };
        #[cfg(not(feature = "tls"))]
        if url.is_https() {
            return Err(BuildError::TlsNotBuilt);
        }
        let ours = Ours {
            connect_timeout: this.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT),
            host: Arc::new(host),
            servers: Arc::default(),
            #[cfg(unix)]
            socket: url.socket().map(Into::into),
            #[cfg(feature = "tls")]
            offers_http2: url.is_https() && !this.http1_only,
            #[cfg(feature = "tls")]
            tls: crate::tls::Config::new(&this, &url)?,
        };
        #[cfg(feature = "tls")]
        let url = match this.server_name {
            Some(name) if url.is_https() => url.with_host(&name).map_err(BuildError::ServerName)?,
            _ => url,
        };
        Ok((Recipe::Ours(Box::new(ours)), url))
    }
}

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
