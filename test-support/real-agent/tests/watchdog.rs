//! No agent outlives the process that started it.

// Helpers are part of the tests.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

#[test]
fn an_agent_ends_when_its_process_is_killed() {
    let scratch = TempDir::new().unwrap();
    let (mut owner, addr, _) = start_owner(scratch.path());
    assert!(TcpStream::connect(&addr).is_ok());
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert_gone(&addr, &scratch);
}

#[test]
fn a_stopped_agent_ends_when_its_process_is_killed() {
    let scratch = TempDir::new().unwrap();
    let (mut owner, addr, agent) = start_owner(scratch.path());
    kill_process(Pid::from_raw(agent).unwrap(), Signal::STOP).unwrap();
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert_gone(&addr, &scratch);
}

/// This does not use an interrupt: background processes of a shell ignore interrupts, and so do
/// their children.
#[test]
fn an_agent_ends_when_its_process_is_terminated() {
    let scratch = TempDir::new().unwrap();
    let (mut owner, addr, _) = start_owner(scratch.path());
    let id = Pid::from_raw(owner.id().try_into().unwrap()).unwrap();
    kill_process(id, Signal::TERM).unwrap();
    owner.wait().unwrap();
    assert_gone(&addr, &scratch);
}

#[test]
fn the_program_runs_a_command_beside_an_agent_and_ends_with_its_status() {
    let scratch = TempDir::new().unwrap();
    let output = program(scratch.path())
        .args(["sh", "-c", "echo $CONSUL_HTTP_ADDR; exit 7"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7));
    let said = String::from_utf8(output.stdout).unwrap();
    let addr = said.trim_end().strip_prefix("http://").unwrap();
    assert_gone(addr, &scratch);
}

/// Starts the program without a command. Returns it, its agent's address and its agent's process.
fn start_owner(scratch: &Path) -> (Child, String, i32) {
    let mut owner = program(scratch).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let stdout = owner.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let line = line.strip_prefix("CONSUL_HTTP_ADDR=http://").unwrap();
    let (addr, process) = line.split_once(" # process ").unwrap();
    (owner, addr.to_owned(), process.trim_end().parse().unwrap())
}

fn program(scratch: &Path) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_real-agent"));
    program.env("TMPDIR", scratch);
    program
}

/// Asserts that the agent and its files are gone.
fn assert_gone(addr: &str, scratch: &TempDir) {
    let deadline = Instant::now() + Duration::from_secs(30);
    let is_gone =
        || TcpStream::connect(addr).is_err() && scratch.path().read_dir().unwrap().next().is_none();
    while !is_gone() {
        assert!(Instant::now() < deadline, "the agent at {addr} lives on");
        thread::sleep(Duration::from_millis(20));
    }
}
