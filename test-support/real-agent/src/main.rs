//! Runs one agent by hand: `real-agent [--config HCL] [--socket] [COMMAND …]`.
//!
//! With a command, it runs the command with `CONSUL_HTTP_ADDR` set and ends with its status.
//! Without one, it prints the address and the process id, and runs until it is interrupted.
//! `--config` adds configuration, such as `limits { http_max_conns_per_client = 1000 }`. With
//! `--socket` the address is a Unix socket, `unix:///…`.

use std::error::Error;
use std::process::{Command, ExitCode};
use std::{env, thread};

use real_agent::Agent;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut args = env::args_os().skip(1).peekable();
    let mut builder = Agent::builder();
    if args.next_if(|arg| arg == "--config").is_some() {
        let config = args.next().ok_or("--config needs a value")?;
        builder = builder.config(config.into_string().map_err(|_| "--config needs text")?);
    }
    let on_socket = args.next_if(|arg| arg == "--socket").is_some();
    if on_socket {
        builder = builder.socket();
    }
    let agent = builder.start()?;
    let url = if on_socket {
        agent.socket_url()
    } else {
        agent.url()
    };
    let Some(program) = args.next() else {
        println!("CONSUL_HTTP_ADDR={url} # process {}", agent.pid());
        loop {
            thread::park();
        }
    };
    let status = Command::new(program)
        .args(args)
        .env("CONSUL_HTTP_ADDR", url)
        .status()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
