//! Runs the programs as a user does.

use std::io::{BufRead as _, BufReader, Lines, PipeReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, ExitStatus, Output};

/// The result of a program.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Which Consul a program should use.
#[derive(Clone, Copy)]
pub(crate) enum Consul<'a> {
    InMemory,
    At(&'a str),
}

/// Runs the program at `path` to its end.
pub(crate) fn run(path: &str, consul: Consul<'_>, args: &[&str]) -> Ran {
    run_with(path, consul, &[], args)
}

/// The same with more variables.
pub(crate) fn run_with(
    path: &str,
    consul: Consul<'_>,
    variables: &[(&str, &str)],
    args: &[&str],
) -> Ran {
    let mut command = command(path, consul, args);
    command.envs(variables.iter().copied());
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("the program starts");
    Ran {
        code: status.code(),
        stdout: String::from_utf8(stdout).expect("text"),
        stderr: String::from_utf8(stderr).expect("text"),
    }
}

/// With no variable of Consul except the address.
fn command(path: &str, consul: Consul<'_>, args: &[&str]) -> Command {
    let mut command = Command::new(path);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CONSUL_") {
            command.env_remove(name);
        }
    }
    if let Consul::At(address) = consul {
        command.env("CONSUL_HTTP_ADDR", address);
    }
    command.args(args);
    command
}

/// A running program. It ends with the test, whatever happens.
pub(crate) struct Running {
    child: Child,
    lines: Lines<BufReader<PipeReader>>,
}

impl Running {
    pub(crate) fn start(path: &str, consul: Consul<'_>, args: &[&str]) -> Self {
        Self::start_with(path, consul, &[], args)
    }

    /// The same with more variables.
    pub(crate) fn start_with(
        path: &str,
        consul: Consul<'_>,
        variables: &[(&str, &str)],
        args: &[&str],
    ) -> Self {
        let (stdout, end) = std::io::pipe().expect("a pipe");
        let child = command(path, consul, args)
            .envs(variables.iter().copied())
            .stdout(end)
            .spawn()
            .expect("the program starts");
        let lines = BufReader::new(stdout).lines();
        Self { child, lines }
    }

    /// The next line that it prints.
    pub(crate) fn line(&mut self) -> String {
        self.lines.next().expect("a line").expect("text")
    }

    /// Reads only one line, as `head -1` does. Returns how the program ends.
    pub(crate) fn hang_up(mut self) -> ExitStatus {
        self.line();
        let (closed, _) = std::io::pipe().expect("a pipe");
        self.lines = BufReader::new(closed).lines();
        self.child.wait().expect("an end")
    }

    /// Ctrl-C. Returns its later output. It must end without a failure.
    pub(crate) fn interrupt(self) -> Vec<String> {
        self.told("-INT")
    }

    /// The same after `SIGTERM`, as from a supervisor.
    pub(crate) fn terminate(self) -> Vec<String> {
        self.told("-TERM")
    }

    fn told(mut self, signal: &str) -> Vec<String> {
        let told = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status();
        assert!(told.expect("it runs").success());
        let rest = self.rest();
        assert!(self.child.wait().expect("an end").success());
        rest
    }

    /// `SIGKILL`. Returns its output so far.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().expect("it runs");
        self.child.wait().expect("an end");
        self.rest()
    }

    fn rest(&mut self) -> Vec<String> {
        let lines = (&mut self.lines).map(|line| line.expect("text"));
        lines.collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Usually it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ran {
    /// Its output. It must have ended without a failure.
    #[track_caller]
    pub(crate) fn success(self) -> String {
        let Self {
            code,
            stdout,
            stderr,
        } = self;
        assert_eq!(code, Some(0), "{stdout}{stderr}");
        assert_eq!(stderr, "");
        stdout
    }

    /// It must have ended with `code`, and printed only `text`.
    #[track_caller]
    pub(crate) fn assert_refused(&self, code: i32, text: &str) {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        assert!(self.stderr.contains(text), "{}", self.stderr);
        assert_eq!(self.stdout, "");
    }
}

/// An address where nobody listens.
pub(crate) fn closed_port() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address")
}
