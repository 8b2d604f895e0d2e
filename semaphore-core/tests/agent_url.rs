//! The agent's address is read as the `consul` command reads it, and refused with a reason.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use semaphore_core::adapter::{
    AgentEnvironment, AgentUrl, BasicAuth, Files, InvalidEnvironment, InvalidUrl, Stamp,
};
use semaphore_core::{BuildError, Scope, TokenSource as _};

fn parse(text: &str) -> Result<AgentUrl, InvalidUrl> {
    text.parse()
}

#[test]
fn a_request_is_joined_to_the_address() {
    for (address, joined) in [
        ("http://127.0.0.1:8500", "http://127.0.0.1:8500/v1/kv/a?raw"),
        ("HTTPS://consul.local/", "https://consul.local/v1/kv/a?raw"),
        ("consul:8500", "http://consul:8500/v1/kv/a?raw"),
        ("http://[::1]:8500", "http://[::1]:8500/v1/kv/a?raw"),
        (
            "https://edge/consul/eu/",
            "https://edge/consul/eu/v1/kv/a?raw",
        ),
    ] {
        assert_eq!(parse(address).unwrap().join("/v1/kv/a?raw"), joined);
    }
}

#[test]
fn host_and_port_are_told_apart() {
    let parts = |text: &str| {
        let url = parse(text).unwrap();
        (url.is_https(), url.host().to_owned(), url.port())
    };
    assert_eq!(parts("consul"), (false, "consul".into(), 80));
    assert_eq!(parts("https://consul"), (true, "consul".into(), 443));
    assert_eq!(parts("http://[fd00::1]:85"), (false, "fd00::1".into(), 85));
}

#[test]
fn the_colons_of_an_ipv6_address_are_not_its_ports() {
    assert_eq!(parse("http://[::]:8500").unwrap().port(), 8500);
    assert_eq!(parse("http://[::]").unwrap().port(), 80);
}

#[test]
fn another_host_name_must_be_a_dns_name() {
    let url = || parse("https://127.0.0.1:8501/consul").unwrap();
    let named = url().with_host("server.dc1.consul").unwrap();
    assert_eq!(
        named.join("/v1"),
        "https://server.dc1.consul:8501/consul/v1"
    );
    for name in ["10.0.0.1", "::1", "[::1]", "a..b", ""] {
        assert_eq!(url().with_host(name), Err(InvalidUrl::Host), "{name}");
    }
}

#[test]
fn each_bad_address_has_its_own_reason() {
    for (address, reason) in [
        ("unix:/run/consul.sock", InvalidUrl::Port),
        ("unix://", InvalidUrl::Socket),
        ("unix:///run/con\nsul.sock", InvalidUrl::Socket),
        ("unixpacket:///run/consul.sock", InvalidUrl::Scheme),
        ("ftp://consul", InvalidUrl::Scheme),
        ("", InvalidUrl::Host),
        ("http://", InvalidUrl::Host),
        ("http://:8500", InvalidUrl::Host),
        ("http://a..b", InvalidUrl::Host),
        ("http://[::zz]:1", InvalidUrl::Host),
        ("http://[::1", InvalidUrl::Host),
        ("http://consul:", InvalidUrl::Port),
        ("http://consul:0", InvalidUrl::Port),
        ("http://consul:+80", InvalidUrl::Port),
        ("http://consul:65536", InvalidUrl::Port),
        ("http://user:secret@consul", InvalidUrl::Credentials),
        ("user@consul:8500", InvalidUrl::Credentials),
        ("http://consul/a/../b", InvalidUrl::Path),
        ("http://consul/a/%2E%2e/b", InvalidUrl::Path),
        ("http://consul//a", InvalidUrl::Path),
        ("http://consul/a\"b", InvalidUrl::Path),
        ("http://consul?dc=eu", InvalidUrl::Query),
        ("http://consul/#top", InvalidUrl::Fragment),
        ("http://con sul", InvalidUrl::Character),
        ("http://consul\r\nX: y", InvalidUrl::Character),
        ("http://cönsul", InvalidUrl::Character),
    ] {
        assert_eq!(parse(address), Err(reason), "{address:?}");
    }
}

#[test]
fn a_socket_of_the_file_system_is_a_path_without_a_host() {
    for (address, path) in [
        ("unix:///run/consul.sock", "/run/consul.sock"),
        ("UNIX:///run/my consul?/ü.sock", "/run/my consul?/ü.sock"),
        ("unix://consul.sock", "consul.sock"),
    ] {
        let url = parse(address).unwrap();
        assert_eq!(url.socket(), Some(path));
        assert_eq!(url.to_string(), format!("unix://{path}"));
        assert_eq!(url.join("/v1/kv/a?raw"), "http://localhost/v1/kv/a?raw");
        assert!(!url.is_https());
    }
    assert_eq!(parse("http://consul").unwrap().socket(), None);
    let of_len = |len: usize| parse(&format!("unix://{}", "s".repeat(len)));
    assert!(of_len(107).is_ok());
    assert_eq!(of_len(108), Err(InvalidUrl::Socket));
}

#[test]
fn tls_on_a_socket_is_refused() {
    let url = parse("unix:///run/consul.sock").unwrap();
    assert_eq!(url.clone().with_https(), Err(InvalidUrl::SocketOverTls));
    assert_eq!(url.with_host("consul"), Err(InvalidUrl::Host));
    let address = ("CONSUL_HTTP_ADDR", "unix:///run/consul.sock");
    let both = environment(&[address, ("CONSUL_HTTP_SSL", "true")]).unwrap_err();
    let reason = InvalidEnvironment::SslOnSocket(InvalidUrl::SocketOverTls);
    assert_eq!(both, reason);
    assert!(environment(&[address, ("CONSUL_HTTP_SSL", "false")]).is_ok());
}

#[test]
fn an_error_does_not_show_the_address() {
    let error = parse("http://user:secret@consul").unwrap_err();
    assert!(!format!("{error} {error:?}").contains("secret"));
}

fn environment(variables: &[(&str, &str)]) -> Result<AgentEnvironment, InvalidEnvironment> {
    AgentEnvironment::read(|name| lookup(variables, name))
}

fn lookup(variables: &[(&str, &str)], name: &str) -> Option<String> {
    let found = variables.iter().find(|(variable, _)| *variable == name);
    found.map(|(_, value)| (*value).to_owned())
}

#[test]
fn an_empty_environment_means_the_local_agent() {
    let found = environment(&[("CONSUL_HTTP_ADDR", "")]).unwrap();
    assert_eq!(found.url.to_string(), "http://127.0.0.1:8500");
    assert_eq!(found.ca_cert, None);
}

#[test]
fn ssl_wins_over_an_address_that_says_http() {
    for address in ["consul:8501", "http://consul:8501", "https://consul:8501"] {
        let found = environment(&[("CONSUL_HTTP_ADDR", address), ("CONSUL_HTTP_SSL", "true")]);
        assert_eq!(found.unwrap().url.to_string(), "https://consul:8501");
    }
    let off = environment(&[
        ("CONSUL_HTTP_ADDR", "https://consul"),
        ("CONSUL_HTTP_SSL", "0"),
    ]);
    assert!(off.unwrap().url.is_https());
}

#[test]
fn certificates_and_the_server_name_are_passed_on() {
    let found = environment(&[
        ("CONSUL_CACERT", "ca.pem"),
        ("CONSUL_CLIENT_CERT", "cert.pem"),
        ("CONSUL_CLIENT_KEY", "key.pem"),
        ("CONSUL_TLS_SERVER_NAME", "server.dc1.consul"),
    ])
    .unwrap();
    assert_eq!(found.ca_cert.as_deref(), Some("ca.pem"));
    assert_eq!(found.client_cert.as_deref(), Some("cert.pem"));
    assert_eq!(found.client_key.as_deref(), Some("key.pem"));
    assert_eq!(found.tls_server_name.as_deref(), Some("server.dc1.consul"));
}

#[test]
fn namespace_and_partition_are_what_requests_name() {
    let found = environment(&[
        ("CONSUL_NAMESPACE", "team"),
        ("CONSUL_PARTITION", "billing"),
    ]);
    let named = Scope::new().with_namespace("team").unwrap();
    let named = named.with_partition("billing").unwrap();
    assert_eq!(found.unwrap().scope, named);
    assert_eq!(environment(&[]).unwrap().scope, Scope::new());
    let bad = environment(&[("CONSUL_NAMESPACE", "team\n")]).unwrap_err();
    assert!(bad.to_string().contains("CONSUL_NAMESPACE"), "{bad}");
}

#[test]
fn a_user_and_a_password_are_read_and_not_shown() {
    let found = environment(&[("CONSUL_HTTP_AUTH", "user:s3c:ret")]).unwrap();
    assert_eq!(found.basic_auth, BasicAuth::new("user", "s3c:ret").ok());
    assert!(!format!("{found:?}").contains("ret"));
    assert_eq!(environment(&[]).unwrap().basic_auth, None);
    let refused = environment(&[("CONSUL_HTTP_AUTH", "user:s3c\nret")]).unwrap_err();
    assert!(matches!(refused, InvalidEnvironment::Auth(_)));
    let told = format!("{refused} {refused:?}");
    assert!(told.contains("CONSUL_HTTP_AUTH") && !told.contains("s3c"));
}

#[test]
fn certificates_are_verified_unless_the_environment_says_that_they_are_not() {
    let verifies = |value| environment(&[("CONSUL_HTTP_SSL_VERIFY", value)]).map(|it| it.verifies);
    for (value, expected) in [("", true), ("True", true), ("false", false), ("0", false)] {
        assert_eq!(verifies(value), Ok(expected), "{value:?}");
    }
    for misspelt in ["flase", "no", "FaLsE", " false"] {
        assert_eq!(verifies(misspelt), Err(InvalidEnvironment::SslVerify));
    }
}

#[test]
fn a_folder_of_authorities_is_passed_on_and_variables_for_others_are_left_alone() {
    let found = environment(&[("CONSUL_CAPATH", "certs"), ("CONSUL_GRPC_CAPATH", "x")]);
    assert_eq!(found.unwrap().ca_path.as_deref(), Some("certs"));
}

#[test]
fn the_server_name_loses_its_port() {
    let name = |text| environment(&[("CONSUL_TLS_SERVER_NAME", text)]).map(|it| it.tls_server_name);
    for text in ["server.dc1.consul", "server.dc1.consul:8501"] {
        assert_eq!(name(text).unwrap().as_deref(), Some("server.dc1.consul"));
    }
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_not_unicode_is_named_and_not_shown() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;
    let broken = |named: &'static str| {
        move |name: &str| (name == named).then(|| OsString::from_vec(b"sec\xff".to_vec()))
    };
    for variable in ["CONSUL_HTTP_ADDR", "CONSUL_CACERT", "CONSUL_HTTP_AUTH"] {
        let refused = AgentEnvironment::read(broken(variable)).unwrap_err();
        assert_eq!(refused, InvalidEnvironment::NotUnicode { variable });
    }
    let refused = AgentEnvironment::tokens(broken("CONSUL_HTTP_TOKEN"), Paths).unwrap_err();
    let told = format!("{refused} {refused:?}");
    assert!(told.contains("CONSUL_HTTP_TOKEN") && !told.contains("sec"));
}

#[test]
fn a_variable_that_makes_no_sense_is_named() {
    let address = environment(&[("CONSUL_HTTP_ADDR", "ftp://consul")]).unwrap_err();
    assert_eq!(address, InvalidEnvironment::Address(InvalidUrl::Scheme));
    let ssl = environment(&[("CONSUL_HTTP_SSL", "maybe")]).unwrap_err();
    assert_eq!(ssl, InvalidEnvironment::Ssl);
    let token = [("CONSUL_HTTP_TOKEN", "sec\nret")];
    let token = AgentEnvironment::tokens(|name| lookup(&token, name), Paths).unwrap_err();
    assert!(matches!(
        token,
        BuildError::Environment(InvalidEnvironment::Token(_))
    ));
    assert!(!format!("{token} {token:?}").contains("sec"));
}

#[test]
fn certificates_are_read_from_the_files_and_a_missing_one_is_named() {
    let certificates = |variables| environment(variables).unwrap().certificates(files);
    let whole = certificates(&[
        ("CONSUL_CACERT", "ca.pem"),
        ("CONSUL_CLIENT_CERT", "cert.pem"),
        ("CONSUL_CLIENT_KEY", "key.pem"),
    ])
    .unwrap();
    assert_eq!(whole.authorities.as_deref(), Some(b"<ca.pem>".as_slice()));
    let client = (b"<cert.pem>".to_vec(), b"<key.pem>".to_vec());
    assert_eq!(
        format!("{whole:?}"),
        "Certificates { authorities: true, client: true }"
    );
    assert_eq!(whole.client, Some(client));

    let half = certificates(&[("CONSUL_CLIENT_KEY", "key.pem")]);
    assert!(matches!(half, Err(BuildError::ClientCertificateIncomplete)));
    match certificates(&[("CONSUL_CACERT", "missing")]) {
        Err(BuildError::File { variable, path, .. }) => {
            assert_eq!((variable, path.as_str()), ("CONSUL_CACERT", "missing"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_token_is_that_of_its_file_and_else_that_of_the_variable() {
    let read = |variables: &[(&str, &str)]| {
        let source = AgentEnvironment::tokens(|name| lookup(variables, name), Paths)?;
        let token = source.and_then(|source| source.token());
        Ok(token.map(|token| token.reveal().to_owned()))
    };
    let variable = ("CONSUL_HTTP_TOKEN", "secret");
    let file = |path| ("CONSUL_HTTP_TOKEN_FILE", path);
    assert_eq!(read(&[]).unwrap(), None);
    assert_eq!(read(&[file("")]).unwrap(), None);
    assert_eq!(read(&[file("empty")]).unwrap(), None);
    assert_eq!(read(&[variable]).unwrap().as_deref(), Some("secret"));
    let both = read(&[variable, file("token")]).unwrap();
    assert_eq!(both.as_deref(), Some("<token>"));
    let empty = read(&[variable, file("empty")]).unwrap();
    assert_eq!(empty.as_deref(), Some("secret"));
    for unusable in ["missing", "two words"] {
        let refused: Result<Option<String>, BuildError> = read(&[variable, file(unusable)]);
        match refused {
            Err(BuildError::File { variable, path, .. }) => {
                assert_eq!(variable, "CONSUL_HTTP_TOKEN_FILE");
                assert_eq!(path, unusable);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The content of each file is its own path.
fn files(path: &str) -> io::Result<Vec<u8>> {
    match path {
        "missing" => Err(io::ErrorKind::NotFound.into()),
        "empty" => Ok(b"\n".to_vec()),
        path => Ok(format!("<{path}>").into_bytes()),
    }
}

/// The same files, for what follows them.
struct Paths;

impl Files for Paths {
    fn stamp(&self, path: &Path) -> Option<Stamp> {
        (path != Path::new("missing")).then_some((Duration::ZERO, 0))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        files(&path.to_string_lossy())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(vec![path.to_owned()])
    }
}
