//! Our client processes. Each is behind its own proxy.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, io, thread};

use real_agent::{Agent, Gateway, GivenUp, Proxy};
use rustix::process::{Pid, Signal, kill_process};

use crate::client::{LEAVE, Plan};
use crate::failure::{Failure, Try as _};
use crate::record::{Folder, Role, Run};

/// All client processes. Dropping this kills them.
#[derive(Debug)]
pub(crate) struct Fleet {
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    plan: Plan,
    proxy: Proxy,
    agent: SocketAddr,
    gateway: Option<Gateway>,
    process: Option<Child>,
}

const POLL: Duration = Duration::from_millis(50);
/// How long a client may take to end in a hurry. A client that waits for a change of its value may
/// take longer.
const LEAVING: Duration = Duration::from_secs(5);

impl Fleet {
    /// Starts the clients of a run.
    ///
    /// # Errors
    /// If a proxy or a process can't be started.
    pub(crate) fn start(
        run: &Run,
        agents: &[&Agent],
        folder: &Folder,
        defect: Option<&str>,
    ) -> Result<Self, Failure> {
        let mut members = Vec::new();
        for (number, client) in run.clients.iter().enumerate() {
            let agent = agents[client.server].addr();
            let proxy = Proxy::start(agent).doing("starting a proxy")?;
            let plan = Plan {
                number,
                incarnation: 0,
                backend: client.backend,
                url: proxy.url(),
                ttl: run.ttl_of(number),
                lock_delay: run.lock_delay,
                own_node: client.own_node,
                shares: client.shares,
                token_of: run.acls.then_some(number),
                holds_long: run.reaped,
                role: client.role,
                places: run.places.clone(),
                seed: run.seed,
                folder: folder.path().to_owned(),
                defect: defect.map(str::to_owned),
            };
            members.push(Member {
                plan,
                proxy,
                agent,
                gateway: None,
                process: None,
            });
        }
        let mut fleet = Self { members };
        for number in 0..fleet.members.len() {
            fleet.begin(number).doing("starting a client")?;
        }
        Ok(fleet)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// The proxy in front of a client's agent.
    pub(crate) fn proxy(&self, number: usize) -> &Proxy {
        &self.members[number].proxy
    }

    /// What became of the writes that clients gave up.
    pub(crate) fn given_up(&self) -> GivenUp {
        let all = self.members.iter().map(|member| member.proxy.given_up());
        all.fold(GivenUp::default(), |sum, one| sum.and(&one))
    }

    /// The TTL of a client's sessions.
    pub(crate) fn ttl(&self, number: usize) -> Duration {
        self.members[number].plan.ttl
    }

    /// Whether a client's server is no client agent, which would keep what it knows of tokens.
    pub(crate) fn is_on_a_server(&self, number: usize, agents: &[Agent]) -> bool {
        let agent = self.members[number].agent;
        agents.iter().all(|it| it.addr() != agent)
    }

    /// Whether a client contends, so it has something to release.
    pub(crate) fn contends(&self, number: usize) -> bool {
        self.members[number].plan.role == Role::Contender
    }

    /// Puts a gateway that answers with this status in the place of a client's agent.
    ///
    /// # Errors
    /// If no port is free for it.
    pub(crate) fn go_away(&mut self, number: usize, status: u16) -> io::Result<()> {
        let member = &mut self.members[number];
        let gateway = member.gateway.insert(Gateway::start(status)?);
        member.proxy.set_target(gateway.addr());
        member.proxy.cut();
        Ok(())
    }

    /// Puts the agent back in its place. Returns how often the gateway was asked.
    pub(crate) fn come_back(&mut self, number: usize) -> Option<u64> {
        let member = &mut self.members[number];
        member.proxy.set_target(member.agent);
        member.proxy.cut();
        member.gateway.take().map(|gateway| gateway.asked())
    }

    /// Tells a client to drop everything and end, and waits for it. Kills it if it does not end.
    ///
    /// # Errors
    /// If it can't be waited for.
    pub(crate) fn leave(&mut self, number: usize) -> io::Result<()> {
        let Some(process) = self.members[number].process.as_mut() else {
            return Ok(());
        };
        if let Some(pipe) = process.stdin.as_mut() {
            // This fails if it has ended already. Its log shows that.
            let _ = pipe.write_all(&[LEAVE]);
        }
        let deadline = Instant::now() + LEAVING;
        while process.try_wait()?.is_none() && Instant::now() < deadline {
            thread::sleep(POLL);
        }
        self.kill(number)
    }

    /// Starts the next incarnation of a client.
    ///
    /// # Errors
    /// If the process can't be started.
    pub(crate) fn begin(&mut self, number: usize) -> io::Result<()> {
        let member = &mut self.members[number];
        let plan = &mut member.plan;
        plan.incarnation += 1;
        // Each incarnation of each client makes other choices.
        plan.seed = plan
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1 + number as u64);
        let process = Command::new(env::current_exe()?)
            .arg("client")
            .arg(serde_json::to_string(plan)?)
            .stdin(Stdio::piped())
            .spawn()?;
        member.process = Some(process);
        Ok(())
    }

    /// Kills a client (`SIGKILL`) and waits until it is gone.
    ///
    /// # Errors
    /// If it can't be waited for.
    pub(crate) fn kill(&mut self, number: usize) -> io::Result<()> {
        if let Some(mut process) = self.members[number].process.take() {
            process.kill()?;
            process.wait()?;
        }
        Ok(())
    }

    /// Freezes a client (`SIGSTOP`).
    ///
    /// # Errors
    /// If there is no such process.
    pub(crate) fn stop(&self, number: usize) -> io::Result<()> {
        self.signal(number, Signal::STOP)
    }

    /// Continues a client.
    ///
    /// # Errors
    /// If there is no such process.
    pub(crate) fn cont(&self, number: usize) -> io::Result<()> {
        self.signal(number, Signal::CONT)
    }

    /// Tells all clients with this role to end in order, and waits for them. Kills those that don't
    /// end, and returns them.
    ///
    /// # Errors
    /// If one can't be waited for.
    pub(crate) fn end(&mut self, role: Role, within: Duration) -> io::Result<Vec<String>> {
        let mut members: Vec<_> = self.members.iter_mut().collect();
        members.retain(|member| member.plan.role == role);
        for member in &mut members {
            let pipe = member.process.as_mut().and_then(|it| it.stdin.as_mut());
            if let Some(pipe) = pipe {
                // This fails if it has ended already. Its log shows that.
                let _ = pipe.write_all(b"\n");
            }
        }
        let deadline = Instant::now() + within;
        let mut hung = Vec::new();
        for member in members {
            let Some(process) = member.process.as_mut() else {
                continue;
            };
            while process.try_wait()?.is_none() {
                if Instant::now() > deadline {
                    hung.push(member.plan.name());
                    process.kill()?;
                    process.wait()?;
                    break;
                }
                thread::sleep(POLL);
            }
            member.process = None;
        }
        Ok(hung)
    }

    fn signal(&self, number: usize, signal: Signal) -> io::Result<()> {
        match &self.members[number].process {
            Some(process) => Ok(kill_process(Pid::from_child(process), signal)?),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for number in 0..self.members.len() {
            if let Err(error) = self.kill(number) {
                eprintln!("a client could not be ended: {error}");
            }
        }
    }
}
