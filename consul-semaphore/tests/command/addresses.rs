//! Consul's flags for the agent: TLS, a socket, a token from a file.

use std::fs;

use rcgen::{CertificateParams, KeyPair};
use real_agent::Agent;
use tempfile::TempDir;

use crate::support::{closed_port, program, run, run_with};

#[test]
fn over_tls_it_trusts_whom_it_is_told_to_trust_and_nobody_else() {
    let key = KeyPair::generate().expect("a key");
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let params = CertificateParams::new(names).expect("names");
    let certificate = params.self_signed(&key).expect("a certificate");
    let agent = Agent::builder()
        .tls(certificate.pem(), key.serialize_pem())
        .start()
        .expect("an agent");
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("ca.pem");
    fs::write(&file, certificate.pem()).expect("a file");
    let url = format!("https://{}", agent.https_addr());

    let checked = run(&url, &["check", "--no-clock"]);
    assert_eq!(checked.code, Some(11), "{checked:?}");
    let trusting = format!("-ca-file={}", file.display());
    let checked = run(&url, &["check", "--no-clock", &trusting]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let ran = run(&url, &["run", &trusting, "p", "--", "sh", "-c", "exit 3"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
}

#[test]
fn a_socket_of_the_file_system_is_an_address_too() {
    let agent = Agent::builder().socket().start().expect("an agent");
    let nowhere = closed_port();
    let address = agent.socket_url();
    let arguments = [
        "run",
        "-http-addr",
        &address,
        "p",
        "--",
        "sh",
        "-c",
        "exit 3",
    ];
    let ran = run(&nowhere, &arguments);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    agent.assert_nothing_left("p");
}

#[test]
fn a_token_comes_from_a_file() {
    let token = "11111111-2222-3333-4444-555555555555";
    let agent = Agent::builder().acl(token).start().expect("an agent");
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("token");
    fs::write(&file, format!("{token}\n")).expect("a file");
    let shown = file.to_string_lossy();
    let arguments = [
        "run",
        "-token-file",
        &shown,
        "p",
        "--",
        "sh",
        "-c",
        "exit 3",
    ];
    let ran = run(&agent.url(), &arguments);
    assert_eq!(ran.code, Some(3), "{ran:?}");
}

#[test]
fn what_a_flag_says_is_called_by_the_flag_and_what_a_variable_says_by_the_variable() {
    let nowhere = closed_port();
    let flags = [
        ("--token-file", "CONSUL_HTTP_TOKEN_FILE", "/no/such/file"),
        ("--ca-file", "CONSUL_CACERT", "/no/such/file"),
        ("--ca-path", "CONSUL_CAPATH", "/no/such/file"),
        ("--http-addr", "CONSUL_HTTP_ADDR", "ftp://a"),
        ("--namespace", "CONSUL_NAMESPACE", "a\nb"),
    ];
    for (flag, variable, value) in flags {
        let by_flag = run(&nowhere, &["run", flag, value, "p", "--", "true"]);
        assert_eq!(by_flag.code, Some(125), "{by_flag:?}");
        assert!(!by_flag.stderr.contains("CONSUL_"), "{by_flag:?}");
        assert!(by_flag.stderr.contains(flag), "{by_flag:?}");
        let mut by_variable = program(&nowhere, &["run", "p", "--", "true"]);
        by_variable.env(variable, value);
        run_with(by_variable, "").assert(125, variable);
    }
}

/// Each way in which a subcommand reaches Consul, and those of `consul lock`.
#[test]
fn every_subcommand_sends_the_token_of_the_environment() {
    let token = "11111111-2222-3333-4444-555555555555";
    let agent = Agent::builder().acl(token).start().expect("an agent");
    let url = agent.url();
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("token");
    fs::write(&file, format!("{token}\n")).expect("a file");
    for (line, code) in [
        ("check --no-clock p", 0),
        ("run p -- true", 0),
        ("run --permits 2 -n 2 q -- true", 0),
        ("elect run k -- true", 0),
        ("--like-consul-lock l true", 0),
        ("status p", 0),
        ("elect status k", 1),
        ("list --json p", 0),
        ("resize --yes p 3", 0),
        ("destroy --yes p", 0),
    ] {
        let arguments: Vec<_> = line.split(' ').collect();
        let mut command = program(&url, &arguments);
        command.env("CONSUL_HTTP_TOKEN_FILE", &file);
        let ran = run_with(command, "");
        assert_eq!(ran.code, Some(code), "{line}: {ran:?}");
    }
}

#[test]
fn a_token_of_a_flag_replaces_that_of_the_environment_whatever_that_is() {
    let token = "11111111-2222-3333-4444-555555555555";
    let agent = Agent::builder().acl(token).start().expect("an agent");
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("token");
    fs::write(&file, token).expect("a file");
    let shown = file.to_string_lossy();
    let url = agent.url();
    let arguments = ["run", "-token-file", &shown, "p", "--", "true"];
    for variable in [
        ("CONSUL_HTTP_TOKEN_FILE", "/no/such/file"),
        ("CONSUL_HTTP_TOKEN", "another"),
    ] {
        let mut command = program(&url, &arguments);
        command.env(variable.0, variable.1);
        let ran = run_with(command, "");
        assert_eq!(ran.code, Some(0), "{variable:?}: {ran:?}");
    }
    let mut command = program(&url, &["status", "p"]);
    command.env("CONSUL_HTTP_TOKEN_FILE", "/no/such/file");
    run_with(command, "").assert(125, "CONSUL_HTTP_TOKEN_FILE can't be read");
}

#[test]
fn an_agent_that_never_answers_is_told_to_whoever_waits_without_end() {
    let nowhere = closed_port();
    run(&nowhere, &["run", "p", "--", "true"]).assert(121, "has not answered for 1");
}
