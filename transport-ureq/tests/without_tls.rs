//! Without the feature `tls`, `https` agents are refused and `http` agents work.

#![cfg(not(feature = "tls"))]

use transport_ureq::{BuildError, UreqTransport};

#[test]
fn https_is_refused_when_tls_is_not_built() {
    let error = UreqTransport::new("https://127.0.0.1:8501").unwrap_err();
    assert!(matches!(error, BuildError::TlsNotBuilt));
    assert!(UreqTransport::new("http://127.0.0.1:8500").is_ok());
}
