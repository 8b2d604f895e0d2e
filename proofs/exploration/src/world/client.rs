//! A process whose machines share sessions, as those of a [`Client`](semaphore_core::Client) do.
//!
//! ```text
//!  MachineSet ─┬─ contender   what the scene is about: its callers come, go and give up
//!             ├─ neighbour   holds something else from the start, so that the session lives on
//!             └─ pool        their session
//! ```
//! The neighbour's requests are answered before anything else happens. In some scenes it comes and
//! goes at any time, and what it believes is checked, too. While it holds, it sends none, and only learns of its session. So the requests under way are those of the
//! contender, and those that create, renew and end sessions.

use core::fmt;
use std::collections::VecDeque;

use semaphore_core::Error;
use semaphore_core::sans_io::{
    Candidate, CheckNews, CommandId, Event, Instant, LoanNews, LoanWish, Machine, MachineSet,
    Member, MemberNo, Origin, Participant, Reach, RequestId, Response, SessionOptions, Shares,
    Transmit, TransportError,
};

use super::actor::{Actor, Won, candidacy, participation};
use super::agent::{LEADER, PREFIX};
use super::shown::Shown;
use super::{candidate, machine_set, participant};
use crate::scene::Scene;

/// A contender and its neighbour in a machine set.
#[derive(Clone, Debug)]
pub(crate) struct Client<A> {
    machines: MachineSet<Seat<A>>,
    /// The neighbour's requests.
    prompt: VecDeque<Transmit>,
}

const CONTENDER: MemberNo = MemberNo(0);
const NEIGHBOUR: MemberNo = MemberNo(1);

/// The prefixes or keys of the neighbours begin like this.
pub(super) const NEIGHBOURS: &str = "neighbour-";

/// No machine set has so much to do at one time that it must be called more often.
const MOST_CALLS: usize = 64;

/// A machine that can be a member of a machine set.
pub(crate) trait Contender: Actor {
    /// The member at this position, for this prefix or key, and what it shares.
    fn member(
        scene: &Scene,
        at: usize,
        subject: &str,
        seed: u64,
    ) -> Result<(Self, Option<Shares>), Error>;
    /// The prefix or key of the scene.
    fn of_scene() -> &'static str;
    /// What decides what it does next, according to its text.
    fn shown_in(text: &str, may_wait: bool) -> Shown;
}

impl Contender for Participant {
    fn member(
        scene: &Scene,
        at: usize,
        subject: &str,
        seed: u64,
    ) -> Result<(Self, Option<Shares>), Error> {
        let settings = participation(scene, at, subject)?;
        let settings = settings.with_shared_sessions(SessionOptions::default());
        let shares = settings.shares();
        Ok((Self::new(settings, seed), shares))
    }

    fn of_scene() -> &'static str {
        PREFIX
    }

    fn shown_in(text: &str, may_wait: bool) -> Shown {
        participant::shown(text, may_wait)
    }
}

impl Contender for Candidate {
    fn member(
        _scene: &Scene,
        _: usize,
        subject: &str,
        seed: u64,
    ) -> Result<(Self, Option<Shares>), Error> {
        let settings = candidacy(subject)?;
        let settings = settings.with_shared_sessions(SessionOptions::default());
        let shares = settings.shares();
        Ok((Self::new(settings, seed), shares))
    }

    fn of_scene() -> &'static str {
        LEADER
    }

    fn shown_in(text: &str, _: bool) -> Shown {
        candidate::shown(text)
    }
}

impl<A: Contender> Client<A> {
    fn contender(&self) -> Option<&A> {
        match self.machines.member(CONTENDER)? {
            Seat::Contender(machine) => Some(machine),
            Seat::Neighbour(_) => None,
        }
    }

    fn neighbour(&self) -> Option<&Neighbour<A>> {
        match self.machines.member(NEIGHBOUR)? {
            Seat::Contender(_) => None,
            Seat::Neighbour(neighbour) => Some(neighbour),
        }
    }

    fn contender_mut(&mut self) -> Option<&mut A> {
        let mut seats = self.machines.members_mut();
        seats.find_map(|(_, seat)| match seat {
            Seat::Contender(machine) => Some(machine),
            Seat::Neighbour(_) => None,
        })
    }

    /// Tells the contender something.
    fn tell<T>(&mut self, told: impl FnOnce(&mut A) -> T) -> Option<T> {
        self.machines.wake(CONTENDER);
        self.contender_mut().map(told)
    }

    /// The contender's text.
    fn contender_text(&self) -> String {
        let text = self.contender().map(|it| format!("{it:?}"));
        // On a session that lives on, this time is waited for.
        text.unwrap_or_default().replace("latest: ", "until: ")
    }
}

impl<A: Contender> Machine for Client<A> {
    type Grant = A::Grant;

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        for _ in 0..MOST_CALLS {
            while let Some((origin, transmit)) = self.machines.poll_transmit() {
                let comes = self.neighbour().is_some_and(Neighbour::comes_first);
                if !comes && origin != Origin::Member(NEIGHBOUR) {
                    return Some(transmit);
                }
                self.prompt.push_back(transmit);
            }
            let is_due = self.machines.poll_timeout().is_some_and(|at| at <= now);
            if !is_due || !self.prompt.is_empty() {
                break;
            }
            self.machines.handle_timeout(now);
        }
        None
    }

    fn poll_abort(&mut self) -> Option<RequestId> {
        self.machines.poll_abort()
    }

    fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: Result<Response, TransportError>,
    ) {
        self.machines.handle_response(now, id, result);
        self.machines.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.machines.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.machines.handle_timeout(now);
    }

    fn poll_event(&mut self) -> Option<Event<A::Grant>> {
        self.contender_mut()?.poll_event()
    }

    fn close(&mut self, now: Instant) {
        self.tell(|it| it.close(now));
    }

    fn is_idle(&self) -> bool {
        self.is_at_rest() && self.neighbour().is_none() && self.machines.has_no_sessions()
    }

    fn cancel(&mut self, now: Instant, command: CommandId) {
        self.tell(|it| it.cancel(now, command));
    }

    fn release(&mut self, now: Instant, command: CommandId) {
        self.tell(|it| it.release(now, command));
    }

    fn is_held(&self, now: Instant, command: CommandId) -> bool {
        self.contender().is_some_and(|it| it.is_held(now, command))
    }

    fn deadline(&self, command: CommandId) -> Option<Instant> {
        self.contender()?.deadline(command)
    }
}

impl<A: Contender> Actor for Client<A> {
    fn new(scene: &Scene, at: usize, seed: u64) -> Result<Self, Error> {
        let (contender, shares) = A::member(scene, at, A::of_scene(), seed)?;
        let mut machines = MachineSet::new(seed);
        machines.join(CONTENDER, Seat::Contender(contender), shares);
        let (machine, shares) = A::member(scene, at, &format!("{NEIGHBOURS}{at}"), seed)?;
        let is_free = scene.has_free_neighbours();
        let neighbour = Neighbour {
            machine,
            is_free,
            phase: if is_free {
                Phase::Away
            } else {
                Phase::Comes(None)
            },
            sessions: Vec::new(),
            complaint: None,
        };
        machines.join(NEIGHBOUR, Seat::Neighbour(neighbour), shares);
        Ok(Self {
            machines,
            prompt: VecDeque::new(),
        })
    }

    fn ask(&mut self, now: Instant) -> Option<CommandId> {
        self.tell(|it| it.ask(now)).flatten()
    }

    fn change(&mut self, now: Instant, command: CommandId, value: &str) -> Option<CommandId> {
        self.tell(|it| it.change(now, command, value)).flatten()
    }

    fn reseed(&mut self, seed: u64) {
        self.machines.reseed(seed);
        for (_, seat) in self.machines.members_mut() {
            match seat {
                Seat::Contender(machine) => machine.reseed(seed),
                Seat::Neighbour(neighbour) => neighbour.machine.reseed(seed),
            }
        }
    }

    fn won(grant: &A::Grant) -> Won {
        A::won(grant)
    }

    fn shown(&self, may_wait: bool) -> Shown {
        let contender = A::shown_in(&self.contender_text(), may_wait);
        machine_set::shown(&format!("{:?}", self.machines), contender)
    }

    #[cfg(test)]
    fn texts(&self) -> Vec<String> {
        vec![self.contender_text(), format!("{:?}", self.machines)]
    }

    fn poll_prompt(&mut self, _: Instant) -> Option<Transmit> {
        self.prompt.pop_front()
    }

    fn has_neighbour(&self) -> bool {
        self.neighbour().is_some_and(Neighbour::stays)
    }

    fn may_invite(&self) -> bool {
        let neighbour = self.neighbour();
        neighbour.is_some_and(|it| matches!(it.phase, Phase::Away))
    }

    fn invite(&mut self) {
        self.machines.wake(NEIGHBOUR);
        for (_, seat) in self.machines.members_mut() {
            if let Seat::Neighbour(neighbour) = seat {
                neighbour.phase = Phase::Comes(None);
            }
        }
    }

    fn neighbour_holds(&self, now: Instant) -> &[String] {
        let neighbour = self.neighbour();
        neighbour.map_or(&[], |it| it.holds(now))
    }

    fn complaint(&mut self) -> Option<String> {
        let mut seats = self.machines.members_mut();
        seats.find_map(|(_, seat)| match seat {
            Seat::Contender(_) => None,
            Seat::Neighbour(neighbour) => neighbour.complaint.take(),
        })
    }

    fn dismiss(&mut self, now: Instant) {
        self.machines.wake(NEIGHBOUR);
        for (_, seat) in self.machines.members_mut() {
            if let Seat::Neighbour(neighbour) = seat {
                neighbour.leave(now);
            }
        }
    }

    fn is_at_rest(&self) -> bool {
        self.contender().is_some_and(Machine::is_idle)
    }
}

/// A member of the set.
#[derive(Clone)]
enum Seat<A> {
    Contender(A),
    Neighbour(Neighbour<A>),
}

impl<A: Actor> Reach for Seat<A> {
    fn reach(&mut self, work: &mut dyn FnMut(&mut dyn Member)) -> bool {
        match self {
            Self::Contender(machine) => {
                work(machine);
                true
            }
            Self::Neighbour(neighbour) => {
                work(neighbour);
                !neighbour.is_gone()
            }
        }
    }
}

/// The contender's text is shown separately. What a neighbour does next depends on its phase and on
/// the session, which the set shows.
impl<A> fmt::Debug for Seat<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contender(_) => f.write_str("Contender"),
            Self::Neighbour(it) => {
                let mut shown = f.debug_tuple("Neighbour");
                shown.field(&it.phase).field(&it.sessions).finish()
            }
        }
    }
}

/// A machine that holds something that nobody else wants.
#[derive(Clone)]
struct Neighbour<A> {
    machine: A,
    phase: Phase,
    /// Whether it comes and goes at any time.
    is_free: bool,
    /// The sessions of its hold.
    sessions: Vec<String>,
    /// Why it lost its hold, or failed.
    complaint: Option<String>,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Away,
    Comes(Option<CommandId>),
    Stays(CommandId),
    Leaves,
}

impl<A: Actor> Neighbour<A> {
    /// Whether it comes before anything else happens.
    fn comes_first(&self) -> bool {
        matches!(self.phase, Phase::Comes(_)) && !self.is_free
    }

    fn holds(&self, now: Instant) -> &[String] {
        match self.phase {
            Phase::Stays(command) if self.machine.is_held(now, command) => &self.sessions,
            _ => &[],
        }
    }

    fn stays(&self) -> bool {
        matches!(self.phase, Phase::Stays(_))
    }

    fn is_gone(&self) -> bool {
        matches!(self.phase, Phase::Leaves) && self.machine.is_idle()
    }

    fn leave(&mut self, now: Instant) {
        if let Phase::Stays(command) = self.phase {
            self.phase = Phase::Leaves;
            self.machine.release(now, command);
        }
    }
}

impl<A: Actor> Machine for Neighbour<A> {
    type Grant = A::Grant;

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if matches!(self.phase, Phase::Away | Phase::Stays(_)) {
            return None;
        }
        self.machine.poll_transmit(now)
    }

    fn poll_abort(&mut self) -> Option<RequestId> {
        self.machine.poll_abort()
    }

    fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: Result<Response, TransportError>,
    ) {
        self.machine.handle_response(now, id, result);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Away => None,
            Phase::Stays(command) => self.machine.deadline(command),
            Phase::Comes(_) | Phase::Leaves => self.machine.poll_timeout(),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        match self.phase {
            Phase::Away => return,
            Phase::Comes(None) => self.phase = Phase::Comes(self.machine.ask(now)),
            Phase::Stays(command) if self.machine.is_held(now, command) => return,
            Phase::Stays(_) => self.leave(now),
            Phase::Comes(Some(_)) | Phase::Leaves => {}
        }
        self.machine.handle_timeout(now);
        while let Some(event) = self.machine.poll_event() {
            match event {
                Event::Granted { command, grant } => {
                    self.phase = Phase::Stays(command);
                    self.sessions = A::won(&grant).sessions;
                }
                Event::Lost { reason, .. } => {
                    self.complaint = Some(reason.to_string());
                    self.leave(now);
                }
                Event::Failed { error, .. }
                | Event::Done {
                    result: Err(error), ..
                } => {
                    self.complaint = Some(error.to_string());
                    self.leave(now);
                }
                _ => self.leave(now),
            }
        }
    }

    fn poll_event(&mut self) -> Option<Event<A::Grant>> {
        None
    }

    fn poll_wish(&mut self) -> Option<LoanWish> {
        self.machine.poll_wish()
    }

    fn handle_loan(&mut self, now: Instant, news: &LoanNews) {
        self.machine.handle_loan(now, news);
    }

    fn handle_check(&mut self, now: Instant, news: CheckNews) {
        self.machine.handle_check(now, news);
    }

    fn close(&mut self, now: Instant) {
        self.machine.close(now);
    }

    fn is_idle(&self) -> bool {
        self.machine.is_idle()
    }

    fn cancel(&mut self, now: Instant, command: CommandId) {
        self.machine.cancel(now, command);
    }

    fn release(&mut self, now: Instant, command: CommandId) {
        self.machine.release(now, command);
    }

    fn is_held(&self, now: Instant, command: CommandId) -> bool {
        self.machine.is_held(now, command)
    }

    fn deadline(&self, command: CommandId) -> Option<Instant> {
        self.machine.deadline(command)
    }
}
