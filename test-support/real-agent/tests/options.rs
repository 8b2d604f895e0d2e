//! Agents with special options.

// Helpers are part of the tests.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpStream;

use real_agent::{Agent, Client};

const TOKEN: &str = "6f2f5c34-8c1d-4b5e-9f5e-1f6b0a7c9d11";

#[test]
fn an_agent_with_acls_serves_its_management_token_alone() {
    let agent = Agent::builder().acl(TOKEN).start().unwrap();
    let write = |client: Client| client.put("/v1/kv/key", b"value").unwrap();
    let refused = write(Client::new(agent.url()));
    // Newer agents also say who lacks which permission.
    let (status, text) = (refused.status, refused.text());
    assert!(
        status == 403 && text.starts_with("Permission denied"),
        "{text}"
    );
    assert!(write(agent.client()).is_true());
    assert!(agent.client().create_session("{}").is_ok());
}

#[test]
fn extra_configuration_is_applied_in_json_and_in_hcl() {
    let agent = Agent::builder()
        .node("node-with-a-name")
        .config(r#"{ "session_ttl_min": "2s" }"#)
        .config("session_ttl_min = \"1s\"")
        .start()
        .unwrap();
    assert_eq!(agent.node(), "node-with-a-name");
    assert!(agent.client().create_session(r#"{"TTL":"1s"}"#).is_ok());
}

#[test]
fn a_limit_on_connections_refuses_the_next_one() {
    let agent = Agent::builder()
        .config("limits { http_max_conns_per_client = 1 }")
        .start()
        .unwrap();
    let _first = served(&agent);
    let mut second = TcpStream::connect(agent.addr()).unwrap();
    // Older versions close the connection. Newer ones answer 429 first.
    let mut answer = Vec::new();
    let read = second.read_to_end(&mut answer);
    assert!(read.is_err() || answer.is_empty() || answer.starts_with(b"HTTP/1.1 429"));
}

#[test]
fn an_agent_with_a_certificate_speaks_tls_beside_plain_http() {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let agent = Agent::builder()
        .tls(made.cert.pem(), made.signing_key.serialize_pem())
        .start()
        .unwrap();
    assert_eq!(agent.client().get("/v1/status/leader").unwrap().status, 200);

    // Go's TLS servers give this answer to plain HTTP.
    let plain = Client::new(format!("http://{}", agent.https_addr()));
    let answer = plain.get("/v1/status/leader").unwrap();
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("HTTPS"), "{}", answer.text());
}

/// A connection that is kept open and that the agent has answered on. At first the agent may still
/// count its own connections from its start, and refuse.
fn served(agent: &Agent) -> TcpStream {
    loop {
        let mut connection = TcpStream::connect(agent.addr()).unwrap();
        let mut status = [0; 12];
        let asked = connection.write_all(b"GET /v1/status/leader HTTP/1.1\r\nHost: consul\r\n\r\n");
        if asked.is_ok() && connection.read_exact(&mut status).is_ok() && status.ends_with(b"200") {
            return connection;
        }
    }
}
