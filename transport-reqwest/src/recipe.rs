//! How clients with the same settings are made.

#[cfg(unix)]
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, ClientBuilder};
use semaphore_core::adapter::{Lane, Servers};

use crate::clients::{Made, Way};
use crate::route::{ByRoute, Host, Route};

/// Where the clients come from.
pub(crate) enum Recipe {
    Ours(Box<Ours>),
    /// The user's client, which has its own pool.
    Own(Client),
}

/// What all clients that we build have in common.
pub(crate) struct Ours {
    pub(crate) connect_timeout: Duration,
    pub(crate) host: Arc<Host>,
    pub(crate) servers: Arc<Servers>,
    #[cfg(unix)]
    pub(crate) socket: Option<PathBuf>,
    #[cfg(feature = "tls")]
    pub(crate) offers_http2: bool,
    #[cfg(feature = "tls")]
    pub(crate) tls: crate::tls::Config,
}

impl Recipe {
    /// A client that keeps one connection.
    pub(crate) fn client(&self, way: Way) -> Result<Made, reqwest::Error> {
        match self {
            Self::Ours(ours) => ours.client(way),
            Self::Own(client) => Ok(Made::new(client.clone(), None, way)),
        }
    }

    /// Whether its clients offer HTTP/2.
    #[cfg_attr(
        not(feature = "tls"),
        expect(clippy::unused_self, reason = "as with TLS")
    )]
    pub(crate) fn offers_http2(&self) -> bool {
        #[cfg(feature = "tls")]
        if let Self::Ours(ours) = self {
            return ours.offers_http2;
        }
        false
    }

    /// One side refused what the certificate files hold.
    #[cfg_attr(
        not(feature = "tls"),
        expect(clippy::unused_self, reason = "as with TLS")
    )]
    pub(crate) fn doubt(&self) {
        #[cfg(feature = "tls")]
        if let Self::Ours(ours) = self {
            ours.tls.doubt();
        }
    }
}

impl Ours {
    fn client(&self, way: Way) -> Result<Made, reqwest::Error> {
        let route = Arc::new(Route::new(
            Arc::clone(&self.host),
            Arc::clone(&self.servers),
        ));
        // Another crate's features could switch on compression or the environment's proxies. They
        // are switched off, so that the bytes counted are the bytes sent.
        let client = Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            .pool_max_idle_per_host(1)
            .pool_idle_timeout(idle_time(way))
            .connect_timeout(self.connect_timeout)
            .dns_resolver(ByRoute(Arc::clone(&route)));
        #[cfg(unix)]
        let client = match &self.socket {
            Some(path) => client.unix_socket(path.as_path()),
            None => client,
        };
        let client = self.speaking(client, way).build()?;
        Ok(Made::new(client, Some(route), way))
    }

    #[cfg(feature = "tls")]
    fn speaking(&self, client: ClientBuilder, way: Way) -> ClientBuilder {
        if !self.offers_http2 {
            return self.tls.apply(client.http1_only(), &["http/1.1"]);
        }
        // A shared connection is asked for a sign of life while it carries requests.
        let client = client
            .http2_keep_alive_interval(QUIET)
            .http2_keep_alive_timeout(self.connect_timeout)
            .http2_keep_alive_while_idle(false);
        if way.is_shared() {
            // Without prior knowledge, simultaneous requests would each open a connection.
            self.tls.apply(client.http2_prior_knowledge(), &["h2"])
        } else {
            self.tls.apply(client, &["h2", "http/1.1"])
        }
    }

    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unused_self, reason = "as with TLS")]
    fn speaking(&self, client: ClientBuilder, _: Way) -> ClientBuilder {
        client.http1_only()
    }
}

fn idle_time(way: Way) -> Duration {
    match way {
        Way::Alone(lane) => lane.idle_time(),
        // hyper counts from the beginning of the last request, and a poll may take 17 s.
        Way::Shorts | Way::Polls(_) => Lane::Short(0).idle_time(),
    }
}

/// After this time without a byte from the agent, the agent is asked for a sign of life. It must
/// give one within the connect timeout.
#[cfg(feature = "tls")]
const QUIET: Duration = Duration::from_secs(5);
