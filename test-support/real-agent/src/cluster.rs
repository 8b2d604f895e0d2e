//! Three servers that elect a leader.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use crate::agent::{Agent, Builder, PORT_TRIES, READY_POLL, READY_WITHIN};
use crate::client::Client;
use crate::error::StartError;
use crate::ports::Ports;

/// How many servers a [`Cluster`] has.
pub const SERVERS: usize = 3;

/// Keeps dead servers as members and as nodes, except with [`Builder::reaped`]. By default Consul
/// removes them after some ten seconds, and the node's sessions with them. Most tests are not about
/// that.
const KEEP_DEAD_SERVERS: &str = "autopilot { cleanup_dead_servers = false }";

/// Three servers on 127.0.0.1 that keep their state on disk. Dropping this kills them.
///
/// Servers are numbered from 0. A number that is too large panics.
#[derive(Debug)]
pub struct Cluster {
    servers: Vec<Agent>,
    /// Servers that were killed or frozen, so they need not be asked.
    down: [bool; SERVERS],
}

impl Cluster {
    /// Starts three servers with the defaults and waits until all of them can serve.
    ///
    /// # Errors
    /// [`StartError`], also if there is no Consul binary.
    pub fn start() -> Result<Self, StartError> {
        Self::start_with(&Agent::builder())
    }

    /// Starts three servers with the settings of `builder` and waits until all of them can serve
    /// and vote.
    ///
    /// # Errors
    /// [`StartError`], also if there is no Consul binary.
    pub fn start_with(builder: &Builder) -> Result<Self, StartError> {
        for _ in 0..PORT_TRIES {
            let mut cluster = Self::launch(builder)?;
            // One that was late has no vote at first. Then none of the two others may be killed.
            let is_ready = cluster.wait_for_leader();
            match is_ready.and_then(|_| cluster.wait_for_votes()) {
                Ok(()) => return Ok(cluster),
                Err(StartError::Exited { .. }) if cluster.lost_a_port() => {}
                Err(error) => return Err(error),
            }
        }
        Err(StartError::NoPorts)
    }

    /// Starts a client agent of this cluster with the settings of `builder`, and waits until it can
    /// serve.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn join(&self, builder: &Builder) -> Result<Agent, StartError> {
        let peers: Vec<_> = self.servers.iter().map(Agent::serf_lan).collect();
        for _ in 0..PORT_TRIES {
            let mut agent = builder
                .clone()
                .client()
                .launch(Ports::free()?, Some(&peers))?;
            match agent.wait_until_ready() {
                Ok(()) => return Ok(agent),
                Err(StartError::Exited { .. }) if agent.lost_a_port() => {}
                Err(error) => return Err(error),
            }
        }
        Err(StartError::NoPorts)
    }

    /// Server `i`.
    pub fn server(&self, i: usize) -> &Agent {
        &self.servers[i]
    }

    /// The leader, if the servers that are up agree on one that is up.
    pub fn leader(&self) -> Option<usize> {
        let mut answers = self.up().map(|server| self.leader_by(server));
        let leader = answers.next()??;
        let agreed = answers.all(|answer| answer == Some(leader));
        (agreed && !self.down[leader]).then_some(leader)
    }

    /// Waits until a majority has a leader and each server that is up can serve.
    ///
    /// # Errors
    /// [`StartError::Exited`] if a server ended unexpectedly. [`StartError::NotReady`] if it takes
    /// too long, as it does without a majority.
    pub fn wait_for_leader(&mut self) -> Result<usize, StartError> {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            if let Some(leader) = self.leader()
                && self.up().all(serves)
            {
                return Ok(leader);
            }
            for (server, down) in self.servers.iter_mut().zip(self.down) {
                if !down {
                    server.still_runs()?;
                }
            }
            if Instant::now() > deadline {
                return Err(StartError::NotReady {
                    log: self.servers[0].log_tail(),
                });
            }
            thread::sleep(READY_POLL);
        }
    }

    /// Waits until every server has a vote. A server that was removed and is back has no vote for
    /// some ten seconds. Meanwhile Consul removes no other server.
    ///
    /// # Errors
    /// As [`Cluster::wait_for_leader`].
    pub fn wait_for_votes(&mut self) -> Result<(), StartError> {
        let deadline = Instant::now() + READY_WITHIN;
        while !self.up().any(|server| votes(server) == SERVERS) {
            if Instant::now() > deadline {
                return Err(StartError::NotReady {
                    log: self.servers[0].log_tail(),
                });
            }
            thread::sleep(READY_POLL);
        }
        Ok(())
    }

    /// Kills server `i` (`SIGKILL`).
    ///
    /// # Errors
    /// If it can't be waited for.
    pub fn kill(&mut self, i: usize) -> io::Result<()> {
        self.down[i] = true;
        self.servers[i].kill()
    }

    /// Freezes server `i` (`SIGSTOP`).
    ///
    /// # Errors
    /// If it is not running.
    pub fn stop(&mut self, i: usize) -> io::Result<()> {
        self.servers[i].stop()?;
        self.down[i] = true;
        Ok(())
    }

    /// Continues server `i` after [`Cluster::stop`].
    ///
    /// # Errors
    /// If it is not running.
    pub fn cont(&mut self, i: usize) -> io::Result<()> {
        self.servers[i].cont()?;
        self.down[i] = false;
        Ok(())
    }

    /// Kills server `i` if it still runs, starts it again with its state, and waits as
    /// [`Cluster::wait_for_leader`] does. That can't succeed without a majority: then use
    /// [`Cluster::relaunch`].
    ///
    /// # Errors
    /// [`StartError`].
    pub fn restart(&mut self, i: usize) -> Result<usize, StartError> {
        self.relaunch(i)?;
        self.wait_for_leader()
    }

    /// Starts server `i` as [`Cluster::restart`] does, without waiting.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn relaunch(&mut self, i: usize) -> Result<(), StartError> {
        self.servers[i].relaunch()?;
        self.down[i] = false;
        Ok(())
    }

    fn launch(builder: &Builder) -> Result<Self, StartError> {
        let mut ports: Vec<Ports> = Vec::with_capacity(SERVERS);
        while ports.len() < SERVERS {
            let more = Ports::free()?;
            if ports.iter().all(|others| others.are_distinct_from(&more)) {
                ports.push(more);
            }
        }
        let peers: Vec<_> = ports.iter().map(|ports| ports.serf_lan).collect();
        let mut builder = builder.clone().durable();
        if !builder.is_reaped() {
            builder = builder.config(KEEP_DEAD_SERVERS);
        }
        let servers = ports
            .into_iter()
            .map(|ports| builder.clone().launch(ports, Some(&peers)))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            servers,
            down: [false; SERVERS],
        })
    }

    fn up(&self) -> impl Iterator<Item = &Agent> {
        let up = self.servers.iter().zip(self.down);
        up.filter_map(|(server, down)| (!down).then_some(server))
    }

    fn leader_by(&self, server: &Agent) -> Option<usize> {
        let answer = hurried(server).get("/v1/status/leader").ok()?.json().ok()?;
        let addr = answer.as_str()?;
        self.servers
            .iter()
            .position(|server| server.server_addr().to_string() == addr)
    }

    fn lost_a_port(&self) -> bool {
        self.servers.iter().any(Agent::lost_a_port)
    }
}

/// How many servers have a vote.
fn votes(server: &Agent) -> usize {
    let raft = hurried(server).get("/v1/operator/raft/configuration");
    let Ok(Ok(raft)) = raft.map(|answer| answer.json()) else {
        return 0;
    };
    let servers = raft["Servers"].as_array().map(Vec::as_slice);
    let servers = servers.unwrap_or_default().iter();
    servers.filter(|server| server["Voter"] == true).count()
}

/// Whether the server has a leader that can prove itself to it, and its node is known and healthy.
fn serves(server: &Agent) -> bool {
    let read = hurried(server).get("/v1/kv/ready?consistent");
    read.is_ok_and(|answer| matches!(answer.status, 200 | 404)) && server.is_ready()
}

fn hurried(server: &Agent) -> Client {
    server.client().with_timeout(Duration::from_secs(2))
}
