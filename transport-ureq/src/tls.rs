use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use semaphore_core::BuildError;
use semaphore_core::adapter::AgentUrl;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig, TlsProvider};

use crate::builder::Connection;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The TLS configuration of the agents. What ureq would only find out at the first request, or
/// pass over in silence, is checked here.
pub(crate) fn config(options: &Connection, url: &AgentUrl) -> Result<TlsConfig, BuildError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client_cert = match &options.client_cert {
        Some((cert, key)) => {
            Some(client_cert(cert, key, &provider).map_err(BuildError::ClientCertificate)?)
        }
        None => None,
    };
    let roots = match &options.ca_cert {
        Some(pem) => {
            let authorities = authorities(pem).map_err(BuildError::CaCertificate)?;
            RootCerts::new_with_certs(&authorities)
        }
        None => RootCerts::PlatformVerifier,
    };
    if url.is_https() && options.ca_cert.is_none() && !options.accepts_any {
        rustls_platform_verifier::Verifier::new(Arc::clone(&provider))
            .map_err(|error| BuildError::PlatformVerifier(error.into()))?;
    }
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(provider)
        .root_certs(roots)
        .client_cert(client_cert)
        .disable_verification(options.accepts_any)
        .build())
}

fn authorities(pem: &[u8]) -> Result<Vec<Certificate<'static>>, Cause> {
    let mut roots = RootCertStore::empty();
    let mut found = Vec::new();
    for certificate in certificates(pem)? {
        found.push(Certificate::from_der(&certificate).to_owned());
        roots.add(certificate)?;
    }
    Ok(found)
}

fn client_cert(cert: &[u8], key: &[u8], provider: &CryptoProvider) -> Result<ClientCert, Cause> {
    let chain = certificates(cert)?;
    let ours: Vec<_> = chain
        .iter()
        .map(|certificate| Certificate::from_der(certificate).to_owned())
        .collect();
    let private = PrivateKey::from_pem(key)?;
    CertifiedKey::from_der(chain, PrivateKeyDer::from_pem_slice(key)?, provider)?;
    Ok(ClientCert::new_with_certs(&ours, private))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Cause> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>()?;
    if found.is_empty() {
        return Err("there is no certificate in it".into());
    }
    Ok(found)
}
