//! Files of certificates and keys that are replaced while a transport is in use.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, mpsc};

use rustls::ServerConfig;
use semaphore_core::adapter::{BlockOn, Transport, TransportErrorKind};
use tempfile::TempDir;

use crate::cancellation::{Outcome, send_in_background};
use crate::environment::{in_child, is_child};
use crate::server::Server;
use crate::tls::{Authority, Certified, Names};
use crate::{Backend, Options, assert_told, get, put, send};

/// Which certificates are trusted at one time: an agent with its authority, and a client with its
/// own.
struct Generation {
    agents: Authority,
    clients: Authority,
    agent: Certified,
    client: Certified,
}

impl Generation {
    fn new() -> Self {
        let (agents, clients) = (Authority::new(), Authority::new());
        Self {
            agent: agents.certify(Names::loopback()),
            client: clients.certify(Names::dns("client")),
            agents,
            clients,
        }
    }

    fn server_config(&self) -> Arc<ServerConfig> {
        self.agent.server_config(Some(&self.clients))
    }
}

/// The files of a client.
struct Files {
    folder: TempDir,
}

impl Files {
    fn of(generation: &Generation) -> Self {
        let files = Self {
            folder: TempDir::new().unwrap(),
        };
        files.replace(generation);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).into_os_string().into_string().unwrap()
    }

    /// Replaces a file as a careful tool does: it is complete at any time.
    fn write(&self, name: &str, content: &str) {
        let new = self.path("new");
        fs::write(&new, content).unwrap();
        fs::rename(new, self.path(name)).unwrap();
    }

    fn replace(&self, generation: &Generation) {
        self.write("ca.pem", &generation.agents.pem());
        self.write("cert.pem", &generation.client.pem());
        self.write("key.pem", &generation.client.key_pem());
    }

    fn options(&self, url: impl Into<String>) -> Options {
        Options {
            ca_cert_file: Some(self.path("ca.pem")),
            client_cert_files: Some((self.path("cert.pem"), self.path("key.pem"))),
            ..Options::to(url)
        }
    }
}

/// An agent whose certificates can be replaced. It reports the certificate of each client. It
/// closes each connection after its answer, except for `/v1/held`, which it answers only when told
/// to.
struct Agent {
    server: Server,
    config: Arc<Mutex<Arc<ServerConfig>>>,
    shown: mpsc::Receiver<Vec<u8>>,
    let_go: Arc<Mutex<mpsc::Sender<()>>>,
}

impl Agent {
    fn start(generation: &Generation) -> Self {
        let config = Arc::new(Mutex::new(generation.server_config()));
        let (show, shown) = mpsc::channel();
        let (let_go, held) = mpsc::channel();
        let held = Mutex::new(held);
        let current = Arc::clone(&config);
        let configured = move || Arc::clone(&current.lock().unwrap());
        let server = Server::start_tls_at("127.0.0.1:0", configured, move |connection| {
            let Some(request) = connection.read() else {
                return;
            };
            show.send(connection.client.clone().unwrap()).unwrap();
            if request.target == "/v1/held" {
                held.lock().unwrap().recv().unwrap();
            }
            connection.answer_with(200, "Connection: close\r\n", "true");
            connection.wait_for_close();
        });
        Self {
            server,
            config,
            shown,
            let_go: Arc::new(Mutex::new(let_go)),
        }
    }

    fn replace(&self, generation: &Generation) {
        *self.config.lock().unwrap() = generation.server_config();
    }

    /// Asserts that a request is served, and that the client showed this certificate.
    #[track_caller]
    fn serves(&self, adapter: &(impl Transport + BlockOn), client: &Certified) {
        let answer = send(adapter, put("/v1/kv/a", "")).unwrap();
        assert_eq!(answer.body(), b"true");
        assert_eq!(self.shown.recv().unwrap(), client.der());
    }
}

pub fn replaced_certificates_are_used_for_new_connections(backend: &impl Backend) {
    let first = Generation::new();
    let agent = Agent::start(&first);
    let files = Files::of(&first);
    let adapter = backend.build(files.options(agent.server.url())).unwrap();
    agent.serves(&adapter, &first.client);
    for _ in 0..3 {
        let next = Generation::new();
        agent.replace(&next);
        files.replace(&next);
        for _ in 0..2 {
            agent.serves(&adapter, &next.client);
        }
    }
}

pub fn open_connections_go_on_with_the_certificates_they_were_opened_with(backend: &impl Backend) {
    let (old, new) = (Generation::new(), Generation::new());
    let agent = Agent::start(&old);
    let files = Files::of(&old);
    let adapter = backend.build(files.options(agent.server.url())).unwrap();
    let (_abort, outcome) = send_in_background(&adapter, get("/v1/held").as_long_poll());
    assert_eq!(agent.shown.recv().unwrap(), old.client.der());
    agent.replace(&new);
    files.replace(&new);
    agent.serves(&adapter, &new.client);
    agent.let_go.lock().unwrap().send(()).unwrap();
    assert_eq!(outcome.recv().unwrap(), Outcome::Answered(200));
}

/// Resuming a TLS session does not help either.
pub fn who_is_trusted_no_longer_gets_no_new_connection(backend: &impl Backend) {
    let (ours, theirs) = (Generation::new(), Generation::new());
    let agent = Agent::start(&ours);
    let files = Files::of(&ours);
    let adapter = backend.build(files.options(agent.server.url())).unwrap();
    for _ in 0..3 {
        agent.serves(&adapter, &ours.client);
    }
    files.write("ca.pem", &theirs.agents.pem());
    for _ in 0..3 {
        let error = send(&adapter, put("/v1/kv/a", "")).unwrap_err();
        // The files may be replaced in a moment, so the request only counts as not sent.
        assert_eq!(error.kind(), TransportErrorKind::NotSent, "{error:?}");
        let told = crate::chain(&error);
        assert!(told.contains("invalid peer certificate"), "{told}");
    }
    files.write("ca.pem", &ours.agents.pem());
    agent.serves(&adapter, &ours.client);
}

pub fn files_that_cant_be_used_leave_the_last_ones_in_use(backend: &impl Backend) {
    let (old, new) = (Generation::new(), Generation::new());
    let agent = Agent::start(&old);
    let files = Files::of(&old);
    let adapter = backend.build(files.options(agent.server.url())).unwrap();
    agent.serves(&adapter, &old.client);
    let half = |text: String| text[..text.len() / 2].to_owned();
    for (name, content) in [
        ("ca.pem", String::new()),
        ("ca.pem", half(new.agents.pem())),
        ("ca.pem", new.client.key_pem()),
        ("cert.pem", half(new.client.pem())),
        ("cert.pem", new.client.pem()),
        ("key.pem", half(new.client.key_pem())),
        ("key.pem", "no key".to_owned()),
    ] {
        files.replace(&old);
        files.write(name, &content);
        agent.serves(&adapter, &old.client);
    }
    files.replace(&old);
    fs::remove_file(files.path("key.pem")).unwrap();
    agent.serves(&adapter, &old.client);
    agent.replace(&new);
    files.replace(&new);
    agent.serves(&adapter, &new.client);
}

pub fn a_folder_of_authorities_is_read_again(backend: &impl Backend) {
    let old = Generation::new();
    let agent = Agent::start(&old);
    let files = Files::of(&old);
    let folder = files.path("authorities");
    fs::create_dir_all(folder.join("below")).unwrap();
    files.write("authorities/below/first.pem", &old.agents.pem());
    let options = Options {
        ca_path: Some(folder),
        ca_cert_file: None,
        ..files.options(agent.server.url())
    };
    let adapter = backend.build(options).unwrap();
    agent.serves(&adapter, &old.client);
    let new = Generation::new();
    files.write("authorities/below/second.pem", &new.agents.pem());
    fs::remove_file(files.path("authorities/below/first.pem")).unwrap();
    files.replace(&new);
    agent.replace(&new);
    agent.serves(&adapter, &new.client);
}

pub fn certificates_of_the_environment_are_replaced(backend: &impl Backend) {
    if is_child() {
        let adapter = backend.build_from_env().unwrap();
        for target in ["/v1/a", "/v1/replace", "/v1/b"] {
            let answer = send(&adapter, get(target)).unwrap();
            assert_eq!(answer.body(), target.as_bytes());
        }
        return;
    }
    let (old, new) = (Generation::new(), Generation::new());
    let files = Arc::new(Files::of(&old));
    let config = Arc::new(Mutex::new(old.server_config()));
    let (replaced, current) = (Arc::clone(&files), Arc::clone(&config));
    let configured = move || Arc::clone(&current.lock().unwrap());
    let server = Server::start_tls_at("127.0.0.1:0", configured, move |connection| {
        let Some(request) = connection.read() else {
            return;
        };
        if request.target == "/v1/replace" {
            replaced.replace(&new);
            *config.lock().unwrap() = new.server_config();
        }
        connection.answer_with(200, "Connection: close\r\n", &request.target);
        connection.wait_for_close();
    });
    in_child(&[
        ("CONSUL_HTTP_ADDR", &server.url()),
        ("CONSUL_CACERT", &files.text("ca.pem")),
        ("CONSUL_CLIENT_CERT", &files.text("cert.pem")),
        ("CONSUL_CLIENT_KEY", &files.text("key.pem")),
    ]);
    assert_eq!(server.connections(), 3);
}

pub fn a_file_that_cant_be_used_to_begin_with_is_refused(backend: &impl Backend) {
    let generation = Generation::new();
    let files = Files::of(&generation);
    let build = || backend.build(files.options("https://127.0.0.1:8501"));
    build().unwrap();
    files.write("key.pem", &Generation::new().client.key_pem());
    let error = build().unwrap_err();
    assert_told(&*error, "the client certificate and its key can't be used");
    files.write("ca.pem", "nothing");
    let error = build().unwrap_err();
    assert_told(&*error, "the CA certificates can't be used");
    fs::remove_file(files.path("ca.pem")).unwrap();
    let told = build().unwrap_err().to_string();
    assert!(told.contains("of ca_cert_file can't be read: "), "{told}");
    assert!(told.contains(&files.text("ca.pem")), "{told}");
}
