//! The program `consul-in-memory`: Consul's own command against it, faults that are switched on and
//! off, and its end.

#![cfg(feature = "server")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use real_agent::Client;

const PROGRAM: &str = env!("CARGO_BIN_EXE_consul-in-memory");

/// The program, which ends with the test, since its standard input is a pipe.
struct Served {
    program: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    url: String,
}

impl Served {
    fn start(args: &[&str]) -> Self {
        let mut program = Command::new(PROGRAM)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = program.stdin.take();
        let mut stdout = BufReader::new(program.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("CONSUL_HTTP_ADDR=").unwrap();
        Self {
            url: url.to_owned(),
            program,
            stdin,
            stdout,
        }
    }

    fn client(&self) -> Client {
        Client::new(&self.url).with_timeout(Duration::from_secs(20))
    }

    fn order(&self, order: &str) {
        let answer = self.client().put(&format!("/mock/{order}"), b"").unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (200, "done\n"));
    }

    fn status(&self) -> Option<u16> {
        let answer = self.client().get("/v1/status/leader");
        answer.ok().map(|answer| answer.status)
    }

    fn consul(&self, args: &[&str]) -> Output {
        let mut command = Command::new(consul());
        command.args(args).env("CONSUL_HTTP_ADDR", &self.url);
        command.output().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.program.wait();
    }
}

/// The path of the `consul` binary.
fn consul() -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/consul");
    text(&Command::new(script).output().unwrap())
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn consuls_own_command_reads_and_writes() {
    let served = Served::start(&[]);
    text(&served.consul(&["kv", "put", "greeting", "hello"]));
    assert_eq!(text(&served.consul(&["kv", "get", "greeting"])), "hello");
}

#[test]
fn consuls_own_command_locks() {
    let served = Served::start(&["--seed", "7"]);
    let lock = ["lock", "-n", "3", "service/db", "echo held"];
    assert_eq!(text(&served.consul(&lock)), "held");
    let lock = ["lock", "service/leader", "echo led"];
    assert_eq!(text(&served.consul(&lock)), "led");
}

#[test]
fn it_listens_on_ipv6_and_more_than_once() {
    let mut served = Served::start(&["--listen", "[::1]:0", "--listen", "127.0.0.1:0"]);
    assert!(served.url.starts_with("http://[::1]:"), "{}", served.url);
    assert_eq!(served.status(), Some(200));
    let mut line = String::new();
    served.stdout.read_line(&mut line).unwrap();
    let second = Client::new(line.trim().strip_prefix("# host 2: ").unwrap());
    second.put("/v1/kv/k", b"v").unwrap();
    assert_eq!(served.client().get("/v1/kv/k?raw").unwrap().text(), "v");

    served.order("429?host=2");
    assert_eq!(second.get("/v1/kv/k?raw").unwrap().status, 429);
    assert_eq!(served.status(), Some(200));
}

#[test]
fn what_goes_wrong_is_said_on_the_command_line_and_while_it_runs() {
    let served = Served::start(&["--fault", "500?times=1&target=status"]);
    assert_eq!(served.status(), Some(500));
    assert_eq!(served.status(), Some(200));

    served.order("429");
    assert_eq!(served.status(), Some(429));
    served.order("clear");
    served.order("refuse");
    assert_eq!(served.status(), None);
    served.order("clear");
    served.order("lose-leader");
    assert_eq!(served.client().get("/v1/kv/k").unwrap().status, 500);
    served.order("elect-leader");
    assert_eq!(served.client().get("/v1/kv/k").unwrap().status, 404);

    let page = served.client().get("/mock").unwrap().text();
    assert!(
        page.contains("lose-answer") && page.contains("leader elected"),
        "{page}"
    );
}

#[test]
fn a_write_whose_answer_is_lost_is_applied_and_its_client_waits() {
    let served = Served::start(&[]);
    served.order("lose-answer?times=1");
    let impatient = served.client().with_timeout(Duration::from_millis(200));
    assert!(impatient.put("/v1/kv/k", b"v").is_err());
    assert_eq!(served.client().get("/v1/kv/k?raw").unwrap().text(), "v");

    served.order("partition");
    assert!(impatient.get("/v1/kv/k?raw").is_err());
    served.order("heal");
    assert_eq!(served.client().get("/v1/kv/k?raw").unwrap().text(), "v");
}

#[test]
fn an_order_that_nobody_understands_is_refused_and_changes_nothing() {
    let served = Served::start(&[]);
    for order in [
        "nonsense",
        "429?often",
        "429?times=x",
        "latency",
        "latency?ms=5&to=1",
    ] {
        let answer = served.client().put(&format!("/mock/{order}"), b"").unwrap();
        assert_eq!(answer.status, 400, "{order}");
    }
    assert_eq!(served.status(), Some(200));
    let refused = Command::new(PROGRAM).args(["--fault", "nonsense"]).output();
    assert!(!refused.unwrap().status.success());
}

#[test]
fn it_listens_at_the_port_that_is_given_or_says_why_not() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let refused = Command::new(PROGRAM).args(["--listen", &addr]).output();
    let refused = refused.unwrap();
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains(&format!("can't listen on {addr}")), "{said}");
    drop(taken);
    let served = Served::start(&["--listen", &addr]);
    assert_eq!(served.url, format!("http://{addr}"));
    assert_eq!(served.status(), Some(200));
}

#[test]
fn it_ends_when_its_standard_input_does() {
    let mut served = Served::start(&[]);
    drop(served.stdin.take());
    assert!(served.program.wait().unwrap().success());
}

#[test]
fn it_ends_when_its_parent_is_gone() {
    // The shell lives until its own standard input ends. The program has a different one.
    let mut shell = Command::new("sh")
        .args(["-c", "\"$0\" </dev/null & read -r _", PROGRAM])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(shell.stdout.take().unwrap());
    let mut said = String::new();
    stdout.read_line(&mut said).unwrap();
    assert!(
        said.starts_with("CONSUL_HTTP_ADDR=http://127.0.0.1:"),
        "{said}"
    );
    drop(shell.stdin.take());
    shell.wait().unwrap();
    // The program has the other end of this pipe.
    stdout.read_to_string(&mut said).unwrap();
}

#[test]
fn a_command_runs_with_its_address_and_decides_the_status() {
    let command = "test -n \"$CONSUL_HTTP_ADDR\" && exit 7";
    let status = Command::new(PROGRAM)
        .args(["--", "sh", "-c", command])
        .status();
    assert_eq!(status.unwrap().code(), Some(7));
}
