//! How a connection is opened: the name is resolved only then.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
#[cfg(unix)]
use std::path::PathBuf;
use std::sync::Arc;

use semaphore_core::adapter::AgentUrl;
#[cfg(feature = "tls")]
use semaphore_core::adapter::InvalidUrl;
use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
#[cfg(feature = "tls")]
use ureq::unversioned::transport::RustlsConnector;
use ureq::unversioned::transport::{ConnectionDetails, Connector, NextTimeout, TcpConnector};

#[cfg(unix)]
use crate::socket::Socket;

#[cfg(not(unix))]
type Socket = ();

/// Opens connections to the agent. All clones share one TLS configuration, and with it the
/// tickets that resume a session.
#[derive(Clone)]
pub(crate) struct Dial {
    /// The agent's address when its URL holds one, so that nothing needs to be resolved.
    address: Option<SocketAddr>,
    /// Where the agent is instead, if it is no address of the network.
    #[cfg(unix)]
    socket: Option<PathBuf>,
    #[cfg(feature = "tls")]
    tls: Arc<RustlsConnector>,
    #[cfg(feature = "tls")]
    server_name: Option<Uri>,
}

impl Dial {
    pub(crate) fn new(url: &AgentUrl) -> Self {
        let ip = url.host().parse::<IpAddr>().ok();
        Self {
            address: ip.map(|ip| SocketAddr::new(ip, url.port())),
            #[cfg(unix)]
            socket: url.socket().map(PathBuf::from),
            #[cfg(feature = "tls")]
            tls: Arc::default(),
            #[cfg(feature = "tls")]
            server_name: None,
        }
    }

    /// Expects this name in the agent's certificate.
    #[cfg(feature = "tls")]
    pub(crate) fn with_server_name(
        mut self,
        url: &AgentUrl,
        name: &str,
    ) -> Result<Self, InvalidUrl> {
        let named = url.clone().with_host(name)?.join("/");
        self.server_name = Some(named.parse().map_err(|_| InvalidUrl::Host)?);
        Ok(self)
    }

    #[cfg(unix)]
    fn socket(&self, details: &ConnectionDetails) -> Result<Option<Socket>, Error> {
        let path = self.socket.as_deref();
        path.map(|path| Socket::connect(path, details)).transpose()
    }

    #[cfg(not(unix))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as on Unix")]
    fn socket(&self, _: &ConnectionDetails) -> Result<Option<Socket>, Error> {
        Ok(None)
    }

    fn resolve(&self, details: &ConnectionDetails) -> Result<ResolvedSocketAddrs, Error> {
        match self.address {
            Some(address) => {
                let mut found = details.resolver.empty();
                found.push(address);
                Ok(found)
            }
            None => {
                DefaultResolver::default().resolve(details.uri, details.config, details.timeout)
            }
        }
    }
}

/// What is open already, or TCP.
type Tcp = <TcpConnector as Connector<Socket>>::Out;
#[cfg(feature = "tls")]
type Opened = <RustlsConnector as Connector<Tcp>>::Out;
#[cfg(not(feature = "tls"))]
type Opened = Tcp;

impl Connector for Dial {
    type Out = Opened;

    fn connect(&self, details: &ConnectionDetails, _: Option<()>) -> Result<Option<Opened>, Error> {
        let socket = self.socket(details)?;
        let addrs = match socket {
            Some(_) => details.addrs.clone(),
            None => self.resolve(details)?,
        };
        let addressed = ConnectionDetails {
            addrs,
            ..copy(details)
        };
        let opened = TcpConnector::default().connect(&addressed, socket)?;
        #[cfg(feature = "tls")]
        let opened = self.tls.connect(
            &ConnectionDetails {
                uri: self.server_name.as_ref().unwrap_or(details.uri),
                // A request's own timeout makes its configuration one of the request, and for
                // those ureq builds a TLS configuration each time. Ours never differs.
                request_level: false,
                ..copy(details)
            },
            opened,
        )?;
        Ok(opened)
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dial").finish_non_exhaustive()
    }
}

/// ureq resolves before each request, also when it has an open connection. This leaves the work to
/// [`Dial`].
#[derive(Debug)]
pub(crate) struct NoResolver;

impl Resolver for NoResolver {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        Ok(self.empty())
    }
}

fn copy<'a>(details: &ConnectionDetails<'a>) -> ConnectionDetails<'a> {
    ConnectionDetails {
        uri: details.uri,
        addrs: details.addrs.clone(),
        config: details.config,
        request_level: details.request_level,
        resolver: details.resolver,
        now: details.now,
        timeout: details.timeout,
        current_time: Arc::clone(&details.current_time),
        run_connector: Arc::clone(&details.run_connector),
        register_shutdown: Arc::clone(&details.register_shutdown),
    }
}
