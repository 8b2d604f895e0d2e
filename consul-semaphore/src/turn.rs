//! Waits for its turn, runs the command, and gives back what it held.

use std::ffi::OsString;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use semaphore_core::adapter::{Response, Runtime as _};
use transport_ureq::Error;

use crate::agent::{Agent, AgentOptions};
use crate::child::will::Will;
use crate::child::{self, Child};
use crate::exit::{Exit, Outcome};
use crate::failure::{Failure, whole};
use crate::hold::Hold;
use crate::holding::{Holding, conclude};
use crate::notices::{Event, Notices};
use crate::program::Program;
use crate::queue;
use crate::signals::Signals;
use crate::subject::Subject;
use crate::supervise::Supervisor;

/// After this time without an answer, a wait without a limit reports it.
const FIRST_ANSWER: Duration = Duration::from_secs(15);

/// How long giving back is tried before it is left to the TTL.
const GIVING_BACK: Duration = Duration::from_secs(10);

/// The same for a program that was told to end while it waited.
const LEAVING: Duration = Duration::from_secs(1);

pub(crate) struct Turn<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) subject: &'a Subject,
    pub(crate) holding: &'a Holding,
    pub(crate) notices: &'a Notices,
    pub(crate) program: &'a Program,
    /// Further variables of the command.
    pub(crate) variables: &'a [(&'static str, OsString)],
}

/// Runs a command while this process holds what `subject` makes, and reports how that ended.
pub(crate) fn run_command(
    agent: &AgentOptions,
    holding: &Holding,
    command: &[OsString],
    subject: impl FnOnce(&Agent) -> Result<Subject, Failure>,
) -> Exit {
    let notices = match holding.notices() {
        Ok(notices) => notices,
        Err(failure) => {
            let exit = failure.exit();
            Notices::plain().fail(&failure, exit);
            return exit;
        }
    };
    let ran = run_while_held(agent, holding, &notices, command, subject);
    conclude(holding, &notices, ran)
}

fn run_while_held(
    agent: &AgentOptions,
    holding: &Holding,
    notices: &Notices,
    command: &[OsString],
    subject: impl FnOnce(&Agent) -> Result<Subject, Failure>,
) -> Result<Outcome, Failure> {
    holding.check()?;
    let program = Program::find(command, holding.shell)?;
    let agent = agent.connect()?;
    let subject = subject(&agent)?;
    Turn {
        agent: &agent,
        subject: &subject,
        holding,
        notices,
        program: &program,
        variables: &[],
    }
    .take()
}

/// How waiting ended.
enum Waited {
    Granted(Hold),
    Signal(i32),
}

impl Turn<'_> {
    /// The whole turn, on this thread, which must be the main one.
    pub(crate) fn take(self) -> Result<Outcome, Failure> {
        child::check()?;
        let signals = Signals::listen()?;
        let what = self.subject.to_string();
        self.agent.wait_for(what, self.run(signals))
    }

    async fn run(&self, mut signals: Signals) -> Result<Outcome, Failure> {
        let subject = self.subject.name();
        self.notices.tell(&Event::Waiting { subject: &subject });
        let waited = self.wait(&mut signals).await;
        self.notices.clear_line();
        let hold = match waited {
            Ok(Waited::Granted(hold)) => hold,
            Ok(Waited::Signal(signal)) => {
                self.within(LEAVING, self.subject.shutdown()).await;
                return Ok(Outcome::Interrupted(signal));
            }
            Err(failure) => {
                self.within(LEAVING, self.subject.shutdown()).await;
                return Err(failure);
            }
        };
        self.tell_of_grant(&subject, &hold);
        // A signal has just come: the command must not start.
        if let Some(signal) = signals.pending_that_ends() {
            self.give_back(hold).await;
            return Ok(Outcome::Interrupted(signal));
        }
        let ran = self.supervise(&hold, &mut signals).await;
        self.give_back(hold).await;
        ran
    }

    async fn supervise(&self, hold: &Hold, signals: &mut Signals) -> Result<Outcome, Failure> {
        let mut variables = self.subject.variables(hold);
        variables.extend_from_slice(self.variables);
        self.notices.settle();
        signals.listen_for_stops();
        let child = Child::start(self.program, &variables, self.will(hold))?;
        let pid = child.pid();
        self.notices.tell(&Event::Started { pid });
        let transport = &self.agent.transport;
        let care = self.holding.care();
        Supervisor::new(transport, (self.subject, hold), signals, care, self.notices)
            .look_after(child)
            .await
    }

    fn will(&self, hold: &Hold) -> Will {
        let sequencers = hold.sequencers().into_iter();
        Will {
            agent: self.agent.options.clone(),
            sessions: sequencers.map(|it| it.session.to_string()).collect(),
            key: self.subject.key(),
        }
    }

    async fn wait(&self, signals: &mut Signals) -> Result<Waited, Failure> {
        let granted = pin!(self.granted());
        let signal = pin!(signals.next_that_ends());
        let watched = pin!(self.watch());
        match select(select(granted, signal), watched).await {
            Either::Left((Either::Left((granted, _)), _)) => granted.map(Waited::Granted),
            Either::Left((Either::Right((signal, _)), _)) => Ok(Waited::Signal(signal)),
            Either::Right((failure, _)) => Err(failure),
        }
    }

    async fn granted(&self) -> Result<Hold, Failure> {
        if self.holding.is_try {
            return self
                .subject
                .try_acquire()
                .await?
                .map_err(Failure::NotGranted);
        }
        Ok(self.subject.acquire(self.holding.timeout).await?)
    }

    /// Shows who is ahead or holds, if somebody watches. It ends only if Consul does not answer at
    /// all.
    async fn watch(&self) -> Failure {
        let begun = Instant::now();
        let subject = self.subject.name();
        let mut is_answered = false;
        let mut place = None;
        loop {
            self.agent.transport.sleep(queue::EVERY).await;
            // As process 1 of a container it gets orphans before it has a command.
            child::reap();
            let ahead = self.subject.ahead();
            if let Some(ahead) = ahead.filter(|it| place != Some(*it)) {
                place = Some(ahead);
                let subject = &subject;
                self.notices.tell(&Event::Queued { subject, ahead });
            }
            if self.notices.has_watcher() {
                let line = self.subject.line(begun.elapsed()).await;
                self.notices.draw_line(&line);
            }
            if is_answered {
                continue;
            }
            match self.probe().await {
                // From now on outages are waited for.
                Ok(()) => is_answered = true,
                Err(source) if begun.elapsed() >= FIRST_ANSWER => {
                    let seconds = begun.elapsed().as_secs();
                    let source = Box::new(source);
                    return Failure::Silent { seconds, source };
                }
                Err(_) => {}
            }
        }
    }

    async fn probe(&self) -> Result<(), Failure> {
        let probe = self.subject.probe(&self.agent.scope());
        served(&self.agent.send(probe).await?)
    }

    fn tell_of_grant(&self, subject: &str, hold: &Hold) {
        let sequencers = hold.sequencers();
        let session = sequencers.first().map(|it| it.session.to_string());
        self.notices.tell(&Event::Granted {
            subject,
            session: session.as_deref().unwrap_or_default(),
            fencing_token: hold.fencing_token().0,
            sequencers: sequencers.iter().map(ToString::to_string).collect(),
        });
    }

    /// Gives it back. A failure is reported, but changes no exit code: the command's work is done.
    async fn give_back(&self, hold: Hold) {
        // After a loss, only cleaning up is left.
        let most = if hold.remaining().is_zero() {
            LEAVING
        } else {
            GIVING_BACK
        };
        let released = self.within(most, async {
            let released = hold.release().await;
            // No session is kept for a next turn.
            self.subject.shutdown().await;
            released
        });
        match released.await {
            Some(Ok(())) => self.notices.tell(&Event::Released),
            // That was already reported.
            Some(Err(Error::Lost(_))) => {}
            Some(Err(error)) => {
                let why = whole(&error);
                self.notices.tell(&Event::NotReleased { why: &why });
            }
            None => {
                let why = self.subject.trouble();
                self.notices.tell(&Event::NotReleased { why: &why });
            }
        }
    }

    async fn within<T>(&self, most: Duration, future: impl Future<Output = T>) -> Option<T> {
        match select(pin!(future), self.agent.transport.sleep(most)).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        }
    }
}

/// Whether the agent could serve. A refusal shows that it understood the request; waiting will tell
/// the rest.
fn served(response: &Response) -> Result<(), Failure> {
    let status = response.status();
    if status >= 500 || status == 429 {
        let text = String::from_utf8_lossy(response.body());
        let text = crate::identity::printable(text.trim());
        return Err(Failure::Unavailable { status, text });
    }
    Ok(())
}
