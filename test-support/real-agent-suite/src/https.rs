//! An agent whose certificate is from a private authority.

use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use real_agent::{Agent, Proxy};
use semaphore_core::adapter::TransportErrorKind;
use semaphore_core::{Error, RequestError};
use tempfile::TempDir;

use crate::contest::{Contended, both_with};
use crate::scene::{SHORT_TTL, Scene};
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
        ..Options::default()
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
    drop(semaphore);
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

/// The files of a client.
struct Files(TempDir);

impl Files {
    fn of(authority: &Authority) -> Self {
        let files = Self(TempDir::new().unwrap());
        files.replace(authority);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn replace(&self, authority: &Authority) {
        let (chain, key) = authority.certify();
        for (name, content) in [
            ("ca.pem", &authority.pem),
            ("cert.pem", &chain),
            ("key.pem", &key),
        ] {
            fs::write(self.path(name), content).unwrap();
        }
    }
}

/// Each time, both sides get a new authority, and every open connection is closed.
pub fn holds_outlive_certificates_that_are_replaced(backend: &impl Backend) {
    let first = Authority::new();
    let (chain, key) = first.certify();
    let builder = Agent::builder().tls(chain, key).client_ca(&first.pem);
    let agent = builder.start().unwrap();
    let proxy = Proxy::start(agent.https_addr()).unwrap();
    let url = format!("https://{}", proxy.addr());
    let files = Files::of(&first);
    let options = Options {
        ca_cert_file: Some(files.path("ca.pem")),
        client_cert_files: Some((files.path("cert.pem"), files.path("key.pem"))),
        ..Options::to(&url)
    };
    let contended =
        both_with(backend, &agent, &options).map(|it| it.contend([&url, &url], SHORT_TTL));
    for _ in 0..2 {
        let next = Authority::new();
        let (chain, key) = next.certify();
        // One side changes first. Until the other follows, no connection can be opened.
        files.replace(&next);
        proxy.cut();
        agent.replace_certificates(&chain, &key, &next.pem).unwrap();
        proxy.cut();
        for Contended { contest, held, .. } in &contended {
            contest.wait_for_renewals(held);
        }
    }
    contended.into_iter().for_each(Contended::hand_over);
    assert!(agent.client().sessions().unwrap().is_empty());

    let late = Options {
        ca_cert: Some(first.pem.clone()),
        client_cert: Some(first.certify()),
        ..Options::to(&url)
    };
    let scene = Scene::with(backend, agent.client(), late);
    let semaphore = scene.semaphore(1);
    let refused = scene.run(semaphore.acquire());
    assert!(
        matches!(&refused, Err(Error::Request(RequestError::Transport(_)))),
        "{refused:?}"
    );
    scene.run(semaphore.shutdown());
}
