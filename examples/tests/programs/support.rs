//! Runs the programs as a user does.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Command, Output};

/// What a program did.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Which Consul a program is to use.
#[derive(Clone, Copy)]
pub(crate) enum Consul<'a> {
    InMemory,
    At(&'a str),
}

/// Runs the program at `path` to its end, with no other variable of Consul's than the address.
pub(crate) fn run(path: &str, consul: Consul<'_>, args: &[&str]) -> Ran {
    let mut command = Command::new(path);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CONSUL_") {
            command.env_remove(name);
        }
    }
    if let Consul::At(address) = consul {
        command.env("CONSUL_HTTP_ADDR", address);
    }
    let Output {
        status,
        stdout,
        stderr,
    } = command.args(args).output().expect("the program starts");
    Ran {
        code: status.code(),
        stdout: String::from_utf8(stdout).expect("text"),
        stderr: String::from_utf8(stderr).expect("text"),
    }
}

impl Ran {
    /// Its output, after an end without any failure.
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

    /// It ended with `code`, and said `text` and nothing else.
    #[track_caller]
    pub(crate) fn assert_refused(&self, code: i32, text: &str) {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        assert!(self.stderr.contains(text), "{}", self.stderr);
        assert_eq!(self.stdout, "");
    }
}

/// An address at which nobody listens.
pub(crate) fn closed_port() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address")
}
