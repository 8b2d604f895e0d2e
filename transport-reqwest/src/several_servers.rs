//! Tests names that resolve to several servers. No option of the builder sets what a name resolves
//! to.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::LazyLock;

use tokio::runtime::Runtime;
use transport_conformance::{Backend, BuildError, Lookup, Options};

use crate::builder::TransportBuilder;
use crate::transport::ReqwestTransport;

struct Tokio;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

impl Backend for Tokio {
    type Adapter = ReqwestTransport;

    fn build(&self, options: Options) -> Result<ReqwestTransport, BuildError> {
        let _inside = RUNTIME.enter();
        let mut builder = ReqwestTransport::builder(options.url);
        if let Some(timeout) = options.connect_timeout {
            builder = builder.connect_timeout(timeout);
        }
        if let Some(pem) = options.ca_cert {
            builder = builder.ca_cert(pem);
        }
        if let Some((pem, key)) = options.client_cert {
            builder = builder.client_cert(pem, key);
        }
        Ok(builder.resolved_by(options.lookup).build()?)
    }

    fn build_from_env(&self) -> Result<ReqwestTransport, BuildError> {
        Err("the environment has no lookup".into())
    }
}

impl real_agent_suite::Backend for Tokio {
    type Adapter = ReqwestTransport;

    fn build(&self, options: real_agent_suite::Options) -> ReqwestTransport {
        let _inside = RUNTIME.enter();
        let lookup = options
            .lookup
            .map(|real_agent_suite::Lookup(found)| Lookup::new(move || found()));
        let builder = ReqwestTransport::builder(options.url);
        builder.resolved_by(lookup).build().unwrap()
    }
}

impl TransportBuilder {
    fn resolved_by(mut self, lookup: Option<Lookup>) -> Self {
        self.connection.lookup = lookup;
        self
    }
}

mod scripted {
    use super::Tokio;

    transport_conformance::tests_of_several_servers!(Tokio);
}

mod real {
    use super::Tokio;

    real_agent_suite::tests_of_several_servers!(Tokio);
}
