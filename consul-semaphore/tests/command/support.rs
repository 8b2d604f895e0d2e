//! Runs the command as a process.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use real_agent::{Agent, Client};
use serde_json::Value as Json;

/// The longest time for a condition, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The shared agent, and a prefix that nobody else uses.
pub(crate) fn scene() -> (Client, String) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let agent = Agent::shared().expect("an agent");
    let prefix = format!("command/{}/{count}", std::process::id());
    (agent, prefix)
}

/// No test waits longer than this for anything. All of them together take a minute or two.
const END_OF_ALL: Duration = Duration::from_secs(600);

/// The program, without Consul's variables except for the address.
pub(crate) fn program(url: &str, arguments: &[&str]) -> Command {
    end_in_time();
    let mut command = Command::new(env!("CARGO_BIN_EXE_consul-semaphore"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CONSUL_") {
            command.env_remove(name);
        }
    }
    command.env("CONSUL_HTTP_ADDR", url).args(arguments);
    command
}

/// Ends this program of tests if one of them waits for something that never comes.
fn end_in_time() {
    static WATCHES: Once = Once::new();
    WATCHES.call_once(|| {
        thread::spawn(|| {
            thread::sleep(END_OF_ALL);
            eprintln!("a test has waited for {END_OF_ALL:?}");
            std::process::exit(101);
        });
    });
}

/// A program that runs another one, which comes last among its arguments.
pub(crate) fn within(outer: &[&str], ours: &Command) -> Command {
    let mut command = Command::new(outer[0]);
    command.args(&outer[1..]);
    command.arg(ours.get_program()).args(ours.get_args());
    for (name, value) in ours.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// `unshare` with these options. Without a user namespace only root may do that.
pub(crate) fn unshare(options: &[&str], ours: &Command) -> Command {
    let mut outer = vec!["unshare"];
    if !is_root() {
        outer.extend(["--user", "--map-root-user"]);
    }
    outer.extend(options);
    within(&outer, ours)
}

pub(crate) fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    // The real one, and the effective one.
    users.is_some_and(|users| users.split_whitespace().nth(1) == Some("0"))
}

/// The output and the exit code of a program.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs it to its end.
pub(crate) fn run(url: &str, arguments: &[&str]) -> Ran {
    run_with(program(url, arguments), "")
}

/// The same with this text on its standard input.
pub(crate) fn run_with(mut command: Command, input: &str) -> Ran {
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A program that reads nothing may have ended already.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("an end");
    Ran::of(&output)
}

impl Ran {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Asserts that it ended with this code and printed this text.
    #[track_caller]
    pub(crate) fn assert(&self, code: i32, said: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.stderr.contains(said), "{self:?}");
    }
}

/// A program that is running and reports its events. It ends with the test.
pub(crate) struct Running {
    child: Child,
    printed: Receiver<String>,
    events: Receiver<String>,
    told: Vec<Json>,
}

impl Running {
    /// `run --json` with these arguments.
    pub(crate) fn start(url: &str, arguments: &[&str]) -> Self {
        Self::spawn(program(url, &["run", "--json"]), arguments)
    }

    pub(crate) fn spawn(mut command: Command, arguments: &[&str]) -> Self {
        command.args(arguments);
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let printed = lines(child.stdout.take().expect("a pipe"));
        let events = lines(child.stderr.take().expect("a pipe"));
        let told = Vec::new();
        Self {
            child,
            printed,
            events,
            told,
        }
    }

    /// Reads events until one has this name.
    #[track_caller]
    pub(crate) fn event(&mut self, name: &str) -> Json {
        while let Some(event) = self.hears() {
            if event["event"] == name {
                return event;
            }
        }
        panic!("no event {name:?} in {:?}", self.told);
    }

    /// The process id of the command, once it runs.
    #[track_caller]
    pub(crate) fn command(&mut self) -> u32 {
        let pid = self.event("started")["pid"].as_u64().expect("a number");
        u32::try_from(pid).expect("a process id")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Reads its next event, if one comes before its end.
    #[track_caller]
    fn hears(&mut self) -> Option<Json> {
        loop {
            let line = match self.events.recv_timeout(PATIENCE) {
                Ok(line) => line,
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => panic!("nothing is told after {:?}", self.told),
            };
            // The command may print something there, too.
            if let Ok(event) = serde_json::from_str::<Json>(&line) {
                self.told.push(event.clone());
                return Some(event);
            }
        }
    }

    /// Reads the next line that the command prints. It is empty if there is none.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        match self.printed.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => String::new(),
            Err(RecvTimeoutError::Timeout) => {
                let unread: Vec<String> = self.events.try_iter().collect();
                panic!("nothing is printed after {:?} and {unread:?}", self.told);
            }
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        send(signal, self.pid());
    }

    /// Waits for its end. Returns the code and all events.
    pub(crate) fn end(mut self) -> (Option<i32>, Vec<Json>) {
        while self.hears().is_some() {}
        let status = self.child.wait().expect("an end");
        (status.code(), std::mem::take(&mut self.told))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of a pipe, read by a thread: a test waits for none of them for ever.
fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines() {
            if sender.send(line.expect("text")).is_err() {
                break;
            }
        }
    });
    receiver
}

pub(crate) fn names(events: &[Json]) -> Vec<&str> {
    let names = events.iter().filter_map(|event| event["event"].as_str());
    names.collect()
}

/// `kill -SIGNAL PID`.
pub(crate) fn send(signal: &str, pid: u32) {
    let sent = Command::new("kill")
        .args([format!("-{signal}"), pid.to_string()])
        .status();
    assert!(sent.expect("it runs").success());
}

/// The children of a process, with their command lines.
pub(crate) fn children(of: u32) -> Vec<(u32, String)> {
    let processes = std::fs::read_dir("/proc").expect("processes");
    let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter(|pid| stat(*pid).is_some_and(|stat| stat.get(1) == Some(&of.to_string())))
        .map(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            (pid, String::from_utf8_lossy(&line).replace('\0', " "))
        })
        .collect()
}

/// What `/proc/PID/stat` has after the name: the state, the parent, the group, the session, …
pub(crate) fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

/// Whether a process exists and is not a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| !stat[0].starts_with(['Z', 'X']))
}

#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "waited too long for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// An address at which nobody listens.
pub(crate) fn closed_port() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    format!("http://{address}")
}

/// How many contenders this semaphore has.
pub(crate) fn contenders(agent: &Client, prefix: &str) -> usize {
    let keys = agent
        .get(&format!("/v1/kv/{prefix}/?keys"))
        .expect("an answer");
    let keys = keys.json().unwrap_or_default();
    let keys = keys.as_array().map_or(0, Vec::len);
    keys.saturating_sub(1)
}

/// A Consul in memory, with faults.
pub(crate) struct Dev {
    child: Child,
    pub(crate) url: String,
}

impl Dev {
    pub(crate) fn start(faults: &[&str]) -> Self {
        let mut command = program("", &["dev", "--listen", "127.0.0.1:0"]);
        for fault in faults {
            command.args(["--fault", fault]);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let line = lines.next().expect("a line").expect("text");
        let url = line.strip_prefix("CONSUL_HTTP_ADDR=").expect("an address");
        let url = url.to_owned();
        Self { child, url }
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
