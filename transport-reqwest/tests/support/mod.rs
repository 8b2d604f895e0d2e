//! How the adapter is built for the tests of every transport.

use std::sync::LazyLock;

use tokio::runtime::Runtime;
use transport_conformance::{Backend, BuildError, Options};
use transport_reqwest::{ReqwestTransport, TransportBuilder, reqwest};

pub(crate) struct Tokio;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

impl Backend for Tokio {
    type Adapter = ReqwestTransport;

    /// hyper delivers the answer before it returns the connection to the pool.
    const CONNECTIONS_OF_A_SEQUENCE: usize = 2;

    fn build(&self, options: Options) -> Result<ReqwestTransport, BuildError> {
        let _inside = RUNTIME.enter();
        Ok(with(options).build()?)
    }

    fn build_from_env(&self) -> Result<ReqwestTransport, BuildError> {
        let _inside = RUNTIME.enter();
        Ok(ReqwestTransport::from_env()?)
    }
}

fn with(options: Options) -> TransportBuilder {
    assert!(options.lookup.is_none(), "only unit tests have it");
    let mut builder = ReqwestTransport::builder(options.url);
    if let Some(bytes) = options.max_body {
        builder = builder.max_body(bytes);
    }
    if let Some(pem) = options.ca_cert {
        builder = builder.ca_cert(pem);
    }
    if let Some((pem, key)) = options.client_cert {
        builder = builder.client_cert(pem, key);
    }
    if let Some(path) = options.ca_cert_file {
        builder = builder.ca_cert_file(path);
    }
    if let Some((cert, key)) = options.client_cert_files {
        builder = builder.client_cert_files(cert, key);
    }
    if let Some(timeout) = options.connect_timeout {
        builder = builder.connect_timeout(timeout);
    }
    if let Some(name) = options.tls_server_name {
        builder = builder.tls_server_name(name);
    }
    if let Some(folder) = options.ca_path {
        builder = builder.ca_path(folder);
    }
    if options.accept_any_certificate {
        builder = builder.danger_accept_any_certificate(true);
    }
    if let Some((user, password)) = options.basic_auth {
        builder = builder.basic_auth(user, password);
    }
    if let Some(user_agent) = options.own_client {
        builder = builder.client(own_client(user_agent));
    }
    builder
}

/// Built as a user would build it, with the TLS that they choose.
fn own_client(user_agent: &str) -> reqwest::Client {
    let provider = rustls::crypto::ring::default_provider();
    let tls = rustls::ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(user_agent)
        .build()
        .unwrap()
}
