//! Compares a script with time on the real agent.
//!
//! Nobody can tell a real agent at which moment it does something. But it can be measured: each
//! request was applied between its sending and its answer, and a session ended before a list lacked
//! it. So the Consul in memory repeats the script at the measured moments, and its timers say what
//! was decided: a timer and a request, or two timers, that are further apart than the agent was
//! slow came in this order on the agent, too. From the first moment on at which the order is open, a
//! difference says nothing, and the script is run again. Every other difference is one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use semaphore_core::adapter::Instant;
use transport_mock::consul::{Consul, Exchange};

use crate::compare::{self, Difference};
use crate::meaning::Redirects;
use crate::memory::Memory;
use crate::run::{self, Observed, Record};
use crate::script::{Script, Step};

/// A wait of three seconds, the only one that ends in a timed script, lasts up to this much longer
/// or shorter than the same one on the other backend: an agent adds up to a sixteenth.
const JITTER: Duration = Duration::from_millis(188);

/// When a step began and was over, counted from the script's start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) from: Duration,
    pub(crate) to: Duration,
}

/// What a run of a script on a real agent says of the Consul in memory.
#[derive(Debug)]
pub(crate) enum Verdict {
    Agrees,
    Differs(String),
    /// They differ, but only after the agent was too slow for an order that mattered.
    Open(String),
}

/// What ends by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    /// A session, by its id.
    Session(String),
    LockDelay,
    Wait,
}

/// A timer of the Consul in memory.
struct Timer {
    what: What,
    at: Duration,
    /// It was stopped before, at this moment or earlier.
    stopped: Option<Duration>,
}

/// The timers of the Consul in memory, while it runs a script.
#[derive(Default)]
pub(crate) struct Timers {
    sessions: BTreeMap<String, Duration>,
    waits: BTreeMap<Exchange, Duration>,
    lock_delays: BTreeSet<Duration>,
    over: Vec<Timer>,
}

impl Timers {
    /// Notes which timers run, and which have ended at `now`. What did not end by itself was stopped
    /// by something that took until `until`.
    pub(crate) fn look(&mut self, consul: &Consul, now: Instant, until: Duration) {
        let now = since_start(now);
        let sessions = consul.sessions().filter_map(|session| {
            let at = consul.expiry(session.id())?;
            Some((session.id().to_owned(), since_start(at)))
        });
        let sessions: BTreeMap<_, _> = sessions.collect();
        let waits = consul
            .waits()
            .map(|(exchange, _, at)| (exchange, since_start(at)));
        let waits: BTreeMap<_, _> = waits.collect();
        let stopped = |at| (now < at).then_some(until);
        for (id, at) in &self.sessions {
            if sessions.get(id) != Some(at) {
                self.over.push(Timer {
                    what: What::Session(id.clone()),
                    at: *at,
                    stopped: stopped(*at),
                });
            }
        }
        for (exchange, at) in &self.waits {
            if !waits.contains_key(exchange) {
                self.over.push(Timer {
                    what: What::Wait,
                    at: *at,
                    stopped: stopped(*at),
                });
            }
        }
        self.sessions = sessions;
        self.waits = waits;
        let delays = consul.lock_delays().map(|(_, at)| since_start(at));
        self.lock_delays.extend(delays);
    }

    /// All timers that had to do with a script which ended at `end`.
    fn until(mut self, end: Duration) -> Vec<Timer> {
        let running = self
            .sessions
            .into_iter()
            .map(|(id, at)| (What::Session(id), at));
        let running = running.chain(self.waits.into_values().map(|at| (What::Wait, at)));
        self.over.extend(running.map(|(what, at)| Timer {
            what,
            at,
            stopped: Some(end),
        }));
        self.over
            .extend(self.lock_delays.into_iter().map(|at| Timer {
                what: What::LockDelay,
                at,
                stopped: None,
            }));
        self.over
    }

    /// When the sessions ended that nobody destroyed.
    pub(crate) fn ends(&self) -> BTreeMap<String, Duration> {
        let ended = self.over.iter().filter(|timer| timer.stopped.is_none());
        ended
            .filter_map(|timer| match &timer.what {
                What::Session(id) => Some((id.clone(), timer.at)),
                _ => None,
            })
            .collect()
    }
}

pub(crate) fn since_start(moment: Instant) -> Duration {
    moment.since_origin()
}

impl Timer {
    /// When it may have ended on an agent that is slower by at most `slack`.
    fn window(&self, slack: Duration) -> (Duration, Duration) {
        match self.what {
            What::Wait => (self.at.saturating_sub(JITTER), self.at + JITTER + slack),
            What::Session(_) | What::LockDelay => (self.at, self.at + slack),
        }
    }

    /// The order of two of these shows in answers. A lock delay that ends changes nothing.
    fn shows(&self) -> bool {
        match self.what {
            What::Session(_) => self.stopped.is_none(),
            What::Wait => true,
            What::LockDelay => false,
        }
    }
}

/// Judges a run on the real agent, in which each session of `ended` was first seen to be gone at that
/// moment. `ideal` guided the run: it says at which steps queries were answered.
pub(crate) fn judge(
    script: &Script,
    prefix: &str,
    memory: Memory,
    (ideal, real): (&Record, &Record),
    ended: impl Fn(&str) -> Option<Duration>,
    redirects: Redirects,
) -> Verdict {
    let mut memory = memory.at_the_moments_of(real);
    let record = run::run(script, prefix, &mut memory, None);
    let timers = memory.into_timers();
    let ids: BTreeMap<_, _> = real.sessions.iter().map(|(id, name)| (name, id)).collect();
    let end = real.spans.last().map_or(Duration::ZERO, |span| span.to);
    let mut slack = longest_request(script, real);
    for (id, due) in timers.ends() {
        let name = &record.sessions[&id];
        let seen = ids.get(name).and_then(|id| ended(id)).unwrap_or(end);
        if seen < due {
            let early = due.saturating_sub(seen);
            return Verdict::Differs(format!("{}\n  {name} ended {early:?} early", script.name));
        }
        slack = slack.max(seen.saturating_sub(due));
    }
    let differences = compare::differences(script, &record, real, redirects);
    let Some(first) = differences.first() else {
        return Verdict::Agrees;
    };
    let open = open_from(script, &real.spans, &timers.until(end), slack);
    let open = open.into_iter().chain(misguided(ideal, &record)).min();
    let told = told(&differences);
    match open {
        Some(step) if step < first.step => Verdict::Open(format!(
            "{told}\n  open from step {step} on, as the agent was up to {slack:?} slow"
        )),
        _ => Verdict::Differs(told),
    }
}

fn told(differences: &[Difference]) -> String {
    let told: Vec<_> = differences.iter().map(|it| it.told.as_str()).collect();
    told.join("\n")
}

fn is_request(step: &Step) -> bool {
    matches!(step, Step::Send(_) | Step::Start(..))
}

fn longest_request(script: &Script, real: &Record) -> Duration {
    let steps = script.steps.iter().zip(&real.spans);
    let requests = steps.filter(|(step, _)| is_request(step));
    let lengths = requests.map(|(_, span)| span.to.saturating_sub(span.from));
    lengths.max().unwrap_or_default()
}

/// The number of steps before the first one whose answer may depend on an order that was not decided.
fn open_from(script: &Script, spans: &[Span], timers: &[Timer], slack: Duration) -> Option<usize> {
    let after = |moment| spans.iter().position(|span| span.to >= moment);
    let mut open = BTreeSet::new();
    for (number, timer) in timers.iter().enumerate() {
        let (from, to) = timer.window(slack);
        match timer.stopped {
            Some(until) if until >= from => open.extend(after(from)),
            Some(_) => {}
            None => {
                let steps = script.steps.iter().zip(spans).enumerate();
                let meets = |span: &Span| span.from <= to && span.to >= from;
                open.extend(
                    steps
                        .filter(|(_, (step, span))| is_request(step) && meets(span))
                        .map(|(at, _)| at),
                );
            }
        }
        for other in &timers[number + 1..] {
            let (other_from, other_to) = other.window(slack);
            let is_session = |timer: &Timer| matches!(timer.what, What::Session(_));
            let matters =
                timer.shows() && other.shows() && (is_session(timer) || is_session(other));
            if matters && from <= other_to && other_from <= to {
                open.extend(after(from.min(other_from)));
            }
        }
    }
    open.first().copied()
}

/// The first step at which a query was looked for in vain, or not looked for though it was answered,
/// as the agent was faster or slower than the Consul in memory that guided it.
fn misguided(ideal: &Record, record: &Record) -> Option<usize> {
    let is_answer = |observed: &Observed| matches!(observed, Observed::Answer(_));
    let mut both = ideal.observed.iter().zip(&record.observed);
    both.position(|(ideal, record)| is_answer(ideal) != is_answer(record))
}

/// The real agent's part is played by a Consul in memory whose requests take time.
#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use crate::random;

    /// It takes long to draw a script.
    static SCRIPTS: LazyLock<Vec<Script>> =
        LazyLock::new(|| SEEDS.map(random::timed_script_of).collect());

    const SEEDS: std::ops::Range<u64> = 0..4;

    fn verdict(seed: u64, agent: Memory) -> Verdict {
        let script = &SCRIPTS[usize::try_from(seed).unwrap()];
        let mut agent = agent.with_paces(seed + 100);
        let memory = || Memory::of(transport_mock::consul::Profile::default());
        let ideal = run::run(script, "p", &mut memory(), None);
        let record = run::run(script, "p", &mut agent, Some(&ideal));
        let ends = agent.ends();
        let ended = |id: &str| ends.get(id).copied();
        judge(
            script,
            "p",
            memory(),
            (&ideal, &record),
            ended,
            Redirects::TheSame,
        )
    }

    fn agent() -> Memory {
        Memory::of(transport_mock::consul::Profile::default())
    }

    #[test]
    fn an_agent_that_takes_time_for_its_answers_agrees() {
        for seed in SEEDS {
            let verdict = verdict(seed, agent());
            assert!(matches!(verdict, Verdict::Agrees), "{seed}: {verdict:?}");
        }
    }

    #[test]
    fn an_agent_whose_sessions_end_a_little_early_differs() {
        for seed in SEEDS {
            let verdict = verdict(seed, agent().with_lifetime(1.99));
            assert!(
                matches!(verdict, Verdict::Differs(_)),
                "{seed}: {verdict:?}"
            );
        }
    }

    /// Such an agent may just be slow, so that one run says nothing where the order matters.
    #[test]
    fn an_agent_whose_sessions_end_late_never_differs_and_seldom_agrees() {
        let verdicts: Vec<_> = SEEDS
            .map(|seed| verdict(seed, agent().with_lifetime(2.3)))
            .collect();
        let open = verdicts
            .iter()
            .filter(|it| matches!(it, Verdict::Open(_)))
            .count();
        let agrees = verdicts
            .iter()
            .filter(|it| matches!(it, Verdict::Agrees))
            .count();
        assert_eq!(open + agrees, verdicts.len(), "{verdicts:?}");
        assert!(open > agrees, "{open} open, {agrees} agree");
    }

    #[test]
    fn an_agent_whose_lock_delays_have_another_length_differs() {
        for multiple in [0.2, 3.0] {
            let verdicts = SEEDS.map(|seed| verdict(seed, agent().with_lock_delays(multiple)));
            let verdicts: Vec<_> = verdicts.collect();
            let differs = verdicts.iter().any(|it| matches!(it, Verdict::Differs(_)));
            assert!(differs, "{multiple}: {verdicts:?}");
        }
    }
}
