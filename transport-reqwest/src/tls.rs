//! The trusted authorities and the client certificate. Each new connection looks them up, since
//! their files may have been replaced.

use std::fmt;
use std::sync::Arc;

use reqwest::ClientBuilder;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_platform_verifier::Verifier;
use semaphore_core::BuildError;
use semaphore_core::adapter::{AgentUrl, Pem, Reading, Reloaded};

use crate::builder::Connection;
use crate::disk::Disk;
use crate::unverified::Unverified;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The TLS configuration of every client.
pub(crate) struct Config {
    tls: ClientConfig,
    credentials: Arc<Credentials>,
}

impl Config {
    /// The provider is named explicitly: reqwest panics if the process has installed none, even for
    /// a plain `http` address.
    pub(crate) fn new(options: &Connection, url: &AgentUrl) -> Result<Self, BuildError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let making = Making::new(options, url, &provider)?;
        let credentials = Reloaded::new(Disk, move |reading| making.credentials(reading))?;
        let credentials = Arc::new(Credentials(credentials));
        let verifier = Arc::clone(&credentials);
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| BuildError::Backend(error.into()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::clone(&credentials) as _);
        if !credentials.0.is_fixed() {
            // A resumed session asks for no certificate, so a ticket would bring back what was
            // replaced.
            tls.resumption = Resumption::disabled();
        }
        Ok(Self { tls, credentials })
    }

    /// Offers these protocols. Clones of a configuration share the tickets for resuming sessions.
    pub(crate) fn apply(&self, client: ClientBuilder, protocols: &[&str]) -> ClientBuilder {
        let mut tls = self.tls.clone();
        tls.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
        client.tls_backend_preconfigured(tls)
    }

    /// One side has refused the other's certificate.
    pub(crate) fn doubt(&self) {
        self.credentials.0.doubt();
    }
}

/// Makes the verifier and the certificate from the builder's options.
struct Making {
    ca_cert: Option<Pem>,
    client_cert: Option<(Pem, Pem)>,
    accepts_any: bool,
    /// Made once, because it reads the platform's authorities.
    platform: Option<Arc<Verifier>>,
    provider: Arc<CryptoProvider>,
}

impl Making {
    fn new(
        options: &Connection,
        url: &AgentUrl,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, BuildError> {
        // Reading the platform's authorities takes milliseconds, and plain `http` doesn't need
        // them.
        let is_asked = url.is_https() && options.ca_cert.is_none() && !options.accepts_any;
        let platform = is_asked
            .then(|| Verifier::new(Arc::clone(provider)))
            .transpose()
            .map_err(|error| BuildError::PlatformVerifier(error.into()))?;
        Ok(Self {
            ca_cert: options.ca_cert.clone(),
            client_cert: options.client_cert.clone(),
            accepts_any: options.accepts_any,
            platform: platform.map(Arc::new),
            provider: Arc::clone(provider),
        })
    }

    fn credentials(&self, reading: &Reading<'_>) -> Result<Current, BuildError> {
        let verifier = match &self.ca_cert {
            Some(pem) => {
                let pem = pem.read(reading)?;
                let verifier = self.verifier(&pem).map_err(BuildError::CaCertificate)?;
                Some(verifier)
            }
            None => self.platform.clone().map(|platform| platform as _),
        };
        let verifier = if self.accepts_any {
            Some(Arc::new(Unverified(Arc::clone(&self.provider))) as _)
        } else {
            verifier
        };
        let client = match &self.client_cert {
            Some((cert, key)) => {
                let (cert, key) = (cert.read(reading)?, key.read(reading)?);
                let certified = self.certified(&cert, &key);
                Some(Arc::new(certified.map_err(BuildError::ClientCertificate)?))
            }
            None => None,
        };
        Ok(Current { verifier, client })
    }

    fn verifier(&self, pem: &[u8]) -> Result<Arc<dyn ServerCertVerifier>, Cause> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(pem)? {
            roots.add(certificate)?;
        }
        let provider = Arc::clone(&self.provider);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider);
        Ok(verifier.build()?)
    }

    fn certified(&self, cert: &[u8], key: &[u8]) -> Result<CertifiedKey, Cause> {
        let key = PrivateKeyDer::from_pem_slice(key).map_err(without_lines)?;
        Ok(CertifiedKey::from_der(
            certificates(cert)?,
            key,
            &self.provider,
        )?)
    }
}

/// The authorities and the client certificate at one moment.
#[derive(Clone)]
struct Current {
    /// None for plain `http`.
    verifier: Option<Arc<dyn ServerCertVerifier>>,
    client: Option<Arc<CertifiedKey>>,
}

/// The same, from the present files. The first lookup of a new connection checks whether the files
/// changed. Open connections are not affected.
struct Credentials(Reloaded<Current>);

impl Current {
    fn verifier(self) -> Result<Arc<dyn ServerCertVerifier>, Error> {
        let verifier = self.verifier;
        verifier.ok_or_else(|| Error::General("there is no authority".to_owned()))
    }
}

impl ServerCertVerifier for Credentials {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verifier = self.0.current().verifier()?;
        verifier.verify_server_cert(certificate, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verifier = self.0.last().verifier()?;
        verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verifier = self.0.last().verifier()?;
        verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let verifier = self.0.current().verifier();
        verifier.map_or_else(|_| Vec::new(), |it| it.supported_verify_schemes())
    }
}

impl ResolvesClientCert for Credentials {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.last().client
    }

    fn has_certs(&self) -> bool {
        self.0.last().client.is_some()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
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
