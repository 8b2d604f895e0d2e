//! Runs one agent by hand: `real-agent [--config HCL] [COMMAND …]`.
//!
//! With a command, runs it with `CONSUL_HTTP_ADDR` set and ends with its status. Without one,
//! prints the address and the process id, and lives until it is interrupted. `--config` adds
//! configuration, such as `limits { http_max_conns_per_client = 1000 }`.

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
    let agent = builder.start()?;
    let Some(program) = args.next() else {
        println!("CONSUL_HTTP_ADDR={} # process {}", agent.url(), agent.pid());
        loop {
            thread::park();
        }
    };
    let status = Command::new(program)
        .args(args)
        .env("CONSUL_HTTP_ADDR", agent.url())
        .status()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
