//! The command `consul-semaphore` runs another command while it holds a slot in Consul, or while it leads. It also shows, checks and
//! manages semaphores.
//!
//! ```text
//!  cli ── what was asked for ──▶ run, elect ──▶ turn ──▶ supervise ──▶ child ──▶ stage ──▶ the command
//!   │                              │             │           │
//!   │                            agent        subject      hold: the permit or the lead, and how long it lasts
//!   └──▶ status, list, resize, evict, destroy, check, dev, completions
//! ```
//!
//! | file | has |
//! |---|---|
//! | `cli`, `cli/dashes` | the command line, and flags with one dash as in Go |
//! | `agent` | the choice of Consul and of the token |
//! | `exit` | the exit codes: an interface |
//! | `failure` | every failure, with its exit code |
//! | `run`, `elect` | the two ways to hold something |
//! | `holding` | the options of both |
//! | `subject` | slots of a semaphore, or the lead |
//! | `turn` | waits, runs, gives back |
//! | `queue` | the display while it waits |
//! | `hold` | a permit or a leadership: how long it lasts, and why it ended |
//! | `supervise`, `supervise/plan` | ends the child before the lease ends |
//! | `child`, `child/stage`, `child/terminal` | the child's process group: its start, and the terminal |
//! | `child/reaper`, `child/processes` | when children stop and end; other processes, and whether a shell could continue this one |
//! | `child/guard`, `child/will` | the guard that kills the child if this process was killed, and then ends the session |
//! | `signals` | the signals to this process |
//! | `notices` | its messages: lines for people, or events for programs |
//! | `logs` | the libraries' messages |
//! | `outlet` | where both go: nobody waits for a reader that has stopped |
//! | `output` | standard output, of commands that hold nothing |
//! | `text` | text from others, made safe for a terminal |
//! | `status`, `overview`, `timeline`, `list` | who holds, who waits, who held when |
//! | `manage` | changes by operators; `confirm` asks them before |
//! | `check` | checks everything that a semaphore needs |
//! | `like_consul_lock` | behaves like `consul lock`, by its name or a flag |
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
mod outlet;
mod output;
mod overview;
mod program;
mod queue;
mod run;
mod signals;
mod status;
mod subject;
mod supervise;
mod text;
mod timeline;
mod turn;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = child::stage::enter().or_else(child::guard::enter) {
        return code.into();
    }
    cli::main().into()
}
