use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::ClientBuilder;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use rustls::client::WantsClientCert;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use semaphore_core::BuildError;
use semaphore_core::adapter::AgentUrl;

use crate::builder::Connection;
use crate::unverified::Unverified;

/// The TLS configuration of every client, and how each finds the agent.
pub(crate) struct Config {
    tls: ClientConfig,
    resolver: Option<ResolveAs>,
}

impl Config {
    /// The provider is named here because reqwest panics when the process has none installed, also for a plain `http`
    /// address.
    pub(crate) fn new(options: &Connection, url: &AgentUrl) -> Result<Self, BuildError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let trusting = trust(options, url, provider)?;
        let tls = match &options.client_cert {
            None => trusting.with_no_client_auth(),
            Some((cert, key)) => {
                let chain = certificates(cert).map_err(BuildError::ClientCertificate)?;
                let key = PrivateKeyDer::from_pem_slice(key)
                    .map_err(|error| BuildError::ClientCertificate(error.into()))?;
                trusting
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| BuildError::ClientCertificate(error.into()))?
            }
        };
        let resolver = None;
        Ok(Self { tls, resolver })
    }

    /// Whatever name is asked for is the host of this URL.
    pub(crate) fn resolve_as(&mut self, url: &AgentUrl) {
        self.resolver = Some(ResolveAs::new(url));
    }

    /// The clones of a configuration share the tickets that resume a session.
    pub(crate) fn apply(&self, client: ClientBuilder) -> ClientBuilder {
        let client = client.tls_backend_preconfigured(self.tls.clone());
        match &self.resolver {
            Some(resolver) => client.dns_resolver(resolver.clone()),
            None => client,
        }
    }
}

/// Resolves every name to the host of the agent's URL, so that a request can be made, and its
/// certificate checked, under another name.
#[derive(Clone)]
struct ResolveAs {
    host: String,
}

impl ResolveAs {
    fn new(url: &AgentUrl) -> Self {
        Self {
            host: url.host().to_owned(),
        }
    }
}

impl Resolve for ResolveAs {
    fn resolve(&self, _name: Name) -> Resolving {
        let host = self.host.clone();
        Box::pin(async move {
            // reqwest replaces port 0 by the URL's.
            let found = tokio::net::lookup_host((host, 0)).await?;
            let found: Vec<SocketAddr> = found.collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

fn trust(
    options: &Connection,
    url: &AgentUrl,
    provider: Arc<CryptoProvider>,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, BuildError> {
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| BuildError::Backend(error.into()))?;
    let mut roots = RootCertStore::empty();
    match &options.ca_cert {
        Some(pem) => {
            for certificate in certificates(pem).map_err(BuildError::CaCertificate)? {
                roots
                    .add(certificate)
                    .map_err(|error| BuildError::CaCertificate(error.into()))?;
            }
        }
        _ if options.accepts_any => {}
        // Reading the platform's authorities takes milliseconds that plain `http` has no use for.
        None if url.is_https() => {
            return builder
                .with_platform_verifier()
                .map_err(|error| BuildError::PlatformVerifier(error.into()));
        }
        None => {}
    }
    if options.accepts_any {
        let verifier = Arc::new(Unverified(provider));
        let builder = builder.dangerous();
        return Ok(builder.with_custom_certificate_verifier(verifier));
    }
    Ok(builder.with_root_certificates(roots))
}

fn certificates(
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, Box<dyn std::error::Error + Send + Sync>> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>()?;
    if found.is_empty() {
        return Err("there is no certificate in it".into());
    }
    Ok(found)
}
