//! The real agent, over plain HTTP: no client library that would clean a path, follow a redirect
//! or hide a header.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use real_agent::Agent;
use semaphore_core::{Method, Request, Response, Token};
use serde_json::{Value, json};
use transport_mock::consul::Access;

use crate::run::Backend;
use crate::script::{Lever, Rule, secret};

/// How long an answer may take that is due at once.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a query that must not wake is given to do so.
const QUIET: Duration = Duration::from_millis(60);

pub(crate) struct Real {
    address: SocketAddr,
    queries: BTreeMap<&'static str, TcpStream>,
    management_token: Option<Token>,
}

impl Real {
    pub(crate) fn new(agent: &Agent) -> Self {
        Self {
            address: agent.addr(),
            queries: BTreeMap::new(),
            management_token: None,
        }
    }

    /// One with access control, where this token may do everything.
    pub(crate) fn with_acl(agent: &Agent, management_token: &str) -> Self {
        Self {
            management_token: Some(Token::new(management_token).unwrap()),
            ..Self::new(agent)
        }
    }

    fn operate(&mut self, path: &str, body: &Value) {
        let request = Request::new(Method::Put, format!("/v1/{path}"))
            .with_token(self.management_token.clone())
            .with_body(body.to_string());
        let response = self.send(&request);
        assert_eq!(
            response.status(),
            200,
            "{}",
            String::from_utf8_lossy(response.body())
        );
    }
}

impl Backend for Real {
    fn send(&mut self, request: &Request) -> Response {
        exchange(self.address, request)
    }

    /// A query that must not wake has to be there before the write that follows: hence the pause.
    fn start(&mut self, name: &'static str, request: &Request) {
        let stream = connect(self.address);
        send(&stream, request).expect("the agent takes a query");
        thread::sleep(QUIET);
        self.queries.insert(name, stream);
    }

    fn answered(&mut self, name: &'static str) -> Option<Response> {
        let stream = &self.queries[name];
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.peek(&mut [0]).ok()?;
        read_response(&mut BufReader::new(stream))
    }

    fn still_waits(&mut self, name: &'static str) -> bool {
        let stream = &self.queries[name];
        stream.set_read_timeout(Some(QUIET)).unwrap();
        stream.peek(&mut [0]).is_err()
    }

    fn wait_ends(&mut self, name: &'static str) -> Response {
        self.answered(name).expect("the wait ends")
    }

    fn pass(&mut self, time: Duration) {
        thread::sleep(time);
    }

    fn lever(&mut self, lever: &Lever, prefix: &str) {
        let name = |node| format!("{prefix}-{node}");
        let check = |node, check: &str, status: &str| {
            json!({
                "Node": name(node),
                "Address": "127.0.0.1",
                "Check": { "CheckID": check, "Name": check, "Status": status },
            })
        };
        match lever {
            Lever::RegisterNode(node) => {
                self.operate("catalog/register", &check(node, "serfHealth", "passing"));
            }
            Lever::DeregisterNode(node) => {
                self.operate("catalog/deregister", &json!({ "Node": name(node) }));
            }
            Lever::PassCheck(node, id) => {
                self.operate("catalog/register", &check(node, id, "passing"));
            }
            Lever::FailCheck(node, id) => {
                self.operate("catalog/register", &check(node, id, "critical"));
            }
            Lever::RemoveCheck(node, id) => {
                let body = json!({ "Node": name(node), "CheckID": id });
                self.operate("catalog/deregister", &body);
            }
            Lever::AddToken(name, rules) => {
                let policy = format!("{prefix}-{name}");
                let body = json!({ "Name": policy, "Rules": policy_of(prefix, rules) });
                self.operate("acl/policy", &body);
                let body = json!({
                    "SecretID": secret(prefix, name),
                    "Policies": [{ "Name": policy }],
                });
                self.operate("acl/token", &body);
            }
        }
    }
}

/// Sends one request on a connection of its own and reads its whole answer.
fn exchange(address: SocketAddr, request: &Request) -> Response {
    let stream = connect(address);
    thread::scope(|scope| {
        // The agent answers and closes before it has read all of a body that is too large, so that
        // sending may fail and the answer has to be read meanwhile.
        scope.spawn(|| send(&stream, request));
        let response = read_response(&mut BufReader::new(&stream));
        response.unwrap_or_else(|| panic!("no answer to {request:?}"))
    })
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the agent listens");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn send(mut stream: &TcpStream, request: &Request) -> io::Result<()> {
    let mut head = format!(
        "{} {} HTTP/1.1\r\nHost: consul\r\nConnection: close\r\nContent-Length: {}\r\n",
        request.method(),
        request.target(),
        request.body().len()
    );
    for (name, value) in request.headers() {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(request.body())
}

fn read_response(reader: &mut impl BufRead) -> Option<Response> {
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).expect("an answer");
        line.trim_end().to_owned()
    };
    let status = line();
    let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
    let mut headers = Vec::new();
    loop {
        let header = line();
        match header.split_once(": ") {
            Some((name, value)) => headers.push((name.to_owned(), value.to_owned())),
            None => break,
        }
    }
    let find = |name: &str| {
        headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    };
    let mut body = Vec::new();
    if find("Transfer-Encoding") == Some("chunked") {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size).unwrap();
            let size = usize::from_str_radix(size.trim_end(), 16).unwrap();
            let mut chunk = vec![0; size + 2];
            reader.read_exact(&mut chunk).unwrap();
            if size == 0 {
                break;
            }
            body.extend_from_slice(&chunk[..size]);
        }
    } else if let Some(length) = find("Content-Length") {
        body.resize(length.parse().unwrap(), 0);
        reader.read_exact(&mut body).unwrap();
    } else {
        reader.read_to_end(&mut body).unwrap();
    }
    let mut response = Response::new(status?, body);
    for (name, value) in headers {
        response = response.with_header(name, value);
    }
    Some(response)
}

fn policy_of(prefix: &str, rules: &[Rule]) -> String {
    let rule = |kind: &str, name: &str, access: Access| {
        let access = match access {
            Access::Deny => "deny",
            Access::Read => "read",
            Access::Write => "write",
        };
        format!("{kind} \"{name}\" {{ policy = \"{access}\" }}\n")
    };
    let rules = rules.iter().map(|described| match described {
        Rule::Key(key, access) => rule("key", &format!("{prefix}{key}"), *access),
        Rule::KeyPrefix(key, access) => rule("key_prefix", &format!("{prefix}{key}"), *access),
        Rule::Sessions(access) => rule("session_prefix", "", *access),
    });
    rules.collect()
}
