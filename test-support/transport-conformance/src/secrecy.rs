//! Token and password appear nowhere: in no line of any log, no `Debug`, no error.
//!
//! These tests collect what the whole process logs, so each needs its own process: an adapter calls
//! them in a separate test file, not through [`tests!`](crate::tests).

use std::fmt::{Debug, Write as _};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use semaphore_core::adapter::{AgentEnvironment, BlockOn, Files, Request, Stamp, Transport};
use semaphore_core::manage::{Destroy, DiscoverLeader, Inspect, Operation, Resize, Verify};
use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::{Follow, Participant, Settings};
use semaphore_core::{Discovery, LockKey, Prefix, Scope, Semaphore, Token};
use transport_mock::LoopbackConsul;
use transport_mock::consul::{Access, Consul, Policy};

use crate::logs::Logs;
use crate::secret::{SECRET, assert_hidden};
use crate::server::Server;
use crate::tls::{Authority, Names};
use crate::{Backend, Options, chain, get, put, run, send};

/// Runs whole lives of semaphores, and every way in which a request can fail.
///
/// `client` is a log target that the HTTP client is known to use. So missing logs don't pass for
/// secrecy.
pub fn no_token_is_logged_or_shown<B: Backend>(backend: &B, client: &str) {
    let logs = Logs::collect();
    let mut shown = Shown::default();

    let consul = LoopbackConsul::start().unwrap();
    consul.consul(|consul, _| guard(consul));
    shown.debug(&consul);
    shown.semaphores(&backend.to(consul.url()));
    answered(backend, &mut shown);
    failed(backend, &mut shown);
    encrypted(backend, &mut shown);
    replaced(backend, &mut shown);

    let lines = logs.take();
    // A client that verifies no certificates logs a warning.
    assert!(lines.contains(" WARN transport_"), "no warning");
    assert!(lines.contains("any certificate is taken for the agent's"));
    for target in [client, "semaphore_core"] {
        assert!(
            lines.contains(&format!(" TRACE {target}")),
            "{target} logged nothing"
        );
    }
    let told = " WARN semaphore_core::reloaded: what was in the files before stays in use";
    assert!(
        lines.contains(told),
        "files that can't be used are not told"
    );
    assert_hidden(&lines);
    assert_hidden(&shown.0);
}

/// Makes the server know the token and deny everyone else.
pub fn guard(consul: &mut Consul) {
    consul.set_acl_default_deny();
    let policy = Policy::new()
        .with_session_prefix("", Access::Write)
        .with_key_prefix("service/", Access::Write);
    consul.add_token(SECRET, policy);
}

fn scope() -> Scope {
    Scope::new().with_token(Token::new(SECRET).unwrap())
}

/// Everything that a user could print.
#[derive(Default)]
pub struct Shown(pub String);

impl Shown {
    pub fn debug(&mut self, value: impl Debug) {
        let _ = writeln!(self.0, "{value:?}\n{value:#?}");
    }

    pub fn error(&mut self, error: &(dyn std::error::Error + 'static)) {
        self.0 += &chain(error);
        self.debug(error);
    }

    fn result<T: Debug, E: std::error::Error + 'static>(&mut self, result: &Result<T, E>) {
        match result {
            Ok(value) => self.debug(value),
            Err(error) => self.error(error),
        }
    }

    /// Uses semaphores with the token, and collects their errors when it is refused.
    pub fn semaphores<A>(&mut self, adapter: &A)
    where
        A: Transport + BlockOn + Clone + Debug + 'static,
    {
        self.debug(adapter);
        let builder = |prefix: &str| Semaphore::builder(prefix, 2).token(SECRET);
        self.debug(builder("service/db"));
        let semaphore = builder("service/db").connect(adapter.clone()).unwrap();
        self.debug(&semaphore);
        let permit = run(adapter, semaphore.acquire()).unwrap();
        self.debug((&permit, permit.sequencers()));
        let other = run(adapter, semaphore.try_acquire()).unwrap().unwrap();
        let patience = Duration::from_millis(10);
        self.result(&run(adapter, semaphore.acquire_timeout(patience)));
        self.result(&run(adapter, semaphore.inspect()));
        let sequencer = &permit.sequencers()[0];
        self.result(&run(adapter, semaphore.verify(sequencer)));
        self.debug(Operation::new(Verify::new(sequencer.clone(), scope()), 1));
        self.result(&run(adapter, semaphore.resize(3)));
        self.result(&run(adapter, semaphore.resize(2)));
        self.result(&run(adapter, semaphore.destroy()));
        self.result(&run(adapter, permit.release()));
        drop(other);
        run(adapter, semaphore.shutdown());
        self.result(&run(adapter, semaphore.acquire()));

        // These fail: another limit, a prefix that the token may not touch, and a token that can't
        // be sent.
        let conflicting = Semaphore::builder("service/db", 9).token(SECRET);
        let conflicting = conflicting.connect_blocking(adapter.clone()).unwrap();
        self.debug(&conflicting);
        self.result(&conflicting.acquire());
        let denied = builder("secret").connect(adapter.clone()).unwrap();
        self.result(&run(adapter, denied.acquire()));
        self.result(&run(adapter, denied.inspect()));
        let broken = format!("{SECRET}\r\nX: y");
        self.error(&Token::new(broken.clone()).unwrap_err());
        self.debug(Semaphore::builder("service/db", 2).token(broken.clone()));
        let variable = |name: &str| (name == "CONSUL_HTTP_TOKEN").then(|| broken.clone());
        let of_auth = |name: &str| (name == "CONSUL_HTTP_AUTH").then(|| broken.clone());
        self.result(&AgentEnvironment::read(of_auth));
        let of_auth = |name: &str| (name == "CONSUL_HTTP_AUTH").then(|| format!("user:{SECRET}"));
        self.result(&AgentEnvironment::read(of_auth));
        self.result(&AgentEnvironment::tokens(variable, NoFiles));
        self.result(
            &Semaphore::builder("service/db", 2)
                .token(broken)
                .connect(adapter.clone()),
        );
        self.leaders(adapter);
        self.by_hand(adapter);
    }

    /// Looks for a leader, both where the token may and where it may not.
    fn leaders<A>(&mut self, adapter: &A)
    where
        A: Transport + BlockOn + Clone + Debug + 'static,
    {
        for key in ["service/leader", "secret/leader"] {
            let discovery = Discovery::builder(key)
                .scope(scope())
                .connect(adapter.clone())
                .unwrap();
            self.debug(&discovery);
            self.result(&run(adapter, discovery.status()));
            let mut follower = discovery.follow();
            self.result(&run(adapter, follower.next()).unwrap());
            self.debug(&follower);
        }
        let key = LockKey::new("service/leader").unwrap();
        self.debug(Operation::new(DiscoverLeader::new(key.clone(), scope()), 1));
        let mut follow = Follow::new(key, scope(), 1);
        let transmit = follow.poll_transmit(adapter.now());
        self.debug((&transmit, &follow));
    }

    /// Drives the machines that the handles are built on.
    fn by_hand<A: Transport + BlockOn + Clone + 'static>(&mut self, adapter: &A) {
        let prefix = Prefix::new("service/by-hand").unwrap();
        let scope = scope();
        self.debug((&scope, scope.token()));
        let settings = Settings::new(prefix.clone(), 2)
            .unwrap()
            .with_scope(scope.clone());
        self.debug(&settings);
        let mut participant = Participant::new(settings, 1);
        participant.acquire(adapter.now(), 1, None).unwrap();
        while let Some(transmit) = participant.poll_transmit(adapter.now()) {
            self.debug((&transmit, &participant));
            // Nobody else writes, so a poll would wait for nothing.
            if transmit.request.is_long_poll() {
                break;
            }
            let answer = send(adapter, transmit.request);
            self.result(&answer);
            participant.handle_response(adapter.now(), transmit.id, answer);
            while let Some(event) = participant.poll_event() {
                self.debug(event);
            }
        }
        self.debug(&participant);
        self.debug(Operation::new(
            Inspect::new(prefix.clone(), scope.clone()),
            1,
        ));
        self.debug(Operation::new(
            Destroy::new(prefix.clone(), scope.clone()),
            1,
        ));
        self.debug(Operation::new(Resize::new(prefix, scope, 2).unwrap(), 1));
    }

    fn exchange(&mut self, adapter: &(impl Transport + BlockOn + Debug), request: Request) {
        let request = request.with_token(Some(Token::new(SECRET).unwrap()));
        self.debug((adapter, &request));
        self.result(&send(adapter, request));
    }
}

/// Answers of all sorts.
fn answered(backend: &impl Backend, shown: &mut Shown) {
    for bytes in [
        "",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ntrue",
        "HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:1/elsewhere\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 6\r\n\r\ndenied",
        "HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nNo c\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        "SSH-2.0-OpenSSH_9.2p1\r\n\r\n",
    ] {
        let server = Server::start(move |connection| {
            connection.read();
            let _ = connection.write(bytes);
        });
        for own_client in [None, Some("my-client/1")] {
            let options = Options {
                own_client,
                basic_auth: Some(("user", SECRET)),
                ..Options::to(server.url())
            };
            let adapter = backend.build(options).unwrap();
            shown.exchange(&adapter, put("/v1/kv/a", "value"));
            // A request line that almost fills ureq's buffer, and a body that does not fit into the
            // rest.
            let long = format!("/v1/kv/{}?recurse=", "k".repeat(8_100));
            shown.exchange(&adapter, get(&long));
            shown.exchange(&adapter, put("/v1/kv/a", &"v".repeat(20_000)));
        }
    }
}

/// Requests without any answer.
fn failed(backend: &impl Backend, shown: &mut Shown) {
    let silent = Server::start(|connection| {
        connection.read();
        connection.wait_for_close();
    });
    let adapter = backend.to(silent.url());
    let short = Duration::from_millis(100);
    shown.exchange(&adapter, get("/v1/kv/a").with_timeout(short));
    shown.exchange(&adapter, get("v1/kv/a"));
    shown.exchange(&adapter, get("/v1/kv/a").with_body("x").with_timeout(short));
    shown.exchange(&backend.to("http://agent.invalid:8500"), get("/v1/kv/a"));
    shown.exchange(&backend.to("http://127.0.0.1:1"), get("/v1/kv/a"));
    let https = silent.url().replace("http", "https");
    shown.exchange(&backend.to(https), put("/v1/kv/a", "").with_timeout(short));
    for url in [
        format!("http://{SECRET}@agent:8500"),
        format!("http://a/?token={SECRET}"),
    ] {
        let error = backend.build(Options::to(url)).unwrap_err();
        shown.error(&*error);
    }
}

/// TLS that works, with a client certificate, and TLS that does not.
fn encrypted(backend: &impl Backend, shown: &mut Shown) {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let agent = ours.certify(Names::loopback());
    let client = theirs.certify(Names::dns("client"));
    let server = Server::start_tls(agent.server_config(Some(&theirs)), |connection| {
        connection.answer_all(200, "true");
    });
    let trusting = |ca: &Authority| Options {
        ca_cert: Some(ca.pem()),
        client_cert: Some((client.pem(), client.key_pem())),
        basic_auth: Some((SECRET, "password")),
        ..Options::to(server.url())
    };
    let nobody = Options {
        client_cert: None,
        ..trusting(&ours)
    };
    let unverified = Options {
        accept_any_certificate: true,
        ..trusting(&theirs)
    };
    for options in [trusting(&ours), trusting(&theirs), nobody, unverified] {
        let adapter = backend.build(options).unwrap();
        for _ in 0..2 {
            shown.exchange(&adapter, put("/v1/kv/a", "value"));
        }
    }
}

/// A key that can't be used replaces one that can.
fn replaced(backend: &impl Backend, shown: &mut Shown) {
    let ours = Authority::new();
    let agent = ours.certify(Names::loopback());
    let client = ours.certify(Names::dns("client"));
    let server = Server::start_tls(agent.server_config(Some(&ours)), |connection| {
        connection.read();
        connection.answer_with(200, "Connection: close\r\n", "true");
        connection.wait_for_close();
    });
    let files = tempfile::TempDir::new().unwrap();
    let write = |name: &str, content: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let options = Options {
        ca_cert_file: Some(write("ca.pem", &ours.pem())),
        client_cert_files: Some((
            write("cert.pem", &client.pem()),
            write("key.pem", &client.key_pem()),
        )),
        ..Options::to(server.url())
    };
    let adapter = backend.build(options.clone()).unwrap();
    shown.debug(&adapter);
    shown.exchange(&adapter, put("/v1/kv/a", "value"));
    for key in [
        SECRET.to_owned(),
        format!("-----BEGIN {SECRET}"),
        format!("-----BEGIN PRIVATE KEY-----\n{SECRET}\n"),
        format!("-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n"),
        format!("-----BEGIN PRIVATE KEY-----\n{SECRET}!\n-----END PRIVATE KEY-----\n"),
    ] {
        write("key.pem", &key);
        shown.exchange(&adapter, put("/v1/kv/a", "value"));
        let error = backend.build(options.clone()).unwrap_err();
        shown.error(&*error);
    }
}

struct NoFiles;

impl Files for NoFiles {
    fn stamp(&self, _: &Path) -> Option<Stamp> {
        None
    }

    fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn list(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}
