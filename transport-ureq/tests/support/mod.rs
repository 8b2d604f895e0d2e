//! How the adapter is built for the tests of every transport.

use transport_conformance::{Backend, BuildError, Options};
#[cfg(feature = "smol")]
use transport_ureq::SmolTransport;
use transport_ureq::{TransportBuilder, UreqTransport, ureq};

pub(crate) struct Threads;

impl Backend for Threads {
    type Adapter = UreqTransport;

    fn build(&self, options: Options) -> Result<UreqTransport, BuildError> {
        Ok(with(options).build()?)
    }

    fn build_from_env(&self) -> Result<UreqTransport, BuildError> {
        Ok(UreqTransport::from_env()?)
    }
}

#[cfg(feature = "smol")]
pub(crate) struct Smol;

#[cfg(feature = "smol")]
impl Backend for Smol {
    type Adapter = SmolTransport;

    fn build(&self, options: Options) -> Result<SmolTransport, BuildError> {
        Ok(with(options).build()?.into())
    }

    fn build_from_env(&self) -> Result<SmolTransport, BuildError> {
        Ok(SmolTransport::from_env()?)
    }
}

fn with(options: Options) -> TransportBuilder {
    assert!(options.lookup.is_none(), "only unit tests have it");
    let mut builder = UreqTransport::builder(options.url);
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
        // Built as a user would build it, with ureq's defaults.
        let config = ureq::Agent::config_builder().user_agent(user_agent);
        builder = builder.client(config.build());
    }
    builder
}
