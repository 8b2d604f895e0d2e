use semaphore_core::adapter::InvalidUrl;

use crate::{Backend, Options, chain};

pub fn each_bad_address_is_refused_with_its_reason(backend: &impl Backend) {
    for (address, reason) in [
        ("", InvalidUrl::Host),
        ("http://:8500", InvalidUrl::Host),
        ("ftp://consul", InvalidUrl::Scheme),
        ("unix://", InvalidUrl::Socket),
        ("http://consul:port", InvalidUrl::Port),
        ("http://user:secret@consul", InvalidUrl::Credentials),
        ("http://consul/?dc=eu", InvalidUrl::Query),
        ("http://consul/#top", InvalidUrl::Fragment),
        ("http://consul/../v1", InvalidUrl::Path),
        ("http://con sul", InvalidUrl::Character),
    ] {
        let error = backend.build(Options::to(address)).unwrap_err();
        let source = error.source().and_then(|source| source.downcast_ref());
        assert_eq!(source, Some(&reason), "{address:?}");
        assert!(!chain(&*error).contains("secret"));
    }
}
