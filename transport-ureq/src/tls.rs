//! The trusted authorities and the client certificate. When a file was replaced they are made again
//! for the next connection.

use std::fmt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use semaphore_core::BuildError;
use semaphore_core::adapter::{AgentUrl, Pem, Reading, Reloaded};
use ureq::config::Config;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig, TlsProvider};
use ureq::unversioned::transport::RustlsConnector;

use crate::builder::{self, Connection};
use crate::disk::Disk;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The TLS settings. Each new connection uses the present content of the files. Open connections
/// are not affected.
pub(crate) type Credentials = Reloaded<Arc<Tls>>;

/// The TLS settings at one moment, with their tickets for resuming sessions. After files were
/// replaced, a ticket would bring back the old content, so the next settings begin without tickets.
pub(crate) struct Tls {
    pub(crate) config: Config,
    pub(crate) connector: RustlsConnector,
}

/// Checks what ureq would only report at the first request, or ignore.
pub(crate) fn credentials(options: &Connection, url: &AgentUrl) -> Result<Credentials, BuildError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    if url.is_https() && options.ca_cert.is_none() && !options.accepts_any {
        rustls_platform_verifier::Verifier::new(Arc::clone(&provider))
            .map_err(|error| BuildError::PlatformVerifier(error.into()))?;
    }
    let making = Making {
        ca_cert: options.ca_cert.clone(),
        client_cert: options.client_cert.clone(),
        accepts_any: options.accepts_any,
        provider,
    };
    let config = builder::config(options);
    Reloaded::new(Disk, move |reading| {
        let tls = making.tls_config(reading)?;
        Ok(Arc::new(Tls {
            config: config().tls_config(tls).build(),
            connector: RustlsConnector::default(),
        }))
    })
}

/// Makes the settings from the builder's options.
struct Making {
    ca_cert: Option<Pem>,
    client_cert: Option<(Pem, Pem)>,
    accepts_any: bool,
    provider: Arc<CryptoProvider>,
}

impl Making {
    fn tls_config(&self, reading: &Reading<'_>) -> Result<TlsConfig, BuildError> {
        let roots = match &self.ca_cert {
            Some(pem) => {
                let pem = pem.read(reading)?;
                let authorities = authorities(&pem).map_err(BuildError::CaCertificate)?;
                RootCerts::new_with_certs(&authorities)
            }
            None => RootCerts::PlatformVerifier,
        };
        let client_cert = match &self.client_cert {
            Some((cert, key)) => {
                let (cert, key) = (cert.read(reading)?, key.read(reading)?);
                let client_cert = client_cert(&cert, &key, &self.provider);
                Some(client_cert.map_err(BuildError::ClientCertificate)?)
            }
            None => None,
        };
        Ok(TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::clone(&self.provider))
            .root_certs(roots)
            .client_cert(client_cert)
            .disable_verification(self.accepts_any)
            .build())
    }
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
    let checked = PrivateKeyDer::from_pem_slice(key).map_err(without_lines)?;
    CertifiedKey::from_der(chain, checked, provider)?;
    // ureq's error would quote the document.
    let private = PrivateKey::from_pem(key).map_err(|_| "ureq reads no key in it")?;
    Ok(ClientCert::new_with_certs(&ours, private))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Cause> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(without_lines)?;
    if found.is_empty() {
        return Err("there is no certificate in it".into());
    }
    Ok(found)
}

/// What is wrong with a document, without quoting it: a key may be on one line.
fn without_lines(error: pem::Error) -> Cause {
    match error {
        pem::Error::IllegalSectionStart { .. } => "the line that begins a section is broken".into(),
        pem::Error::MissingSectionEnd { .. } => "a section has no end".into(),
        error => error.into(),
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}
