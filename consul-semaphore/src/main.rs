//! Runs a command while it holds a slot of a semaphore in Consul, or while it leads. Also shows,
//! checks and manages semaphores.
//!
//! ```text
//!  cli ── what was asked for ──▶ run, elect ──▶ turn ──▶ supervise ──▶ child ──▶ stage ──▶ the command
//!   │                              │             │           │
//!   │                            agent        subject      hold: the permit or the lead, and how long it lasts
//!   └──▶ status, list, resize, evict, destroy, collect, check, replay, dev, completions
//! ```
//!
//! | file | says |
//! |---|---|
//! | `cli`, `cli/dashes` | the command line, and flags that are spelled as Go spells them |
//! | `agent` | which Consul, with which token |
//! | `exit` | the exit codes: an interface |
//! | `failure` | what can go wrong, and which code that is |
//! | `run`, `elect` | the two ways to hold something |
//! | `holding` | what the two have in common |
//! | `subject` | what is waited for: slots of a semaphore, or the lead |
//! | `turn` | waits, runs, gives back |
//! | `queue` | what is shown while it waits |
//! | `hold` | a permit or a leadership: until when, and why not any longer |
//! | `supervise`, `supervise/plan` | the child ends before the lease does |
//! | `child`, `child/stage`, `child/terminal`, `child/guard` | a separate process group: how it starts, who has the terminal, and who kills it when this process was killed |
//! | `signals` | what this process is told |
//! | `notices` | what it tells: lines for people, or events for programs |
//! | `logs` | what the libraries tell |
//! | `status`, `overview`, `timeline`, `list` | who holds, who waits, who held when |
//! | `manage` | what operators change; `confirm` asks them before |
//! | `check` | is all there that a semaphore needs? |
//! | `like_consul_lock` | as `consul lock`, by its name or a flag |
//! | `replay` | the story of a recording |
//! | `dev` | a Consul in memory |

#[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
compile_error!(
    "consul-semaphore needs process groups, signals, and to learn of the end of a process without reaping it: it is for Linux and \
     FreeBSD"
);

mod agent;
mod check;
mod child;
mod cli;
mod confirm;
#[cfg(feature = "dev")]
mod dev;
mod elect;
mod exit;
mod failure;
mod hold;
mod holding;
mod identity;
mod like_consul_lock;
mod list;
mod logs;
mod manage;
mod notices;
mod output;
mod overview;
mod program;
mod queue;
mod replay;
mod run;
mod signals;
mod status;
mod subject;
mod supervise;
mod timeline;
mod turn;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = child::stage::enter().or_else(child::guard::enter) {
        return code.into();
    }
    cli::main().into()
}
