//! What every HTTP transport must do, on plain threads and on smol.

#![cfg(feature = "tls")]

mod support;

mod threads {
    use crate::support::Threads;

    transport_conformance::tests!(Threads);
}

#[cfg(feature = "smol")]
mod smol {
    use crate::support::Smol;

    transport_conformance::tests!(Smol);
}
