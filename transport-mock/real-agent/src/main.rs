//! Runs one agent by hand: `real-agent [COMMAND …]`.
//!
//! With a command, runs it with `CONSUL_HTTP_ADDR` set and ends with its status. Without one,
//! prints the address and the process id, and lives until it is interrupted.

use std::error::Error;
use std::process::{Command, ExitCode};
use std::{env, thread};

use real_agent::Agent;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let agent = Agent::start()?;
    let mut args = env::args_os().skip(1);
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
