//! `check`: whether a semaphore or an election has everything that it needs. It says what is wrong and what to do,
//! with an exit code for each case.
//!
//! | file | looks at |
//! |---|---|
//! | `way` | address, TLS, a leader |
//! | `token` | whether Consul knows the token |
//! | `permissions` | whether it may do what is needed: by doing it |
//! | `agent` | the release, and its limits |
//! | `keys` | whether every release takes the name |
//! | `clock` | whether this machine's clock runs as fast as the agent's |
//! | `others` | who else is there |
//! | `target` | nothing: it is what is checked |

mod agent;
mod clock;
mod keys;
mod others;
mod permissions;
mod target;
mod token;
mod way;

use std::time::Duration;

use clap::Args;
use semaphore_core::adapter::{Method, Request, Response};
use semaphore_core::sans_io::SessionOptions;
use transport_ureq::RequestError;

use self::target::Target;
use crate::agent::{Agent, AgentOptions};
use crate::cli::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::holding;
use crate::output::print;

/// Check that Consul can be used, and say what to do where it can't
#[derive(Args, Clone, Debug)]
#[command(after_help = HELP)]
pub(crate) struct CheckOptions {
    /// The semaphore, or the election's key; without it neither permissions nor keys are checked
    name: Option<String>,
    /// The name is an election's key
    #[arg(long, requires = "name")]
    election: bool,
    /// Print the least policy that the token needs, and check nothing
    #[arg(long, requires = "name")]
    policy: bool,
    /// The TTL that `run` will be given: the agent must accept it
    #[arg(long, value_parser = duration::parse, default_value = holding::TTL, value_name = "DURATION")]
    ttl: Duration,
    /// Skip the clock check, which takes three seconds
    #[arg(long)]
    no_clock: bool,
}

const HELP: &str = "\
The exit code is that of the first failure:
  10  the address can't be understood       16  the release is too old, or one to avoid
  11  TLS fails                             17  the agent's limits are too low
  12  the agent can't be reached            18  not every release takes the name as a key
  13  the agent has no leader               19  the clock runs slower or faster than the agent's
  14  the token is unknown or unreadable    20  clients of another kind are there
  15  the token lacks a permission";

const ADDRESS: Exit = Exit::of_code(10);
const TLS: Exit = Exit::of_code(11);
const UNREACHABLE: Exit = Exit::of_code(12);
const NO_LEADER: Exit = Exit::of_code(13);
const TOKEN: Exit = Exit::of_code(14);
const PERMISSION: Exit = Exit::of_code(15);
const RELEASE: Exit = Exit::of_code(16);
const LIMITS: Exit = Exit::of_code(17);
const KEY: Exit = Exit::of_code(18);
const CLOCK: Exit = Exit::of_code(19);
const OTHERS: Exit = Exit::of_code(20);

/// The result of one check.
struct Finding {
    about: &'static str,
    verdict: Verdict,
    text: String,
}

enum Verdict {
    Good,
    /// It works, and costs more than it has to.
    Dear {
        advice: String,
    },
    /// It can't be known, and need not be wrong.
    Unknown,
    Bad {
        exit: Exit,
        advice: String,
    },
}

impl Finding {
    fn good(about: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            about,
            verdict: Verdict::Good,
            text,
        }
    }

    fn dear(about: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        let (text, advice) = (text.into(), advice.into());
        Self {
            about,
            verdict: Verdict::Dear { advice },
            text,
        }
    }

    fn unknown(about: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            about,
            verdict: Verdict::Unknown,
            text,
        }
    }

    fn bad(
        about: &'static str,
        exit: Exit,
        text: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let (text, advice) = (text.into(), advice.into());
        Self {
            about,
            verdict: Verdict::Bad { exit, advice },
            text,
        }
    }

    fn exit(&self) -> Option<Exit> {
        match &self.verdict {
            Verdict::Bad { exit, .. } => Some(*exit),
            Verdict::Good | Verdict::Dear { .. } | Verdict::Unknown => None,
        }
    }

    fn shown(&self) -> String {
        let word = match &self.verdict {
            Verdict::Good => "ok",
            Verdict::Dear { .. } => "warn",
            Verdict::Unknown => "?",
            Verdict::Bad { .. } => "FAIL",
        };
        let mut text = format!("{word:<5} {:<12} {}\n", self.about, self.text);
        if let Verdict::Bad { advice, .. } | Verdict::Dear { advice } = &self.verdict {
            for line in advice.lines() {
                text.push_str("                   ");
                text.push_str(line);
                text.push('\n');
            }
        }
        text
    }
}

/// Prints each finding at once, and remembers the first failure.
#[derive(Default)]
struct Report {
    first: Option<Exit>,
}

impl Report {
    fn add(&mut self, finding: &Finding) -> Result<(), Failure> {
        self.first = self.first.or(finding.exit());
        print(&finding.shown())
    }

    fn exit(&self) -> Exit {
        self.first.unwrap_or(Exit::SUCCESS)
    }
}

pub(crate) fn check(options: &AgentOptions, check: &CheckOptions) -> Result<Exit, Failure> {
    let name = check.name.as_ref();
    let target = name.map(|name| Target::new(name, check.election));
    let target = target.transpose()?;
    let session = permissions::session(check.ttl)?;
    let mut report = Report::default();
    let agent = match options.connect() {
        Ok(agent) => agent,
        Err(failure) => {
            report.add(&way::unusable(&failure))?;
            return Ok(report.exit());
        }
    };
    if check.policy {
        let policy = target.map(|target| target.policy(None));
        print(&policy.unwrap_or_default())?;
        return Ok(Exit::SUCCESS);
    }
    agent.wait(check.all(&agent, target.as_ref(), &session))
}

impl CheckOptions {
    async fn all(
        &self,
        agent: &Agent,
        target: Option<&Target>,
        session: &SessionOptions,
    ) -> Result<Exit, Failure> {
        let mut report = Report::default();
        let way = way::check(agent).await;
        report.add(&way)?;
        // Without a connection nothing else can be checked.
        if way.exit().is_some() {
            return Ok(report.exit());
        }
        let token = token::check(agent).await;
        report.add(&token)?;
        let known = agent::Known::read(agent).await;
        report.add(&known.release())?;
        report.add(&known.limits())?;
        if let Some(target) = target {
            report.add(&keys::check(target.name()))?;
            if token.exit().is_none() {
                let needed = permissions::check(agent, target, session, known.node()).await;
                report.add(&needed)?;
                let sees_all = matches!(needed.verdict, Verdict::Good);
                for finding in others::check(agent, target, sees_all).await {
                    report.add(&finding)?;
                }
            }
        }
        if !self.no_clock {
            report.add(&clock::check(agent).await)?;
        }
        Ok(report.exit())
    }
}

/// A read that the libraries don't have.
async fn get(agent: &Agent, path: &str) -> Result<Response, RequestError> {
    let request = Request::new(Method::Get, path).with_token(agent.token());
    agent.send(request).await
}

/// Whether a refusal is about the token. An agent that does not serve something at all, and a
/// gateway, refuse with other texts.
fn is_of_acls(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["acl", "permission denied", "may not read"]
        .iter()
        .any(|known| text.contains(known))
}

/// The content of an answer in one line.
fn said(response: &Response) -> String {
    let text = String::from_utf8_lossy(response.body());
    let text = crate::identity::printable(text.trim());
    format!("{} {text}", response.status())
}
