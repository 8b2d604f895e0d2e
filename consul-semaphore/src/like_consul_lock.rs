//! Behaves as `consul lock`, with its flags, environment and exit codes, for scripts that only
//! change the name.
//!
//! `docs/FROM-CONSUL-LOCK.md` describes it flag by flag, with all differences and their reasons.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgAction, Parser};
use transport_ureq::Semaphore;

use crate::agent::{Agent, AgentOptions};
use crate::cli::{dashes, duration};
use crate::elect::election;
use crate::exit::{Exit, Outcome};
use crate::failure::Failure;
use crate::holding::Holding;
use crate::logs;
use crate::notices::Notices;
use crate::program::Program;
use crate::subject::Subject;
use crate::supervise::OnLost;
use crate::turn::Turn;

/// Acquires a lock or semaphore at a prefix, and runs a command while it is held, as `consul lock` does
#[derive(Parser, Debug)]
#[command(name = "consul-lock", version)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
struct Options {
    /// Exit 2 if the command ended with an error
    #[arg(long, value_parser = truth, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set)]
    child_exit_code: bool,
    /// Accepted without effect: a hold survives a silence of Consul in any case
    #[arg(long, default_value_t = 3)]
    monitor_retry: u32,
    /// How many may hold at once; with 1 it is a lock, which Go's `api.Lock` shares
    #[arg(long, default_value_t = 1)]
    n: u32,
    /// The session's name
    #[arg(long)]
    name: Option<String>,
    /// Let the command read standard input
    #[arg(long, value_parser = truth, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set)]
    pass_stdin: bool,
    /// Let $SHELL run the command
    #[arg(long, value_parser = truth, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "true", action = ArgAction::Set)]
    shell: bool,
    /// Give up after this long; 0 waits
    #[arg(long, alias = "try", value_parser = duration::parse, default_value = "0")]
    timeout: Duration,
    /// Report each step
    #[arg(long, value_parser = truth, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set)]
    verbose: bool,
    /// Below which key
    prefix: String,
    /// The command
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    child: Vec<OsString>,
    #[command(flatten)]
    agent: AgentOptions,
}

/// Flags without a value.
const ALONE: &[&str] = &[
    "child-exit-code",
    "pass-stdin",
    "shell",
    "stale",
    "verbose",
    "h",
    "help",
    "version",
];

/// The arguments, if this program should act as `consul lock`: because of its name, or of its first
/// argument.
pub(crate) fn asked(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let (program, rest) = arguments.split_first()?;
    if Path::new(program).file_name() == Some(OsStr::new("consul-lock")) {
        return Some(rest.to_vec());
    }
    let (first, rest) = rest.split_first()?;
    (first == "--like-consul-lock").then(|| rest.to_vec())
}

pub(crate) fn main(arguments: Vec<OsString>) -> Exit {
    let options = match Options::try_parse_from(as_clap_reads(arguments)) {
        Ok(options) => options,
        Err(error) => {
            // If the output is closed, nobody can be told that either.
            let _ = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::SUCCESS,
                _ => FAILED,
            };
        }
    };
    let holding = options.holding();
    let notices = Notices::new(false, options.verbose);
    if options.verbose {
        logs::begin(notices.stderr());
    }
    match options.take(&holding, &notices) {
        Ok(outcome) => options.exit(outcome),
        Err(failure) => {
            notices.fail(&failure, FAILED);
            FAILED
        }
    }
}

/// The exit code of every failure of `consul lock`.
const FAILED: Exit = Exit::of_code(1);

/// With `-child-exit-code`, the exit code for every failure of the command.
const CHILD_FAILED: Exit = Exit::of_code(2);

/// Go's flags, up to the prefix: one or two dashes, `-flag value` or `-flag=value`.
fn as_clap_reads(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut read = vec![OsString::from("consul-lock")];
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let text = argument.to_str();
        let flag = text.and_then(|text| dashes::flag(text).or_else(|| text.strip_prefix("--")));
        let Some(flag) = flag.filter(|flag| !flag.is_empty()) else {
            read.push(OsString::from("--"));
            // A `--` alone has no other effect.
            read.extend((argument != "--").then_some(argument));
            break;
        };
        let flag = if flag == "h" { "help" } else { flag };
        read.push(OsString::from(format!("--{flag}")));
        let is_whole = flag.contains('=') || ALONE.contains(&flag);
        if !is_whole && let Some(value) = arguments.next() {
            read.push(value);
        }
    }
    read.extend(arguments);
    read
}

/// The prefix as the keys of `consul lock` have it, which Go's `path.Join` makes: without empty
/// segments and dots. What leads out of Consul's keys stays, and is refused.
fn cleaned(prefix: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in prefix.split('/') {
        match segment {
            "" | "." => {}
            ".." if kept.last().is_some_and(|last| *last != "..") => {
                kept.pop();
            }
            _ => kept.push(segment),
        }
    }
    kept.join("/")
}

/// As Go's `strconv.ParseBool`.
fn truth(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("neither true nor false".to_owned()),
    }
}

impl Options {
    fn holding(&self) -> Holding {
        Holding {
            timeout: (!self.timeout.is_zero()).then_some(self.timeout),
            is_try: false,
            name: Some(self.session_name()),
            value: None,
            // The default of `consul lock`.
            ttl: Duration::from_secs(15),
            grace: Duration::from_secs(5),
            on_lost: OnLost::Term,
            conflict_exit_code: None,
            shell: self.shell,
            verbose: self.verbose,
            json: false,
            events: None,
        }
    }

    /// Without the command. `consul lock` shows it to all who may read sessions.
    fn session_name(&self) -> String {
        match &self.name {
            Some(name) => name.clone(),
            None => format!("Consul lock at '{}'", self.prefix()),
        }
    }

    fn prefix(&self) -> String {
        cleaned(&self.prefix)
    }

    fn take(&self, holding: &Holding, notices: &Notices) -> Result<Outcome, Failure> {
        let mut program = Program::find(&self.child, self.shell)?;
        program.reads_stdin = self.pass_stdin;
        let mut options = self.agent.clone();
        options.takes_token = true;
        let agent = options.connect()?;
        let subject = self.subject(&agent, holding)?;
        Turn {
            agent: &agent,
            subject: &subject,
            holding,
            notices,
            program: &program,
            variables: &[("CONSUL_LOCK_HELD", OsString::from("true"))],
        }
        .take()
    }

    fn subject(&self, agent: &Agent, holding: &Holding) -> Result<Subject, Failure> {
        let prefix = self.prefix();
        if self.n == 1 {
            let key = format!("{prefix}/.lock");
            let election = election(agent, &key, holding)?;
            return Ok(Subject::Lead { election });
        }
        let builder = Semaphore::builder(&prefix, self.n)
            .scope(agent.scope.clone())
            .value(holding.value())
            .ttl(holding.ttl)
            .session_name(holding.session_name())
            .keep_lost();
        Ok(Subject::Slots {
            semaphore: builder.connect(agent.transport.clone())?,
            permits: 1,
            limit: self.n,
        })
    }

    fn exit(&self, outcome: Outcome) -> Exit {
        match outcome {
            Outcome::Command(status) if status.success() || !self.child_exit_code => Exit::SUCCESS,
            Outcome::Command(_) => CHILD_FAILED,
            Outcome::Lost | Outcome::Interrupted(_) => FAILED,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parsed(words: &str) -> Options {
        let words = words.split(' ').map(OsString::from).collect();
        Options::try_parse_from(as_clap_reads(words)).unwrap()
    }

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn flags_are_spelled_as_go_spells_them() {
        let options =
            parsed("-n 3 -name=nightly -child-exit-code -shell=false --timeout 5s p ls -n -l");
        assert_eq!((options.n, options.name.as_deref()), (3, Some("nightly")));
        assert!(options.child_exit_code && !options.shell && !options.pass_stdin);
        assert_eq!(options.timeout, Duration::from_secs(5));
        assert_eq!(options.prefix, "p");
        assert_eq!(options.child, ["ls", "-n", "-l"]);
    }

    #[test]
    fn flags_end_at_the_prefix_or_at_two_dashes() {
        for words in [
            "-verbose p echo -verbose -- x",
            "-verbose -- p echo -verbose -- x",
        ] {
            let options = parsed(words);
            assert!(options.verbose);
            assert_eq!(options.prefix, "p");
            assert_eq!(options.child, ["echo", "-verbose", "--", "x"]);
        }
    }

    #[test]
    fn a_prefix_is_cleaned_as_go_joins_paths() {
        for (given, clean) in [
            ("a/b", "a/b"),
            ("/a/b/", "a/b"),
            ("a//b", "a/b"),
            ("./a", "a"),
            ("a/./b", "a/b"),
            ("x/../a", "a"),
            ("a/..", ""),
            ("../a", "../a"),
            ("x/../../a", "../a"),
            (" a", " a"),
            (".", ""),
        ] {
            assert_eq!(cleaned(given), clean, "{given}");
        }
    }

    #[test]
    fn the_name_shows_nothing_of_the_command() {
        let options = parsed("/p mysql --password=hunter2");
        assert_eq!(options.session_name(), "Consul lock at 'p'");
    }

    #[test]
    fn it_is_asked_for_by_its_name_or_by_a_flag() {
        let asked_by = |words: &str| {
            let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
            asked(&words)
        };
        assert_eq!(asked_by("/usr/bin/consul-lock p ls").unwrap(), ["p", "ls"]);
        assert_eq!(asked_by("x --like-consul-lock p ls").unwrap(), ["p", "ls"]);
        assert_eq!(asked_by("consul-semaphore run p"), None);
    }
}
