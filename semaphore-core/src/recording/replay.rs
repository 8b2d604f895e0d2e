//! Replays a recording: gives a machine the recorded inputs, and tells what it did.

use core::fmt;
use core::iter;
use std::collections::BTreeMap;

use super::digest::digest_of;
use super::head::{Head, Recorded};
use super::line::{Line, Step};
use crate::asked::Asked;
use crate::http::Response;
use crate::id::{CommandId, RequestId};
use crate::input::{InvalidInput, Value};
use crate::machine::{
    Candidate, Command, Event, Machine, Member as _, News, Notice, Outage, Participant, RequestEnd,
};
use crate::time::Instant;
use crate::transport::TransportError;

/// Why a recording can't be replayed to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The recording is empty.
    #[error("the recording is empty")]
    Empty,
    /// A line is not a recording's line, or is cut off.
    #[error("line {line} is not a line of a recording; is the file cut off?")]
    Garbled {
        /// Its number, from 1 on.
        line: usize,
        /// What is wrong with it.
        #[source]
        source: Option<serde_json::Error>,
    },
    /// Another version of the crate wrote it in another format.
    #[error("the recording has a form that this version does not know")]
    UnknownForm,
    /// No machine can have these settings.
    #[error("the first line has settings that no semaphore or election can have")]
    InvalidSettings(#[source] InvalidInput),
    /// The machine did something else than before: another version wrote the recording.
    #[error(
        "line {line}: the replay sends something else than was sent then; was it recorded by another version?"
    )]
    Diverged {
        /// Its number, from 1 on.
        line: usize,
    },
}

/// What happened, step by step. As text, it is the same, byte for byte, for the same recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    lines: Vec<String>,
    is_full: bool,
}

impl Story {
    /// The lines, each with its time.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }

    /// Whether the recorder had no room for the rest.
    pub fn is_full(&self) -> bool {
        self.is_full
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Replays a recording, and tells its story.
///
/// # Errors
/// [`ReplayError`], with the number of the line.
pub fn replay(recording: &str) -> Result<Story, ReplayError> {
    let mut lines = (1..).zip(recording.split_inclusive('\n'));
    let (_, first) = lines.next().ok_or(ReplayError::Empty)?;
    let head: Head = read(1, first)?;
    if !head.is_known() {
        return Err(ReplayError::UnknownForm);
    }
    let mut story = Story {
        lines: vec![format!("a recording of {}", head.name())],
        is_full: false,
    };
    let mut lines = lines.map(|(number, text)| Ok((number, read::<Line>(number, text)?)));
    match head.machine().map_err(ReplayError::InvalidSettings)? {
        Recorded::Semaphore(machine) => {
            Replay::new(*machine, contend).run(&mut lines, &mut story)?;
        }
        Recorded::Election(machine) => {
            Replay::new(*machine, campaign).run(&mut lines, &mut story)?;
        }
    }
    Ok(story)
}

fn read<T: serde::de::DeserializeOwned>(line: usize, text: &str) -> Result<T, ReplayError> {
    let whole = text.strip_suffix('\n');
    let whole = whole.ok_or(ReplayError::Garbled { line, source: None })?;
    serde_json::from_str(whole).map_err(|error| ReplayError::Garbled {
        line,
        source: Some(error),
    })
}

/// Repeats a command to a semaphore's machine. Returns whether it has such a command. What was
/// refused then is refused again.
fn contend(machine: &mut Participant, now: Instant, command: &Command) -> bool {
    match command {
        Command::Acquire { permits, until } => {
            drop(machine.acquire(now, *permits, until.map(Into::into)));
        }
        Command::TryAcquire { permits } => drop(machine.try_acquire(now, *permits)),
        Command::SetLimit { limit } => drop(machine.set_limit(now, *limit)),
        command => return obey(machine, now, command),
    }
    true
}

/// Repeats a command to an election's machine.
fn campaign(machine: &mut Candidate, now: Instant, command: &Command) -> bool {
    match command {
        Command::Campaign { until } => drop(machine.campaign(now, until.map(Into::into))),
        Command::TryCampaign => drop(machine.try_campaign(now)),
        Command::SetValue { of, value } => {
            let Ok(value) = Value::new(value.clone()) else {
                return false;
            };
            machine.set_value(now, CommandId(*of), &value);
        }
        command => return obey(machine, now, command),
    }
    true
}

/// Repeats a command that every machine has.
fn obey<M: Machine>(machine: &mut M, now: Instant, command: &Command) -> bool {
    match command {
        Command::Cancel { of } => machine.cancel(now, CommandId(*of)),
        Command::Release { of } => machine.release(now, CommandId(*of)),
        Command::Close => machine.close(now),
        _ => return false,
    }
    true
}

/// A machine, and how it gets a command.
struct Replay<M> {
    machine: M,
    obey: fn(&mut M, Instant, &Command) -> bool,
    /// The unanswered requests, for errors that name them.
    asked: BTreeMap<RequestId, Asked>,
    /// Whether Consul served it.
    outage: Outage,
}

impl<M: Machine> Replay<M> {
    fn new(machine: M, obey: fn(&mut M, Instant, &Command) -> bool) -> Self {
        Self {
            machine,
            obey,
            asked: BTreeMap::new(),
            outage: Outage::default(),
        }
    }

    fn run(
        mut self,
        lines: &mut dyn Iterator<Item = Result<(usize, Line), ReplayError>>,
        story: &mut Story,
    ) -> Result<(), ReplayError> {
        self.machine.listen(true);
        for line in lines {
            let (number, Line { at, step }) = line?;
            let at = Instant::from(at);
            let mut told = self.take(number, at, &step)?;
            told.extend(self.outcomes());
            let told = told.into_iter();
            story.lines.extend(told.map(|it| format!("{at} {it}")));
            story.is_full |= step == Step::Full;
        }
        Ok(())
    }

    /// Does one step, and returns what to tell about it.
    fn take(&mut self, line: usize, at: Instant, step: &Step) -> Result<Vec<String>, ReplayError> {
        let garbled = || ReplayError::Garbled { line, source: None };
        match step {
            Step::Command(command) => {
                if !(self.obey)(&mut self.machine, at, command) {
                    return Err(garbled());
                }
                Ok(vec![format!("command {command:?}")])
            }
            Step::Answer(answer) => {
                let id = RequestId(answer.id);
                let result = answer.result().ok_or_else(garbled)?;
                let result = match self.asked.remove(&id) {
                    Some(asked) => told_of(asked, result),
                    None => result,
                };
                let text = match &result {
                    Ok(response) => {
                        let (status, length) = (response.status(), response.body().len());
                        format!("< {} {status} ({length} B)", answer.id)
                    }
                    Err(error) => format!("< {} {}", answer.id, error),
                };
                let news = News::Response(id, result);
                let end = self.machine.handle(at, news);
                let heard = end.into_iter().flat_map(|end| self.hear(&end));
                Ok(iter::once(text).chain(heard).collect())
            }
            Step::Time { sent } => {
                let report = self.machine.attend(at);
                if digest_of(report.transmits()) != *sent {
                    return Err(ReplayError::Diverged { line });
                }
                self.outage.let_time_pass(at);
                let mut told = self.told_of_outage();
                let sent = report.transmits().iter().map(|it| {
                    // A recording does not say whether the request had a token.
                    let asked = Asked::of(it.request.method().as_str(), it.request.target(), true);
                    self.asked.insert(it.id, asked);
                    let (method, target) = (it.request.method(), it.request.target());
                    let length = it.request.body().len();
                    format!("> {} {method} {target} ({length} B)", it.id.0)
                });
                told.extend(sent);
                Ok(told)
            }
            Step::Full => Ok(vec![
                "the recorder has no room for what came after".to_owned(),
            ]),
        }
    }

    /// What follows from how a request ended.
    fn hear(&mut self, end: &RequestEnd) -> Vec<String> {
        let error = end.failure().cloned();
        let failed = error.map(|error| Notice::RequestFailed { error });
        self.outage.hear(end);
        let failed = failed.into_iter().map(|it| format!("notice {it}"));
        failed.chain(self.told_of_outage()).collect()
    }

    fn told_of_outage(&mut self) -> Vec<String> {
        let notices = iter::from_fn(|| self.outage.poll());
        notices.map(|it| format!("notice {it}")).collect()
    }

    /// What the machine reports.
    fn outcomes(&mut self) -> Vec<String> {
        let events = iter::from_fn(|| self.machine.poll_event()).map(|it| outcome(&it));
        let mut told: Vec<_> = events.collect();
        let notices = iter::from_fn(|| self.machine.poll_notice());
        told.extend(notices.map(|it| format!("notice {it}")));
        told
    }
}

/// The outcome of this request.
fn told_of(
    asked: Asked,
    result: Result<Response, TransportError>,
) -> Result<Response, TransportError> {
    match result {
        Ok(response) => Ok(response.to(asked)),
        Err(error) => Err(error.of(asked)),
    }
}

fn outcome<G: fmt::Debug>(event: &Event<G>) -> String {
    let command = event.command();
    match event {
        Event::Granted { grant, .. } => format!("event {command} is granted {grant:?}"),
        Event::NotAvailable { refusal, .. } => {
            format!("event {command} is not available: {refusal}")
        }
        Event::Failed { error, .. } => format!("event {command} fails: {error}"),
        Event::Lost { reason, .. } => format!("event {command} is lost: {reason}"),
        Event::Done { result, .. } => match result {
            Ok(()) => format!("event {command} is done"),
            Err(error) => format!("event {command} is done: {error}"),
        },
    }
}
