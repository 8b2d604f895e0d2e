//! A process can't safely change its environment while threads run. So each test runs itself again
//! in a child with another environment.

use std::env;
use std::process::Command;
use std::thread;

use semaphore_core::adapter::{InvalidEnvironment, InvalidUrl};
use tempfile::TempDir;

use crate::server::Server;
use crate::tls::{Authority, Names};
use crate::{Backend, assert_told, chain, get, send};

const CHILD: &str = "TRANSPORT_CONFORMANCE_CHILD";

/// Runs the calling test again in a child process with these variables. Fails if it fails there.
pub(crate) fn in_child(variables: &[(&str, &str)]) {
    let name = thread::current()
        .name()
        .expect("a test's thread")
        .to_owned();
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--nocapture", &name])
        .envs(variables.iter().copied())
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

pub(crate) fn is_child() -> bool {
    env::var_os(CHILD).is_some()
}

fn write(folder: &TempDir, name: &str, content: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    path.into_os_string().into_string().unwrap()
}

pub fn the_variables_of_the_consul_command_are_read(backend: &impl Backend) {
    if is_child() {
        let answer = send(&backend.build_from_env().unwrap(), get("/v1/a")).unwrap();
        return assert_eq!(answer.body(), b"/prefix/v1/a");
    }
    let ours = Authority::new();
    let theirs = Authority::new();
    let agent = ours.certify(Names::dns("server.dc1.consul"));
    let client = theirs.certify(Names::dns("client"));
    let server = Server::start_tls(agent.server_config(Some(&theirs)), |connection| {
        while let Some(request) = connection.read() {
            connection.answer(200, &request.target);
        }
    });
    let files = TempDir::new().unwrap();
    let address = server.url().replace("https://", "http://") + "/prefix";
    in_child(&[
        ("CONSUL_HTTP_ADDR", &address),
        ("CONSUL_HTTP_SSL", "true"),
        ("CONSUL_CACERT", &write(&files, "ca.pem", &ours.pem())),
        (
            "CONSUL_CLIENT_CERT",
            &write(&files, "cert.pem", &client.pem()),
        ),
        (
            "CONSUL_CLIENT_KEY",
            &write(&files, "key.pem", &client.key_pem()),
        ),
        ("CONSUL_TLS_SERVER_NAME", "server.dc1.consul"),
    ]);
    assert!(server.connections() > 0);
}

pub fn a_missing_file_is_named_with_its_variable(backend: &impl Backend) {
    if is_child() {
        let error = backend.build_from_env().unwrap_err();
        let told = "the file \"no/such/file\" of CONSUL_CACERT can't be read";
        assert_told(&*error, told);
        let source = error.source().and_then(|source| source.downcast_ref());
        let source: &std::io::Error = source.unwrap();
        return assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
    }
    in_child(&[("CONSUL_CACERT", "no/such/file")]);
}

pub fn a_certificate_without_its_key_is_refused(backend: &impl Backend) {
    if is_child() {
        let error = backend.build_from_env().unwrap_err();
        return assert_eq!(
            error.to_string(),
            "CONSUL_CLIENT_CERT and CONSUL_CLIENT_KEY must be set together"
        );
    }
    in_child(&[("CONSUL_CLIENT_CERT", "cert.pem")]);
    in_child(&[("CONSUL_CLIENT_KEY", "key.pem")]);
}

pub fn an_address_that_is_none_is_refused(backend: &impl Backend) {
    if is_child() {
        let error = backend.build_from_env().unwrap_err();
        let source = error.source().and_then(|source| source.downcast_ref());
        let reason = InvalidEnvironment::Address(InvalidUrl::Credentials);
        assert_eq!(source, Some(&reason));
        return assert!(!chain(&*error).contains("secret"));
    }
    in_child(&[("CONSUL_HTTP_ADDR", "http://user:secret@127.0.0.1:8500")]);
}

pub fn a_socket_and_a_password_of_the_environment_are_used(backend: &impl Backend) {
    if is_child() {
        let adapter = backend.build_from_env().unwrap();
        let answer = send(&adapter, get("/v1/a")).unwrap();
        assert_eq!(answer.body(), b"/v1/a Basic dXNlcjpwYXNzOndvcmQ=");
        return assert!(!format!("{adapter:?}").contains("word"));
    }
    let files = TempDir::new().unwrap();
    let server = Server::start_on_socket(files.path().join("consul.sock"), |connection| {
        while let Some(request) = connection.read() {
            let sent = request.header("authorization").unwrap_or_default();
            connection.answer(200, &format!("{} {sent}", request.target));
        }
    });
    in_child(&[
        ("CONSUL_HTTP_ADDR", &server.url()),
        ("CONSUL_HTTP_AUTH", "user:pass:word"),
    ]);
    assert_eq!(server.connections(), 1);
}

pub fn a_folder_of_authorities_is_trusted_and_https_stays(backend: &impl Backend) {
    if is_child() {
        let answer = send(&backend.build_from_env().unwrap(), get("/v1/a")).unwrap();
        return assert_eq!(answer.body(), b"true");
    }
    let (ours, stranger) = (Authority::new(), Authority::new());
    let server = trusted_by(&ours);
    let files = TempDir::new().unwrap();
    write(&files, "stranger.pem", &stranger.pem());
    write(&files, "ours.crt", &ours.pem());
    let folder = files.path().to_str().unwrap();
    in_child(&[
        ("CONSUL_HTTP_ADDR", &server.url()),
        ("CONSUL_HTTP_SSL", "false"),
        ("CONSUL_CAPATH", folder),
    ]);
    // A file takes precedence over the folder.
    in_child(&[
        ("CONSUL_HTTP_ADDR", &server.url()),
        ("CONSUL_CACERT", &write(&files, "ca.pem", &ours.pem())),
        ("CONSUL_CAPATH", "no/such/folder"),
    ]);
}

pub fn a_certificate_is_not_verified_when_the_environment_says_so(backend: &impl Backend) {
    if is_child() {
        let answer = send(&backend.build_from_env().unwrap(), get("/v1/a")).unwrap();
        return assert_eq!(answer.body(), b"true");
    }
    let server = trusted_by(&Authority::new());
    in_child(&[
        ("CONSUL_HTTP_ADDR", &server.url()),
        ("CONSUL_HTTP_SSL_VERIFY", "false"),
    ]);
}

pub fn a_misspelt_word_does_not_turn_verification_off(backend: &impl Backend) {
    if is_child() {
        let error = backend.build_from_env().unwrap_err();
        let source = error.source().and_then(|source| source.downcast_ref());
        return assert_eq!(source, Some(&InvalidEnvironment::SslVerify));
    }
    in_child(&[
        ("CONSUL_HTTP_ADDR", "https://127.0.0.1:8501"),
        ("CONSUL_HTTP_SSL_VERIFY", "flase"),
    ]);
}

fn trusted_by(authority: &Authority) -> Server {
    let agent = authority.certify(Names::loopback());
    Server::start_tls(agent.server_config(None), |connection| {
        connection.answer_all(200, "true");
    })
}

pub fn a_proxy_of_the_environment_is_not_used(backend: &impl Backend) {
    if is_child() {
        let answer = send(&backend.build_from_env().unwrap(), get("/v1/a")).unwrap();
        return assert_eq!(answer.body(), b"straight");
    }
    let server = Server::start(|connection| connection.answer_all(200, "straight"));
    let proxy = Server::start(|connection| connection.answer_all(200, "through a proxy"));
    in_child(&[
        ("CONSUL_HTTP_ADDR", &server.url()),
        ("HTTP_PROXY", &proxy.url()),
        ("http_proxy", &proxy.url()),
        ("ALL_PROXY", &proxy.url()),
        ("all_proxy", &proxy.url()),
        ("NO_PROXY", ""),
        ("no_proxy", ""),
    ]);
    assert_eq!(proxy.connections(), 0);
}
