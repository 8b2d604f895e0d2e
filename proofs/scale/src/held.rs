//! Many permits of one participant: the cost of acquiring, holding and releasing them. The test
//! drives the participant against a Consul in memory, so it can measure the participant's own time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::fmt;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use semaphore_core::sans_io::{
    CommandId, Event, Instant, Machine as _, Participant, RequestId, Response, Settings,
};
use transport_mock::consul::{Consul, Exchange};

/// The longest virtual time of a phase.
const MOST: Duration = Duration::from_secs(600);

/// One participant and its Consul.
struct Bench {
    participant: Participant,
    consul: Consul,
    now: Instant,
    latency: Duration,
    /// When the next messages arrive, to and from Consul, in the order in which they were sent.
    arrivals: BinaryHeap<Reverse<(Instant, u64)>>,
    messages: BTreeMap<u64, Message>,
    sent: u64,
    asked: BTreeMap<Exchange, RequestId>,
    given_up: BTreeSet<RequestId>,
    held: BTreeSet<CommandId>,
    ended: usize,
    spent: Spent,
}

enum Message {
    Request(RequestId, semaphore_core::sans_io::Request),
    Answer(RequestId, Response),
}

/// The cost of a phase.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    requests: u64,
    bytes: u64,
    rounds: u64,
    cpu: Duration,
    time: Duration,
}

/// The cost of a number of permits.
#[derive(Debug)]
pub(crate) struct Figures {
    permits: u32,
    held: usize,
    phases: [Spent; 3],
}

/// Acquires, holds and releases this many permits of one participant.
pub(crate) fn run(permits: u32, hold: Duration, latency: Duration, seed: u64) -> Figures {
    let mut bench = Bench::new(permits, latency, seed);
    let begun = cpu_time();
    for _ in 0..permits {
        let asked = bench.participant.acquire(bench.now, 1, None);
        asked.unwrap_or_else(|error| unreachable!("no input of a user: {error}"));
    }
    bench.spent.cpu += cpu_time().saturating_sub(begun);
    let wanted = permits as usize;
    bench.run_until(|bench| bench.held.len() == wanted);
    let acquired = bench.take_spent();
    let granted = bench.held.len();

    let end = bench.now + hold;
    bench.run_until(|bench| bench.now >= end);
    let kept = bench.take_spent();

    let begun = cpu_time();
    for command in core::mem::take(&mut bench.held) {
        bench.participant.release(bench.now, command);
    }
    bench.spent.cpu += cpu_time().saturating_sub(begun);
    bench.run_until(|bench| bench.ended >= granted);
    let released = bench.take_spent();
    Figures {
        permits,
        held: granted,
        phases: [acquired, kept, released],
    }
}

impl Bench {
    fn new(permits: u32, latency: Duration, seed: u64) -> Self {
        let settings = semaphore_core::Prefix::new("service/db")
            .and_then(|prefix| Settings::new(prefix, permits))
            .unwrap_or_else(|error| unreachable!("no input of a user: {error}"));
        Self {
            participant: Participant::new(settings, seed),
            consul: Consul::new(seed),
            now: Instant::from_origin(Duration::from_secs(1)),
            latency,
            arrivals: BinaryHeap::new(),
            messages: BTreeMap::new(),
            sent: 0,
            asked: BTreeMap::new(),
            given_up: BTreeSet::new(),
            held: BTreeSet::new(),
            ended: 0,
            spent: Spent::default(),
        }
    }

    fn take_spent(&mut self) -> Spent {
        core::mem::take(&mut self.spent)
    }

    fn run_until(&mut self, is_over: impl Fn(&Self) -> bool) {
        let begun = self.now;
        while !is_over(self) && self.now < begun + MOST {
            self.look();
            if is_over(self) {
                break;
            }
            let timers = [self.timed_timeout(), self.consul.poll_timeout()];
            let arrival = self.arrivals.peek().map(|Reverse((at, _))| *at);
            let next = timers.into_iter().chain([arrival]).flatten().min();
            self.now = next.map_or(begun + MOST, |next| next.max(self.now));
            self.consul.handle_timeout(self.now);
            self.hear();
            self.deliver();
            // Otherwise an answer would wait for the next timer.
            self.hear();
        }
        self.spent.time = self.now.saturating_since(begun);
    }

    fn timed_timeout(&mut self) -> Option<Instant> {
        let begun = cpu_time();
        let timeout = self.participant.poll_timeout();
        self.spent.cpu += cpu_time().saturating_sub(begun);
        timeout
    }

    /// Does what the driver does after each answer.
    fn look(&mut self) {
        self.spent.rounds += 1;
        let begun = cpu_time();
        self.participant.handle_timeout(self.now);
        let mut requests = Vec::new();
        while let Some(transmit) = self.participant.poll_transmit(self.now) {
            requests.push(transmit);
        }
        while let Some(id) = self.participant.poll_abort() {
            self.given_up.insert(id);
        }
        let mut events = Vec::new();
        while let Some(event) = self.participant.poll_event() {
            events.push(event);
        }
        self.spent.cpu += cpu_time().saturating_sub(begun);
        for transmit in requests {
            self.spent.requests += 1;
            self.spent.bytes += transmit.request.body().len() as u64;
            self.send(Message::Request(transmit.id, transmit.request));
        }
        for event in events {
            match event {
                Event::Granted { command, .. } => _ = self.held.insert(command),
                Event::Done { .. } => self.ended += 1,
                other => eprintln!("at {}: {other:?}", self.now),
            }
        }
    }

    fn send(&mut self, message: Message) {
        self.sent += 1;
        self.messages.insert(self.sent, message);
        self.arrivals
            .push(Reverse((self.now + self.latency, self.sent)));
    }

    /// Takes Consul's answers.
    fn hear(&mut self) {
        while let Some((exchange, response)) = self.consul.poll_answer() {
            if let Some(id) = self.asked.remove(&exchange) {
                self.send(Message::Answer(id, response));
            }
        }
    }

    /// Delivers one message that arrives now.
    fn deliver(&mut self) {
        let due = self.arrivals.peek().filter(|it| it.0.0 <= self.now);
        let Some(Reverse((_, number))) = due.copied() else {
            return;
        };
        self.arrivals.pop();
        match self.messages.remove(&number) {
            Some(Message::Request(id, request)) => {
                let exchange = self.consul.submit(self.now, &request);
                self.asked.insert(exchange, id);
            }
            Some(Message::Answer(id, response)) if !self.given_up.remove(&id) => {
                self.spent.bytes += response.body().len() as u64;
                let begun = cpu_time();
                self.participant.handle_response(self.now, id, Ok(response));
                self.spent.cpu += cpu_time().saturating_sub(begun);
            }
            _ => {}
        }
    }
}

/// How long this thread has used a processor, without the rest of the machine.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

impl Figures {
    /// The names of the columns.
    pub(crate) const HEAD: &'static str = "permits   held | acquired: time s  requests     MB   cpu s  us each | held: time s  requests     MB   cpu s  us each | released: time s  requests     MB   cpu s  us each";
}

#[expect(clippy::cast_precision_loss, reason = "figures to look at")]
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:7} {:6}", self.permits, self.held)?;
        for spent in self.phases {
            let cpu = spent.cpu.as_secs_f64();
            write!(
                f,
                " | {:7.2} {:9} {:9.1} {:8.3} {:8.1}",
                spent.time.as_secs_f64(),
                spent.requests,
                spent.bytes as f64 / 1e6,
                cpu,
                cpu * 1e6 / spent.requests.max(1) as f64,
            )?;
        }
        Ok(())
    }
}
