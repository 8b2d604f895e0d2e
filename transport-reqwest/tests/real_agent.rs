//! What a semaphore does on real Consul agents, on tokio.

#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::LazyLock;

use real_agent_suite::{Backend, Options};
use tokio::runtime::Runtime;
use transport_reqwest::ReqwestTransport;

struct Tokio;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

impl Backend for Tokio {
    type Adapter = ReqwestTransport;

    fn build(&self, options: Options) -> ReqwestTransport {
        let _inside = RUNTIME.enter();
        let mut builder = ReqwestTransport::builder(options.url);
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
}

real_agent_suite::tests!(Tokio);
