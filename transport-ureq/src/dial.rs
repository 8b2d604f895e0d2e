//! Opens a connection: resolves the name, then tries one address after the other.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
#[cfg(unix)]
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(feature = "tls")]
use semaphore_core::adapter::InvalidUrl;
use semaphore_core::adapter::{AgentUrl, is_no_room};
use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
#[cfg(feature = "tls")]
use ureq::unversioned::transport::RustlsConnector;
use ureq::unversioned::transport::time::Duration as Within;
use ureq::unversioned::transport::{ConnectionDetails, Connector, NextTimeout, TcpConnector};

use crate::failure::is_refused_by_tls;
use crate::peers::{Peer, Peers, Reached};
#[cfg(unix)]
use crate::socket::Socket;
#[cfg(feature = "tls")]
use crate::tls::Credentials;

#[cfg(not(unix))]
type Socket = ();

/// Opens connections to the agent. All workers share one TLS configuration, with its tickets for
/// resuming sessions, and what is known about the servers.
#[derive(Clone)]
pub(crate) struct Dial {
    /// The agent's address if its URL has one. Then no name is resolved.
    address: Option<SocketAddr>,
    /// The path of the agent's socket, if it listens on one.
    #[cfg(unix)]
    socket: Option<PathBuf>,
    pub(crate) peers: Arc<Peers>,
    /// The server of this worker's connection.
    pub(crate) peer: Arc<Peer>,
    #[cfg(feature = "tls")]
    tls: Arc<Credentials>,
    #[cfg(feature = "tls")]
    server_name: Option<Uri>,
    #[cfg(test)]
    lookup: Option<transport_conformance::Lookup>,
}

impl Dial {
    pub(crate) fn new(url: &AgentUrl, #[cfg(feature = "tls")] tls: Credentials) -> Self {
        let ip = url.host().parse::<IpAddr>().ok();
        Self {
            address: ip.map(|ip| SocketAddr::new(ip, url.port())),
            #[cfg(unix)]
            socket: url.socket().map(PathBuf::from),
            peers: Arc::new(Peers::new()),
            peer: Arc::default(),
            #[cfg(feature = "tls")]
            tls: Arc::new(tls),
            #[cfg(feature = "tls")]
            server_name: None,
            #[cfg(test)]
            lookup: None,
        }
    }

    /// Resolves every name with this.
    #[cfg(test)]
    pub(crate) fn with_lookup(mut self, lookup: Option<transport_conformance::Lookup>) -> Self {
        self.lookup = lookup;
        self
    }

    /// A copy for another worker.
    pub(crate) fn for_worker(&self) -> Self {
        Self {
            peer: Arc::default(),
            ..self.clone()
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

    /// The addresses to try, in this order.
    fn addresses(&self, details: &ConnectionDetails) -> Result<Vec<SocketAddr>, Error> {
        if let Some(address) = self.address {
            return Ok(vec![address]);
        }
        #[cfg(test)]
        if let Some(lookup) = &self.lookup {
            let mut found = lookup.addresses(details.uri.port_u16().unwrap_or(80));
            self.peers.order(&mut found);
            return Ok(found);
        }
        let resolver = DefaultResolver::default();
        let mut found = resolver
            .resolve(details.uri, details.config, details.timeout)?
            .to_vec();
        self.peers.order(&mut found);
        Ok(found)
    }

    /// Opens a connection to one of the addresses. Each gets an equal part of the remaining time,
    /// which includes its handshake.
    fn reach(&self, details: &ConnectionDetails) -> Result<(Option<Opened>, IpAddr), Error> {
        let began = Instant::now();
        let addresses = self.addresses(details)?;
        let mut failure = Error::HostNotFound;
        for (address, untried) in addresses.iter().zip((1..=addresses.len()).rev()) {
            let left = details.timeout.after.saturating_sub(began.elapsed());
            let share = left / u32::try_from(untried).unwrap_or(u32::MAX);
            if share < LEAST {
                return Err(Error::Timeout(details.timeout.reason));
            }
            let mut addrs = details.resolver.empty();
            addrs.push(*address);
            let opened = self.open(
                &ConnectionDetails {
                    addrs,
                    timeout: NextTimeout {
                        after: Within::Exact(share),
                        ..details.timeout
                    },
                    now: (details.current_time)(),
                    ..copy(details)
                },
                None,
            );
            match opened {
                Ok(opened) => return Ok((opened, address.ip())),
                Err(error) => {
                    if !is_lack_of_ours(&error) {
                        self.peers.failed(address.ip());
                    }
                    if weight(&error) > weight(&failure) {
                        failure = error;
                    }
                }
            }
        }
        Err(failure)
    }

    /// Opens a connection to the only address of the details, unless one is open already.
    #[cfg_attr(
        not(feature = "tls"),
        expect(clippy::unused_self, reason = "as with TLS")
    )]
    fn open(
        &self,
        details: &ConnectionDetails,
        open: Option<Socket>,
    ) -> Result<Option<Opened>, Error> {
        let opened = TcpConnector::default().connect(details, open)?;
        #[cfg(feature = "tls")]
        let opened = {
            let tls = self.tls.current();
            tls.connector.connect(
                &ConnectionDetails {
                    uri: self.server_name.as_ref().unwrap_or(details.uri),
                    config: &tls.config,
                    // ureq builds a TLS configuration for each request that has its own settings,
                    // and every request has its own timeout. This avoids that.
                    request_level: false,
                    ..copy(details)
                },
                opened,
            )?
        };
        Ok(opened)
    }

    /// One side has refused the other's certificate.
    #[cfg_attr(
        not(feature = "tls"),
        expect(clippy::unused_self, reason = "as with TLS")
    )]
    pub(crate) fn doubt(&self) {
        #[cfg(feature = "tls")]
        self.tls.doubt();
    }
}

/// Which of several failures is reported. A refused certificate comes first, then a server that
/// can't be reached, then our lack of resources, which may concern one address family only.
fn weight(error: &Error) -> u8 {
    match error {
        error if is_refused_by_tls(error, true) => 3,
        Error::HostNotFound => 0,
        error if is_lack_of_ours(error) => 1,
        _ => 2,
    }
}

fn is_lack_of_ours(error: &Error) -> bool {
    matches!(error, Error::Io(error) if is_no_room(error))
}

/// No connection opens in less time.
const LEAST: Duration = Duration::from_millis(1);

/// TCP, or the socket that is open already.
type Tcp = <TcpConnector as Connector<Socket>>::Out;
#[cfg(feature = "tls")]
type Opened = <RustlsConnector as Connector<Tcp>>::Out;
#[cfg(not(feature = "tls"))]
type Opened = Tcp;

impl Connector for Dial {
    type Out = Reached<Opened>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        _: Option<()>,
    ) -> Result<Option<Self::Out>, Error> {
        self.peer.set(None);
        let (opened, server) = if let Some(socket) = self.socket(details)? {
            (self.open(details, Some(socket))?, None)
        } else {
            let (opened, server) = self.reach(details)?;
            (opened, Some(server))
        };
        self.peer.set(server);
        let peers = Arc::clone(&self.peers);
        Ok(opened.map(|transport| Reached {
            transport,
            peers,
            server,
        }))
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dial").finish_non_exhaustive()
    }
}

/// ureq resolves the name before each request, even if it has an open connection. This resolver
/// does nothing: [`Dial`] resolves.
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
