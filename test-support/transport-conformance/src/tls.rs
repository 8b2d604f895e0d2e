use std::fs;
use std::net::IpAddr;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use semaphore_core::adapter::TransportErrorKind;
use tempfile::TempDir;

use crate::cancellation::{Outcome, send_in_background};
use crate::server::{Connection, Server};
use crate::{Backend, Options, assert_told, get, put, send, send_in_sequence};

/// A certificate authority.
pub struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// The names that a certificate is for, and its years.
pub struct Names {
    names: Vec<SanType>,
    years: Option<(i32, i32)>,
}

/// A certificate and its key.
pub struct Certified {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    pub fn new() -> Self {
        Self::named("our authority")
    }

    fn named(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        Self {
            certificate: params.self_signed(&key).unwrap(),
            issuer: Issuer::new(params, key),
        }
    }

    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    pub fn certify(&self, names: Names) -> Certified {
        let mut params = CertificateParams::default();
        params.subject_alt_names = names.names;
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        if let Some((first, last)) = names.years {
            params.not_before = rcgen::date_time_ymd(first, 1, 1);
            params.not_after = rcgen::date_time_ymd(last, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        Certified {
            certificate: params.signed_by(&key, &self.issuer).unwrap(),
            key,
        }
    }
}

impl Names {
    pub fn loopback() -> Self {
        let address: IpAddr = [127, 0, 0, 1].into();
        Self {
            names: vec![SanType::IpAddress(address)],
            years: None,
        }
    }

    pub fn dns(name: &str) -> Self {
        Self {
            names: vec![SanType::DnsName(name.try_into().unwrap())],
            years: None,
        }
    }

    fn valid(self, first: i32, last: i32) -> Self {
        Self {
            years: Some((first, last)),
            ..self
        }
    }
}

impl Certified {
    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    pub fn der(&self) -> Vec<u8> {
        self.certificate.der().to_vec()
    }

    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// A server that shows this certificate. It demands one from `clients` if that is given.
    pub fn server_config(&self, clients: Option<&Authority>) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.certificate.der().clone()).unwrap();
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let chain = vec![self.certificate.der().clone()];
        Arc::new(builder.with_single_cert(chain, key).unwrap())
    }
}

fn start(agent: &Certified, clients: Option<&Authority>) -> Server {
    Server::start_tls(agent.server_config(clients), |connection| {
        connection.answer_all(200, "true");
    })
}

fn trusting(authority: &Authority, server: &Server) -> Options {
    Options {
        ca_cert: Some(authority.pem()),
        ..Options::to(server.url())
    }
}

fn works(backend: &impl Backend, options: Options) {
    let adapter = backend.build(options).unwrap();
    assert_eq!(send(&adapter, put("/v1/kv/a", "")).unwrap().body(), b"true");
}

fn is_misconfigured(backend: &impl Backend, options: Options) {
    let adapter = backend.build(options).unwrap();
    let error = send(&adapter, put("/v1/kv/a", "")).unwrap_err();
    assert_eq!(error.kind(), TransportErrorKind::Misconfigured, "{error:?}");
}

/// As [`is_misconfigured`], for a refusal after the client's handshake has ended. If it arrives
/// before the request is under way, the connection only counts as gone.
fn is_misconfigured_in_the_end(backend: &impl Backend, options: Options) {
    let adapter = backend.build(options).unwrap();
    let kind = loop {
        let error = send(&adapter, put("/v1/kv/a", "")).unwrap_err();
        if error.kind() != TransportErrorKind::NotSent {
            break error.kind();
        }
    };
    assert_eq!(kind, TransportErrorKind::Misconfigured);
}

pub fn an_authority_of_the_users_own_is_trusted(backend: &impl Backend) {
    let (stranger, ours) = (Authority::new(), Authority::new());
    let server = start(&ours.certify(Names::loopback()), None);
    works(backend, trusting(&ours, &server));
    let several = Options {
        ca_cert: Some(stranger.pem() + &ours.pem()),
        ..Options::to(server.url())
    };
    works(backend, several);
}

pub fn an_unknown_authority_is_refused(backend: &impl Backend) {
    let (stranger, ours) = (Authority::new(), Authority::new());
    let server = start(&stranger.certify(Names::loopback()), None);
    is_misconfigured(backend, trusting(&ours, &server));
    // The platform does not trust it either.
    is_misconfigured(backend, Options::to(server.url()));
}

pub fn a_certificate_for_another_host_is_refused(backend: &impl Backend) {
    let ours = Authority::new();
    let server = start(&ours.certify(Names::dns("another.host")), None);
    is_misconfigured(backend, trusting(&ours, &server));
}

pub fn an_expired_certificate_is_refused(backend: &impl Backend) {
    let ours = Authority::new();
    let server = start(&ours.certify(Names::loopback().valid(2001, 2002)), None);
    is_misconfigured(backend, trusting(&ours, &server));
}

pub fn a_certificate_that_is_not_yet_valid_is_refused(backend: &impl Backend) {
    let ours = Authority::new();
    let server = start(&ours.certify(Names::loopback().valid(3001, 3002)), None);
    is_misconfigured(backend, trusting(&ours, &server));
}

pub fn a_certificate_without_any_name_is_refused(backend: &impl Backend) {
    let ours = Authority::new();
    let nameless = Names {
        names: Vec::new(),
        years: None,
    };
    let server = start(&ours.certify(nameless), None);
    is_misconfigured(backend, trusting(&ours, &server));
}

pub fn the_server_name_replaces_the_host_in_the_check(backend: &impl Backend) {
    let ours = Authority::new();
    let server = start(&ours.certify(Names::dns("server.dc1.consul")), None);
    let named = |name: &str| Options {
        tls_server_name: Some(name.to_owned()),
        ..trusting(&ours, &server)
    };
    works(backend, named("server.dc1.consul"));
    is_misconfigured(backend, named("server.dc2.consul"));
    for no_name in ["127.0.0.1", "", "a b", "user@host"] {
        let error = backend.build(named(no_name)).unwrap_err();
        assert_told(&*error, "the TLS server name is not a DNS name");
    }
}

pub fn a_client_certificate_is_shown_when_asked_for(backend: &impl Backend) {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let server = start(&ours.certify(Names::loopback()), Some(&theirs));
    let client = theirs.certify(Names::dns("client"));
    let options = Options {
        client_cert: Some((client.pem(), client.key_pem())),
        ..trusting(&ours, &server)
    };
    works(backend, options);
}

pub fn a_missing_client_certificate_is_a_misconfiguration(backend: &impl Backend) {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let server = start(&ours.certify(Names::loopback()), Some(&theirs));
    is_misconfigured_in_the_end(backend, trusting(&ours, &server));
}

pub fn a_client_certificate_that_has_expired_is_a_misconfiguration(backend: &impl Backend) {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let server = start(&ours.certify(Names::loopback()), Some(&theirs));
    let client = theirs.certify(Names::dns("client").valid(2001, 2002));
    let options = Options {
        client_cert: Some((client.pem(), client.key_pem())),
        ..trusting(&ours, &server)
    };
    is_misconfigured_in_the_end(backend, options);
}

pub fn a_client_certificate_of_a_stranger_is_a_misconfiguration(backend: &impl Backend) {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let server = start(&ours.certify(Names::loopback()), Some(&theirs));
    // With another name the authority is unknown. With the same name the signature is forged.
    for stranger in [Authority::named("stranger"), Authority::new()] {
        let client = stranger.certify(Names::dns("client"));
        let options = Options {
            client_cert: Some((client.pem(), client.key_pem())),
            ..trusting(&ours, &server)
        };
        is_misconfigured_in_the_end(backend, options);
    }
}

pub fn an_agent_that_speaks_no_tls_is_a_misconfiguration(backend: &impl Backend) {
    let server = Server::start(|connection| {
        // Consul gives this answer to the first bytes of a handshake.
        let _ = connection.write("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        connection.wait_for_close();
    });
    let url = server.url().replace("http://", "https://");
    let options = Options {
        ca_cert: Some(Authority::new().pem()),
        ..Options::to(url)
    };
    is_misconfigured(backend, options);
}

pub fn a_handshake_cut_short_was_not_applied(backend: &impl Backend) {
    let server = Server::start(|_| {});
    let url = server.url().replace("http://", "https://");
    let options = Options {
        ca_cert: Some(Authority::new().pem()),
        ..Options::to(url)
    };
    let adapter = backend.build(options).unwrap();
    let error = send(&adapter, put("/v1/kv/a", "")).unwrap_err();
    assert_eq!(error.kind(), TransportErrorKind::NotSent);
}

pub fn a_handshake_without_end_ends_with_the_timeout(backend: &impl Backend) {
    let server = Server::start(Connection::wait_for_close);
    let url = server.url().replace("http://", "https://");
    let options = Options {
        ca_cert: Some(Authority::new().pem()),
        ..Options::to(url)
    };
    let adapter = backend.build(options).unwrap();
    let request = put("/v1/kv/a", "").with_timeout(Duration::from_millis(150));
    let kind = send(&adapter, request).unwrap_err().kind();
    let ended = matches!(
        kind,
        TransportErrorKind::Timeout | TransportErrorKind::NotSent
    );
    assert!(ended, "{kind:?}");
}

pub fn an_encrypted_body_that_is_cut_is_a_bad_answer(backend: &impl Backend) {
    let ours = Authority::new();
    let agent = ours.certify(Names::loopback());
    for head in [
        "",
        "Content-Length: 9\r\n",
        "Transfer-Encoding: chunked\r\n",
    ] {
        // Closes without a TLS alert, as an attacker on the way could.
        let server = Server::start_tls(agent.server_config(None), move |connection| {
            connection.read();
            let _ = connection.write(format!("HTTP/1.1 200 OK\r\n{head}\r\n4\r\n[]"));
        });
        let adapter = backend.build(trusting(&ours, &server)).unwrap();
        let error = send(&adapter, get("/v1/kv/a")).expect_err(head);
        assert_eq!(error.kind(), TransportErrorKind::BadAnswer, "{head}");
    }
}

pub fn sequential_requests_share_a_tls_connection<B: Backend>(backend: &B) {
    let ours = Authority::new();
    let server = start(&ours.certify(Names::loopback()), None);
    let adapter = backend.build(trusting(&ours, &server)).unwrap();
    let requests = (0..10).flat_map(|_| [put("/v1/kv/a", ""), get("/v1/kv/a").as_long_poll()]);
    send_in_sequence(&adapter, requests.collect());
    // Polls have separate connections.
    assert!(server.connections() <= 2 * B::CONNECTIONS_OF_A_SEQUENCE);
}

pub fn dropping_the_future_closes_the_tls_connection(backend: &impl Backend) {
    let ours = Authority::new();
    let agent = ours.certify(Names::loopback());
    let (event, events) = mpsc::channel();
    let server = Server::start_tls(agent.server_config(None), move |connection| {
        connection.read();
        event.send("arrived").unwrap();
        connection.wait_for_close();
        event.send("closed").unwrap();
    });
    let adapter = backend.build(trusting(&ours, &server)).unwrap();
    let (abort, outcome) = send_in_background(&adapter, get("/v1/kv/a").as_long_poll());
    assert_eq!(events.recv().unwrap(), "arrived");
    abort.abort();
    assert_eq!(events.recv().unwrap(), "closed");
    assert_eq!(outcome.recv().unwrap(), Outcome::Dropped);
}

pub fn certificates_and_keys_that_are_none_are_refused_at_once(backend: &impl Backend) {
    let ours = Authority::new();
    let (one, other) = (
        ours.certify(Names::loopback()),
        ours.certify(Names::loopback()),
    );
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for ca_cert in ["", "not PEM", broken, &one.key_pem()] {
        let options = Options {
            ca_cert: Some(ca_cert.to_owned()),
            ..Options::to("https://127.0.0.1:8501")
        };
        let error = backend.build(options).unwrap_err();
        assert_told(&*error, "the CA certificates can't be used");
    }
    for client_cert in [
        (one.pem(), String::new()),
        (String::new(), one.key_pem()),
        (one.pem(), one.pem()),
        (one.pem(), other.key_pem()),
    ] {
        let options = Options {
            client_cert: Some(client_cert),
            ..Options::to("https://127.0.0.1:8501")
        };
        let error = backend.build(options).unwrap_err();
        assert_told(&*error, "the client certificate and its key can't be used");
    }
}

pub fn all_authorities_of_a_folder_are_trusted(backend: &impl Backend) {
    let (first, second) = (Authority::new(), Authority::new());
    let files = TempDir::new().unwrap();
    let (folder, below) = (files.path(), files.path().join("below"));
    fs::create_dir(&below).unwrap();
    // Some tools write no line end at the end of a file.
    fs::write(folder.join("first"), first.pem().trim_end()).unwrap();
    fs::write(below.join("second.pem"), second.pem()).unwrap();
    // Kubernetes mounts folders through links, and a link could lead back.
    std::os::unix::fs::symlink(folder, below.join("again")).unwrap();
    for authority in [&first, &second] {
        let server = start(&authority.certify(Names::loopback()), None);
        let options = Options {
            ca_path: Some(folder.to_owned()),
            ..Options::to(server.url())
        };
        works(backend, options);
    }
    let server = start(&first.certify(Names::loopback()), None);
    let one_file = Options {
        ca_path: Some(folder.join("first")),
        ..Options::to(server.url())
    };
    works(backend, one_file);
    let a_file_goes_first = Options {
        ca_path: Some(folder.to_owned()),
        ..trusting(&second, &server)
    };
    is_misconfigured(backend, a_file_goes_first);
}

pub fn a_file_of_the_folder_without_a_certificate_is_named(backend: &impl Backend) {
    let files = TempDir::new().unwrap();
    let folder = files.path();
    let refused = |named: &std::path::Path, reason: &str| {
        let options = Options {
            ca_path: Some(folder.to_owned()),
            ..Options::to("https://127.0.0.1:8501")
        };
        let error = backend.build(options).unwrap_err();
        let told = format!(
            "the file {:?} of ca_path can't be read",
            named.display().to_string()
        );
        assert_told(&*error, &told);
        assert_eq!(error.source().unwrap().to_string(), reason);
    };
    refused(folder, "there is no file in it");
    fs::write(folder.join("ours.pem"), Authority::new().pem()).unwrap();
    fs::write(folder.join("README"), "no certificate").unwrap();
    refused(&folder.join("README"), "there is no certificate in it");
}

pub fn any_certificate_is_taken_when_that_is_asked_for(backend: &impl Backend) {
    let stranger = Authority::new();
    let expired = Names::dns("another.host").valid(2001, 2002);
    for names in [Names::loopback(), expired] {
        let server = start(&stranger.certify(names), None);
        let unverified = |accept_any_certificate| Options {
            accept_any_certificate,
            ..trusting(&Authority::new(), &server)
        };
        works(backend, unverified(true));
        is_misconfigured(backend, unverified(false));
    }
}
