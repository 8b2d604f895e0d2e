//! One instance of a service, and its disturbances.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

use real_agent::{Agent, Proxy};
use rustix::process::{Pid, Signal, kill_process};

use crate::Failure;
use crate::judge::Lines;

/// The program to run.
pub(crate) struct Program {
    path: PathBuf,
    arguments: Vec<String>,
    /// The signal that tells it to stop.
    stops_by: Signal,
}

impl Program {
    /// `one_leader`. If the session needs other options, `leader`, which has them.
    pub(crate) fn new(ttl: Option<u64>, lock_delay: Option<u64>) -> Self {
        let here = std::env::current_exe().unwrap_or_default();
        let options = [("--ttl", ttl), ("--lock-delay", lock_delay)];
        let given = options
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        let arguments: Vec<_> = given
            .flat_map(|(name, value)| [name.to_owned(), value.to_string()])
            .collect();
        let (name, stops_by) = if arguments.is_empty() {
            ("one_leader", Signal::TERM)
        } else {
            ("leader", Signal::INT)
        };
        Self {
            path: here.with_file_name(name),
            arguments,
            stops_by,
        }
    }
}

/// A process, and the proxy between it and the agent.
pub(crate) struct Service {
    number: usize,
    proxy: Proxy,
    child: Child,
    stops_by: Signal,
}

impl Service {
    pub(crate) fn start(
        number: usize,
        agent: &Agent,
        program: &Program,
        lines: &Lines,
    ) -> Result<Self, Failure> {
        let proxy =
            Proxy::start(agent.addr()).map_err(|error| Failure::System("no proxy", error))?;
        let child = launch(number, &proxy, program, lines)?;
        Ok(Self {
            number,
            proxy,
            child,
            stops_by: program.stops_by,
        })
    }

    pub(crate) fn tell_to_stop(&self) -> Result<(), Failure> {
        self.signal(self.stops_by)
    }

    pub(crate) fn kill(&self) -> Result<(), Failure> {
        self.signal(Signal::KILL)
    }

    pub(crate) fn freeze(&self) -> Result<(), Failure> {
        self.signal(Signal::STOP)
    }

    pub(crate) fn cut_off(&self) {
        self.proxy.silence();
    }

    /// Continues the process, or starts it again.
    pub(crate) fn come_back(
        &mut self,
        agent: &Agent,
        program: &Program,
        lines: &Lines,
    ) -> Result<(), Failure> {
        self.proxy.resume();
        let has_ended = self.child.try_wait();
        if has_ended
            .map_err(|error| Failure::System("no end", error))?
            .is_some()
        {
            *self = Self::start(self.number, agent, program, lines)?;
        } else {
            self.signal(Signal::CONT)?;
        }
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).map_err(|error| Failure::System("no signal", error.into()))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(
    number: usize,
    proxy: &Proxy,
    program: &Program,
    lines: &Lines,
) -> Result<Child, Failure> {
    let mut child = Command::new(&program.path)
        .args(&program.arguments)
        .env("CONSUL_HTTP_ADDR", proxy.url())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::System("the service can't be started", error))?;
    if let Some(output) = child.stdout.take() {
        let lines = lines.clone();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                lines.add(number, &line);
            }
        });
    }
    Ok(child)
}
