//! Tests names that resolve to several servers. No option of the builder sets what a name resolves
//! to.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use transport_conformance::{Backend, BuildError, Lookup, Options};

use crate::builder::TransportBuilder;
use crate::transport::UreqTransport;

struct Threads;

impl Backend for Threads {
    type Adapter = UreqTransport;

    fn build(&self, options: Options) -> Result<UreqTransport, BuildError> {
        Ok(with(options)?)
    }

    fn build_from_env(&self) -> Result<UreqTransport, BuildError> {
        Err("the environment has no lookup".into())
    }
}

#[cfg(feature = "smol")]
struct Smol;

#[cfg(feature = "smol")]
impl Backend for Smol {
    type Adapter = crate::SmolTransport;

    fn build(&self, options: Options) -> Result<crate::SmolTransport, BuildError> {
        Ok(with(options)?.into())
    }

    fn build_from_env(&self) -> Result<crate::SmolTransport, BuildError> {
        Err("the environment has no lookup".into())
    }
}

fn with(options: Options) -> Result<UreqTransport, crate::BuildError> {
    let mut builder = UreqTransport::builder(options.url);
    if let Some(timeout) = options.connect_timeout {
        builder = builder.connect_timeout(timeout);
    }
    if let Some(pem) = options.ca_cert {
        builder = builder.ca_cert(pem);
    }
    if let Some((pem, key)) = options.client_cert {
        builder = builder.client_cert(pem, key);
    }
    builder.resolved_by(options.lookup).build()
}

impl real_agent_suite::Backend for Threads {
    type Adapter = UreqTransport;

    fn build(&self, options: real_agent_suite::Options) -> UreqTransport {
        let lookup = options.lookup;
        let lookup = lookup.map(|real_agent_suite::Lookup(found)| Lookup::new(move || found()));
        let builder = UreqTransport::builder(options.url);
        builder.resolved_by(lookup).build().unwrap()
    }
}

#[cfg(feature = "smol")]
impl real_agent_suite::Backend for Smol {
    type Adapter = crate::SmolTransport;

    fn build(&self, options: real_agent_suite::Options) -> crate::SmolTransport {
        real_agent_suite::Backend::build(&Threads, options).into()
    }
}

impl TransportBuilder {
    fn resolved_by(mut self, lookup: Option<Lookup>) -> Self {
        self.connection.lookup = lookup;
        self
    }
}

mod threads {
    use super::Threads;

    transport_conformance::tests_of_several_servers!(Threads);

    mod real {
        use super::Threads;

        real_agent_suite::tests_of_several_servers!(Threads);
    }
}

#[cfg(feature = "smol")]
mod smol {
    use super::Smol;

    transport_conformance::tests_of_several_servers!(Smol);

    mod real {
        use super::Smol;

        real_agent_suite::tests_of_several_servers!(Smol);
    }
}
