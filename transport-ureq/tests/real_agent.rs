//! What a semaphore does on real Consul agents, on plain threads and on smol.

#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use real_agent_suite::{Backend, Options};
use transport_ureq::UreqTransport;

mod threads {
    use super::*;

    struct Threads;

    impl Backend for Threads {
        type Adapter = UreqTransport;

        fn build(&self, options: Options) -> UreqTransport {
            with(options)
        }
    }

    real_agent_suite::tests!(Threads);
}

#[cfg(feature = "smol")]
mod smol {
    use super::*;
    use transport_ureq::SmolTransport;

    struct Smol;

    impl Backend for Smol {
        type Adapter = SmolTransport;

        fn build(&self, options: Options) -> SmolTransport {
            with(options).into()
        }
    }

    real_agent_suite::tests!(Smol);
}

fn with(options: Options) -> UreqTransport {
    let mut builder = UreqTransport::builder(options.url);
    if let Some(pem) = options.ca_cert {
        builder = builder.ca_cert(pem);
    }
    if let Some((pem, key)) = options.client_cert {
        builder = builder.client_cert(pem, key);
    }
    builder.build().unwrap()
}
