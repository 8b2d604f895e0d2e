//! How the adapter is built for the tests on real agents.

use real_agent_suite::{Backend, Options};
#[cfg(feature = "smol")]
use transport_ureq::SmolTransport;
use transport_ureq::UreqTransport;

pub(crate) struct Threads;

impl Backend for Threads {
    type Adapter = UreqTransport;

    fn build(&self, options: Options) -> UreqTransport {
        with(options)
    }
}

#[cfg(feature = "smol")]
pub(crate) struct Smol;

#[cfg(feature = "smol")]
impl Backend for Smol {
    type Adapter = SmolTransport;

    fn build(&self, options: Options) -> SmolTransport {
        with(options).into()
    }
}

fn with(options: Options) -> UreqTransport {
    let mut builder = UreqTransport::builder(options.url);
    if let Some(pem) = options.ca_cert {
        builder = builder.ca_cert(pem);
    }
    if let Some(path) = options.ca_cert_file {
        builder = builder.ca_cert_file(path);
    }
    if let Some((cert, key)) = options.client_cert_files {
        builder = builder.client_cert_files(cert, key);
    }
    if let Some((pem, key)) = options.client_cert {
        builder = builder.client_cert(pem, key);
    }
    builder.build().unwrap()
}
