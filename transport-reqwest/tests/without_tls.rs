//! Without the feature `tls`, `https` agents are refused and `http` agents work.

#![cfg(not(feature = "tls"))]

use transport_reqwest::{BuildError, ReqwestTransport};

#[test]
fn https_is_refused_when_tls_is_not_built() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let error = ReqwestTransport::new("https://127.0.0.1:8501").unwrap_err();
    assert!(matches!(error, BuildError::TlsNotBuilt));
    assert!(ReqwestTransport::new("http://127.0.0.1:8500").is_ok());
}
