//! A Consul in memory for clients of any language, with faults on demand.

use std::error::Error;
use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::oneshot;
use transport_mock::MockConsul;

const USAGE: &str = "\
consul-in-memory [OPTION …] [-- COMMAND …]

Serves a Consul in memory, and prints CONSUL_HTTP_ADDR=…; with a command, runs that with CONSUL_HTTP_ADDR set, and ends with
its status. Otherwise it ends with its parent, and when its standard input is a pipe that ends.

--listen ADDR   where: 127.0.0.1:8500, [::1]:0 (a port that the system chooses), 127.0.0.1:0 unless told. Each further one is
                a separate host for faults: 1, 2, …
--fault ORDER   what goes wrong from the start: `latency?ms=20`, `lose-answer?rate=0.1`. While it runs it takes orders as
                `curl -X PUT $CONSUL_HTTP_ADDR/mock/partition`, and `curl $CONSUL_HTTP_ADDR/mock` lists them
--seed N        what happens at random, and the ids of sessions
--stay          does not end with its parent
";

type Failure = Box<dyn Error + Send + Sync>;

#[derive(Default)]
struct Options {
    listen: Vec<String>,
    faults: Vec<String>,
    seed: u64,
    stay: bool,
    command: Vec<String>,
}

impl Options {
    /// `None` if help is asked for.
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Self>, Failure> {
        let mut options = Self::default();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--listen" => options.listen.push(value()?),
                "--fault" => options.faults.push(value()?),
                "--seed" => options.seed = value()?.parse()?,
                "--stay" => options.stay = true,
                "--help" | "-h" => return Ok(None),
                "--" => options.command = args.by_ref().collect(),
                _ => return Err(format!("there is no option {arg}: see --help").into()),
            }
        }
        if options.listen.is_empty() {
            options.listen.push("127.0.0.1:0".to_owned());
        }
        Ok(Some(options))
    }
}

fn main() -> ExitCode {
    run().unwrap_or_else(|failure| {
        eprintln!("consul-in-memory: {failure}");
        ExitCode::FAILURE
    })
}

fn run() -> Result<ExitCode, Failure> {
    // Noted before anybody can learn the address and end.
    let parent = parent();
    let Some(options) = Options::parse(std::env::args().skip(1))? else {
        io::stdout().write_all(USAGE.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve(options, parent))
}

async fn serve(options: Options, parent: u32) -> Result<ExitCode, Failure> {
    let world = MockConsul::on_tokio(options.seed);
    world.set_patience(Duration::MAX);
    world.set_latency(Duration::ZERO..=Duration::ZERO);
    for order in &options.faults {
        world.order(order)?;
    }
    let mut urls = Vec::new();
    for (host, addr) in (1..).zip(&options.listen) {
        let listener = TcpListener::bind(addr).await;
        let listener = listener.map_err(|error| format!("can't listen on {addr}: {error}"))?;
        urls.push(format!("http://{}", listener.local_addr()?));
        let world = world.clone();
        tokio::spawn(async move {
            world.serve(&listener, host.to_string()).await;
        });
    }
    let url = urls.first().cloned().unwrap_or_default();
    if let Some((program, args)) = options.command.split_first() {
        let mut command = Command::new(program);
        command.args(args).env("CONSUL_HTTP_ADDR", url);
        let status = command.status().await?;
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        return Ok(code.map_or(ExitCode::FAILURE, ExitCode::from));
    }
    for (host, url) in (1..).zip(&urls) {
        let line = if host == 1 {
            format!("CONSUL_HTTP_ADDR={url}\n")
        } else {
            format!("# host {host}: {url}\n")
        };
        io::stdout().write_all(line.as_bytes())?;
    }
    io::stdout().flush()?;
    if options.stay {
        std::future::pending::<()>().await;
    }
    end_of_parent(parent).await;
    Ok(ExitCode::SUCCESS)
}

/// Waits until the parent process is gone, or has closed the pipe to this one.
async fn end_of_parent(parent: u32) {
    let (ended, end) = oneshot::channel();
    if is_pipe() {
        thread::spawn(move || {
            // Input and errors are ignored: only the end of the pipe matters.
            let mut stdin = io::stdin().lock();
            let mut buffer = [0; 256];
            while matches!(stdin.read(&mut buffer), Ok(length) if length > 0) {}
            let _ = ended.send(());
        });
        tokio::select! {
            _ = end => {}
            () = parent_gone(parent) => {}
        }
    } else {
        parent_gone(parent).await;
    }
}

#[cfg(unix)]
fn is_pipe() -> bool {
    use std::os::unix::fs::FileTypeExt as _;

    std::fs::metadata("/dev/stdin").is_ok_and(|stdin| stdin.file_type().is_fifo())
}

#[cfg(not(unix))]
fn is_pipe() -> bool {
    false
}

/// Waits until this process has another parent.
async fn parent_gone(before: u32) {
    while parent() == before {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[cfg(unix)]
fn parent() -> u32 {
    std::os::unix::process::parent_id()
}

/// On other systems a process can't ask for its parent.
#[cfg(not(unix))]
fn parent() -> u32 {
    0
}
