//! One agent.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, io, process, thread};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::binary::Binary;
use crate::client::Client;
use crate::error::StartError;
use crate::ports::Ports;
use crate::process::Process;

/// This is long, since a loaded machine is no reason to fail.
pub(crate) const READY_WITHIN: Duration = Duration::from_mins(1);
const READY_ANSWER: Duration = Duration::from_secs(5);
pub(crate) const READY_POLL: Duration = Duration::from_millis(20);
pub(crate) const PORT_TRIES: usize = 10;

/// The variable with the address of the agent that processes share.
const SHARED_AT: &str = "REAL_AGENT_SHARED";

/// A Consul server in development mode on 127.0.0.1. Dropping it kills it.
///
/// Its state is in memory: [`Agent::restart`] begins with an empty one, unless the agent was
/// made [`Builder::durable`].
#[derive(Debug)]
pub struct Agent {
    binary: Binary,
    builder: Builder,
    node: String,
    ports: Ports,
    process: Process,
    scratch: TempDir,
}

/// What an agent is started with.
#[derive(Clone, Debug, Default)]
#[must_use = "`start` starts the agent"]
pub struct Builder {
    node: Option<String>,
    config: Vec<String>,
    management_token: Option<String>,
    certificate: Option<Certificate>,
    client_ca: Option<String>,
    socket: bool,
    role: Role,
    reaped: bool,
    release: Option<(u32, u32)>,
}

/// The agent's role in its cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Role {
    /// The only server, with its state in memory.
    #[default]
    Development,
    /// A server that keeps its state on disk.
    Durable,
    /// Not a server. It forwards everything, and leaves the cluster when it is told to end.
    Client,
}

#[derive(Clone, Debug)]
struct Certificate {
    chain: String,
    key: String,
}

impl Agent {
    /// Starts an agent with the defaults and waits until it can serve.
    ///
    /// # Errors
    /// [`StartError`], also if there is no Consul binary.
    pub fn start() -> Result<Self, StartError> {
        Self::builder().start()
    }

    /// An agent with further settings.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A client of the agent that tests share. It is for tests that don't harm the agent, and whose
    /// prefixes no other process uses.
    ///
    /// The agent is the one at the address in `REAL_AGENT_SHARED`, which `scripts/test` sets.
    /// Without that variable it is one that ends with this process.
    ///
    /// # Errors
    /// As [`Agent::start`], and [`StartError::SharedIsGone`] if nothing serves at the address.
    pub fn shared() -> Result<Client, StartError> {
        // Rust does not drop statics, so the watchdog ends this agent.
        static SHARED: Mutex<Option<Agent>> = Mutex::new(None);
        if let Ok(url) = env::var(SHARED_AT) {
            return serving(Client::new(url));
        }
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(agent) = &*shared {
            return Ok(agent.client());
        }
        Ok(shared.insert(Self::start()?).client())
    }

    /// The address of its HTTP API.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.http).into()
    }

    /// The address of its HTTPS API. Only an agent that was built with [`Builder::tls`] has one.
    pub fn https_addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.https).into()
    }

    /// The URL of [`Agent::addr`].
    pub fn url(&self) -> String {
        format!("http://{}", self.addr())
    }

    /// The URL (`unix://…`) of the socket of its HTTP API. Only an agent that was built with
    /// [`Builder::socket`] has one.
    pub fn socket_url(&self) -> String {
        format!("unix://{}", self.scratch.path().join(SOCKET).display())
    }

    /// Its node's name.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Consul's process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The path of the binary, for tests that run its other commands, such as `consul lock`.
    pub fn binary(&self) -> PathBuf {
        self.binary.path.clone()
    }

    /// The release of the binary: its major and minor number.
    pub fn version(&self) -> (u32, u32) {
        self.binary.version
    }

    /// Its whole log so far.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// A client of this agent. It sends the management token if the agent has one.
    pub fn client(&self) -> Client {
        let client = Client::new(self.url());
        match &self.builder.management_token {
            Some(token) => client.with_token(token),
            None => client,
        }
    }

    /// Asserts that no session at all is left, and nothing of the semaphore at `prefix`. It is for
    /// a test with a separate agent, and finds more than [`Client::assert_nothing_left`]: that
    /// one can't know whose a session is if nothing refers to it.
    ///
    /// # Panics
    /// If something is left, naming it, or if the agent can't be asked.
    #[track_caller]
    pub fn assert_nothing_left(&self, prefix: &str) {
        self.client().assert_nothing_left(prefix);
        let sessions = self.client().sessions();
        assert!(
            sessions.as_ref().is_ok_and(BTreeSet::is_empty),
            "sessions left: {sessions:?}"
        );
    }

    /// Freezes it (`SIGSTOP`). The system still accepts connections, but nothing answers.
    ///
    /// # Errors
    /// If it is not running.
    pub fn stop(&mut self) -> io::Result<()> {
        self.process.stop()
    }

    /// Continues it after [`Agent::stop`].
    ///
    /// # Errors
    /// If it is not running.
    pub fn cont(&mut self) -> io::Result<()> {
        self.process.cont()
    }

    /// Kills it (`SIGKILL`) and waits until it is gone. Connections are reset or refused.
    ///
    /// # Errors
    /// If it can't be waited for.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.kill()
    }

    /// Tells it to end (`SIGTERM`), as `systemctl stop` does, and waits until it is gone. A client
    /// agent leaves the cluster, and its node leaves the catalog. A server does neither.
    ///
    /// # Errors
    /// If it is not running.
    pub fn terminate(&mut self) -> io::Result<()> {
        self.process.terminate()
    }

    /// Kills it if it still runs, starts it on the same ports and waits until it can serve.
    ///
    /// # Errors
    /// As [`Agent::start`].
    pub fn restart(&mut self) -> Result<(), StartError> {
        self.relaunch()?;
        self.wait_until_ready()
    }

    /// As [`Agent::restart`], but does not wait.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn relaunch(&mut self) -> Result<(), StartError> {
        self.process.kill()?;
        self.process = launch(&self.binary, &self.builder, &self.scratch)?;
        Ok(())
    }

    /// Replaces the certificate, the key and the client authority of [`Builder::tls`] and
    /// [`Builder::client_ca`]. The agent uses them for new connections; open ones go on.
    ///
    /// # Errors
    /// If the files can't be written, or the agent does not read them.
    pub fn replace_certificates(&self, chain: &str, key: &str, client_ca: &str) -> io::Result<()> {
        let folder = self.scratch.path();
        file(folder, "cert.pem", chain)?;
        file(folder, "key.pem", key)?;
        file(folder, "ca.pem", client_ca)?;
        let answer = self.client().put("/v1/agent/reload", b"")?;
        match answer.status {
            200 => Ok(()),
            _ => Err(io::Error::other(answer.text())),
        }
    }

    /// The address for servers of other datacenters.
    pub fn wan_addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.serf_wan).into()
    }

    pub(crate) fn serf_lan(&self) -> u16 {
        self.ports.serf_lan
    }

    pub(crate) fn server_addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.server).into()
    }

    pub(crate) fn log_tail(&self) -> String {
        self.process.log_tail()
    }

    pub(crate) fn lost_a_port(&self) -> bool {
        self.process.log().contains("address already in use")
    }

    pub(crate) fn still_runs(&mut self) -> Result<(), StartError> {
        if self.process.is_alive() {
            Ok(())
        } else {
            Err(StartError::Exited {
                log: self.log_tail(),
            })
        }
    }

    /// Whether there is a leader that knows the node and its health. Before that, a session can't
    /// be created. The node's name is unique, so another test's agent that took the port is not
    /// mistaken for this one.
    pub(crate) fn is_ready(&self) -> bool {
        let client = self.client().with_timeout(READY_ANSWER);
        // Without a leader a consistent read fails.
        let health = client.get(&format!("/v1/health/node/{}?consistent", self.node));
        let Ok(Ok(Value::Array(checks))) = health.map(|answer| answer.json()) else {
            return false;
        };
        checks
            .iter()
            .any(|check| check["CheckID"] == "serfHealth" && check["Status"] == "passing")
    }

    pub(crate) fn wait_until_ready(&mut self) -> Result<(), StartError> {
        let deadline = Instant::now() + READY_WITHIN;
        while !self.is_ready() {
            self.still_runs()?;
            if Instant::now() > deadline {
                return Err(StartError::NotReady {
                    log: self.log_tail(),
                });
            }
            thread::sleep(READY_POLL);
        }
        Ok(())
    }
}

impl Builder {
    /// Names the node. By default the name is unique on this machine.
    pub fn node(mut self, name: impl Into<String>) -> Self {
        self.node = Some(name.into());
        self
    }

    /// Runs this release of Consul: its major and minor number. By default it is any.
    pub fn release(mut self, major: u32, minor: u32) -> Self {
        self.release = Some((major, minor));
        self
    }

    /// Adds configuration in HCL or JSON, such as `limits { http_max_conns_per_client = 10 }`.
    /// Later ones override earlier ones.
    pub fn config(mut self, hcl: impl Into<String>) -> Self {
        self.config.push(hcl.into());
        self
    }

    /// Turns ACLs on with a default of deny. `token` (a UUID) may do everything.
    pub fn acl(mut self, token: impl Into<String>) -> Self {
        self.management_token = Some(token.into());
        self
    }

    /// Serves HTTPS, too, with a certificate and its key in PEM.
    pub fn tls(mut self, chain: impl Into<String>, key: impl Into<String>) -> Self {
        self.certificate = Some(Certificate {
            chain: chain.into(),
            key: key.into(),
        });
        self
    }

    /// Demands client certificates from the authority `ca` (PEM) on HTTPS.
    pub fn client_ca(mut self, ca: impl Into<String>) -> Self {
        self.client_ca = Some(ca.into());
        self
    }

    /// Listens on a Unix socket, too.
    pub fn socket(mut self) -> Self {
        self.socket = true;
        self
    }

    /// Keeps state on disk, so that [`Agent::restart`] finds it again.
    pub fn durable(mut self) -> Self {
        self.role = Role::Durable;
        self
    }

    /// Makes it a client agent, not a server.
    pub(crate) fn client(mut self) -> Self {
        self.role = Role::Client;
        self
    }

    /// Only in a [`Cluster`](crate::Cluster): servers that have been dead for some ten seconds are
    /// removed from the catalog, and the sessions that were created through them end. That is
    /// Consul's default. Without this call, a cluster keeps its servers.
    pub fn reaped(mut self) -> Self {
        self.reaped = true;
        self
    }

    pub(crate) fn is_reaped(&self) -> bool {
        self.reaped
    }

    /// Starts the agent and waits until it can serve.
    ///
    /// # Errors
    /// [`StartError`], also if there is no Consul binary.
    pub fn start(self) -> Result<Agent, StartError> {
        for _ in 0..PORT_TRIES {
            let mut agent = self.clone().launch(Ports::free()?, None)?;
            match agent.wait_until_ready() {
                Ok(()) => return Ok(agent),
                Err(StartError::Exited { .. }) if agent.lost_a_port() => {}
                Err(error) => return Err(error),
            }
        }
        Err(StartError::NoPorts)
    }

    /// Starts the agent without waiting. With `peers` it is one of the servers with these gossip
    /// ports; otherwise it is alone.
    pub(crate) fn launch(self, ports: Ports, peers: Option<&[u16]>) -> Result<Agent, StartError> {
        let binary = Binary::find(self.release)?;
        let node = self.node.clone().unwrap_or_else(unique_node);
        // With a space, as a path of the user's may have one.
        let scratch = tempfile::Builder::new().prefix("real agent ").tempdir()?;
        self.write_config(&binary, &node, &ports, peers, scratch.path())?;
        let process = launch(&binary, &self, &scratch)?;
        Ok(Agent {
            binary,
            builder: self,
            node,
            ports,
            process,
            scratch,
        })
    }

    /// Consul reads the folder's files in the order of their names.
    fn write_config(
        &self,
        binary: &Binary,
        node: &str,
        ports: &Ports,
        peers: Option<&[u16]>,
        scratch: &Path,
    ) -> io::Result<()> {
        let mut config = base_config(binary, node, ports);
        match self.role {
            Role::Development => {}
            Role::Durable => {
                config["server"] = json!(true);
                config["bootstrap_expect"] = json!(peers.map_or(1, <[u16]>::len));
                config["data_dir"] = json!(scratch.join("data"));
                // Consul advises this for production. With the default, elections take five times
                // as long.
                config["performance"] = json!({ "raft_multiplier": 1 });
            }
            Role::Client => config["data_dir"] = json!(scratch.join("data")),
        }
        if let Some(peers) = peers {
            let join = peers.iter().map(|port| format!("127.0.0.1:{port}"));
            config["retry_join"] = join.collect();
            config["retry_interval"] = json!("1s");
        }
        if self.socket {
            // Consul splits this at spaces, so the path must have none: it is below Consul's folder.
            let addresses = format!("127.0.0.1 unix://{SOCKET}");
            config["addresses"] = json!({ "http": addresses });
        }
        if let Some(token) = &self.management_token {
            let kind = if binary.version >= (1, 11) {
                "initial_management"
            } else {
                "master"
            };
            config["acl"] =
                json!({ "enabled": true, "default_policy": "deny", "tokens": { kind: token } });
        }
        if let Some(Certificate { chain, key }) = &self.certificate {
            config["ports"]["https"] = json!(ports.https);
            config["cert_file"] = file(scratch, "cert.pem", chain)?;
            config["key_file"] = file(scratch, "key.pem", key)?;
        }
        if let Some(ca) = &self.client_ca {
            config["ca_file"] = file(scratch, "ca.pem", ca)?;
            config["verify_incoming_https"] = json!(true);
        }
        let folder = scratch.join("config");
        fs::create_dir(&folder)?;
        fs::write(folder.join("000.json"), config.to_string())?;
        for (number, extra) in (1..).zip(&self.config) {
            fs::write(folder.join(format!("{number:03}.hcl")), extra)?;
        }
        Ok(())
    }
}

const SOCKET: &str = "consul.sock";

fn file(folder: &Path, name: &str, content: &str) -> io::Result<Value> {
    let path = folder.join(name);
    fs::write(&path, content)?;
    Ok(json!(path))
}

fn launch(binary: &Binary, builder: &Builder, scratch: &TempDir) -> io::Result<Process> {
    let config = scratch.path().join("config");
    let mut args = vec![
        "agent".into(),
        "-config-dir".into(),
        config.into_os_string(),
    ];
    if builder.role == Role::Development {
        args.push("-dev".into());
    }
    Process::start(&binary.path, &args, scratch.path())
}

fn base_config(binary: &Binary, node: &str, ports: &Ports) -> Value {
    let mut config = json!({
        "node_name": node,
        "bind_addr": "127.0.0.1",
        "client_addr": "127.0.0.1",
        "disable_update_check": true,
        "ports": {
            "http": ports.http,
            "https": -1,
            "dns": -1,
            "grpc": -1,
            "server": ports.server,
            "serf_lan": ports.serf_lan,
            "serf_wan": ports.serf_wan,
        },
    });
    if binary.version >= (1, 14) {
        config["ports"]["grpc_tls"] = json!(-1);
    }
    config
}

/// Returns the client if an agent with a leader answers it.
fn serving(client: Client) -> Result<Client, StartError> {
    let answer = client
        .clone()
        .with_timeout(READY_ANSWER)
        .get("/v1/status/leader");
    if answer.is_ok_and(|answer| answer.status == 200 && answer.body.len() > 2) {
        Ok(client)
    } else {
        Err(StartError::SharedIsGone {
            url: client.url().to_owned(),
        })
    }
}

fn unique_node() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("test-{}-{count}", process::id())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_shared_agent_that_does_not_serve_is_named() {
        let port = Ports::free().unwrap().http;
        let url = format!("http://127.0.0.1:{port}");
        let error = serving(Client::new(&url)).err().expect("nothing serves");
        assert!(matches!(error, StartError::SharedIsGone { .. }), "{error}");
        assert!(error.to_string().contains(&url), "{error}");
    }

    #[test]
    fn a_port_that_another_process_took_is_told_from_other_failures() {
        let ports = Ports::free().unwrap();
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, ports.http)).unwrap();
        let mut agent = Agent::builder().launch(ports, None).unwrap();
        let error = agent.wait_until_ready().expect_err("the port is taken");
        assert!(matches!(error, StartError::Exited { .. }), "{error}");
        assert!(agent.lost_a_port());
    }
}
