//! An agent of one's own authority.

use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use real_agent::Agent;
use semaphore_core::adapter::TransportErrorKind;
use semaphore_core::{Error, RequestError};

use crate::scene::Scene;
use crate::{Backend, Options};

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, "our authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        Self {
            pem: params.self_signed(&key).unwrap().pem(),
            issuer: Issuer::new(params, key),
        }
    }

    /// A certificate and its key, for the agent or a client of it.
    fn certify(&self) -> (String, String) {
        let mut params = CertificateParams::default();
        let loopback: IpAddr = [127, 0, 0, 1].into();
        params.subject_alt_names = vec![SanType::IpAddress(loopback)];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

pub fn an_agent_that_demands_client_certificates_is_used_with_one(backend: &impl Backend) {
    let authority = Authority::new();
    let (chain, key) = authority.certify();
    let builder = Agent::builder().tls(chain, key).client_ca(&authority.pem);
    let agent = builder.start().unwrap();
    let options = Options {
        url: format!("https://{}", agent.https_addr()),
        ca_cert: Some(authority.pem.clone()),
        client_cert: Some(authority.certify()),
    };
    let nobody = Options {
        client_cert: None,
        ..options.clone()
    };

    let scene = Scene::with(backend, agent.client(), options);
    let semaphore = scene.semaphore(2);
    let permit = scene.acquire(&semaphore);
    let other = scene.acquire(&semaphore);
    assert!(scene.run(semaphore.try_acquire()).unwrap().is_err());
    scene.release(other);
    scene.release(permit);
    agent.assert_nothing_left(scene.prefix());

    let scene = Scene::with(backend, agent.client(), nobody);
    let semaphore = scene.semaphore(2);
    let refused = scene.run(semaphore.acquire());
    assert!(
        matches!(
            &refused,
            Err(Error::Request(RequestError::Transport(error)))
                if error.kind() == TransportErrorKind::Misconfigured
        ),
        "{refused:?}"
    );
    scene.run(semaphore.shutdown());
    agent.assert_nothing_left(scene.prefix());
}
