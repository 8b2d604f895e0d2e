//! One state of a scene, and the effect of each action.
//!
//! ```text
//!  step.rs      what an action does            options.rs   which actions there are
//!     │                                        told.rs      what callers learn of it
//!  node.rs      a machine, its callers         message.rs   what is under way
//!  actor.rs     which machine: participant.rs, candidate.rs say what of it matters;
//!     │         client.rs puts one on a session that others use, machine_set.rs says what of that matters
//!  agent.rs     Consul                         monitor.rs   what must hold for its writes
//!  contest.rs   what they contend for          values.rs    what leaders say
//!                                              turns.rs     whose turn it is
//! ```
//! States share their parts until one of them changes.

mod actor;
mod agent;
mod candidate;
mod client;
mod contest;
mod machine_set;
mod message;
mod monitor;
mod node;
mod options;
mod participant;
mod pool;
mod shown;
mod step;
mod told;
mod transaction;
mod turns;
mod values;
mod words;

use std::sync::Arc;

use core::time::Duration;

use semaphore_core::Error;
use semaphore_core::sans_io::Instant;

pub(crate) use self::actor::Actor;
use self::agent::Agent;
pub(crate) use self::agent::{LEADER, LOCK};
#[cfg(test)]
pub(crate) use self::candidate::without_pool;
pub(crate) use self::client::Client;
use self::message::{Message, Parked};
use self::monitor::Monitor;
use self::node::Node;
use self::transaction::Transaction;
use crate::canon::{NodeParts, Parts, Token, fingerprint};
use crate::scene::{Arrivals, Contest, Fault, Scene};
use crate::violation::Violation;

#[derive(Clone)]
pub(crate) struct State<A> {
    now: Instant,
    agent: Arc<Agent>,
    nodes: Vec<Arc<Node<A>>>,
    messages: Vec<Message>,
    parked: Vec<Parked>,
    monitor: Arc<Monitor>,
    /// How many faults may still happen.
    budget: u8,
    /// How many changes of a value may still be requested.
    changes: u8,
}

impl<A: Actor> State<A> {
    pub(crate) fn new(scene: &Scene) -> Result<Self, Error> {
        // Late enough to allow earlier times.
        let now = Instant::from_origin(Duration::from_secs(3_600));
        let nodes: Result<Vec<_>, _> = (0..scene.callers.len())
            .map(|at| Node::new(at, scene).map(Arc::new))
            .collect();
        let mut state = Self {
            now,
            agent: Arc::new(Agent::new(now, scene)),
            nodes: nodes?,
            messages: Vec::new(),
            parked: Vec::new(),
            monitor: Arc::default(),
            budget: scene.budget,
            changes: scene.changes,
        };
        if scene.is_in_clients() {
            for at in 0..state.nodes.len() {
                // Nothing is judged before anything has happened.
                let _ = state.pump(scene, at);
            }
        }
        if scene.arrivals == Arrivals::Together {
            for at in 0..state.nodes.len() {
                for caller in 0..state.nodes[at].callers.len() {
                    // Nothing is judged before anything has happened.
                    let _ = state.acquire(scene, at, caller);
                }
            }
        }
        state.watch(scene);
        for node in &mut state.nodes {
            Arc::make_mut(node).show();
        }
        Arc::make_mut(&mut state.agent).show();
        Ok(state)
    }

    /// The texts that show the machines.
    #[cfg(test)]
    pub(crate) fn texts(&self) -> Vec<String> {
        let actors = self.nodes.iter().filter_map(|node| node.actor.as_ref());
        actors.flat_map(A::texts).collect()
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Whether everybody is served and gone, and nothing of them is left.
    pub(crate) fn is_over(&self, scene: &Scene) -> bool {
        let has_crashed = self.nodes.iter().any(|node| node.actor.is_none());
        let may_name_dead = has_crashed || scene.may_lose_leases() && self.budget < scene.budget;
        self.nodes
            .iter()
            .all(|node| node.actor.is_none() || node.is_done())
            && self.messages.iter().all(|message| message.id.is_none())
            && self.agent.is_clean(may_name_dead)
    }

    /// Checks what must be true in every state.
    pub(crate) fn judge(&self, scene: &Scene) -> Result<(), Violation> {
        let holders = self.agent.holders();
        let mut believers = 0;
        for node in &self.nodes {
            for (at, caller) in node.callers.iter().enumerate() {
                if !node.believes(self.now, at) {
                    continue;
                }
                // This includes holders that don't know that their session has ended: its lock
                // delay lasts longer than their belief.
                believers += 1;
                // A leader's key is free as soon as its session has ended. A record still names the
                // session.
                let is_exempt = |session: &String| {
                    scene.contest == Contest::Election && self.monitor.is_destroyed(session)
                };
                let is_founded = |session: &String| holders.contains(session) || is_exempt(session);
                if !caller.sessions.iter().all(is_founded) {
                    let caller = node.name_of(at);
                    return Err(Violation::UnfoundedBelief { caller });
                }
            }
        }
        for (at, node) in self.nodes.iter().enumerate() {
            let holds = node
                .actor
                .as_ref()
                .map_or(&[][..], |it| it.neighbour_holds(self.now));
            let is_founded = |session: &String| {
                self.agent.names_elsewhere(at, session) || self.monitor.is_destroyed(session)
            };
            if scene.has_free_neighbours() && !holds.iter().all(is_founded) {
                let caller = format!("{}'s neighbour", node.name);
                return Err(Violation::UnfoundedBelief { caller });
            }
        }
        let limit = self.agent.limit().unwrap_or(scene.limit);
        if believers > limit as usize {
            return Err(Violation::TooManyHolders { believers, limit });
        }
        self.judge_rest(scene)?;
        if scene.is_in_clients() {
            self.judge_shared(scene)?;
        }
        Ok(())
    }

    /// Checks that a member of a client that has finished left nothing on its session, which lives
    /// on. What was given up may come until it is lost. A semaphore's acquisition of a contender key
    /// has no fence, so a copy of one that was answered may come back: that is not judged.
    fn judge_shared(&self, scene: &Scene) -> Result<(), Violation> {
        if scene.contest == Contest::Semaphore && scene.faults.contains(&Fault::Repeat) {
            return Ok(());
        }
        for (at, node) in self.nodes.iter().enumerate() {
            let is_late = |message: &Message| message.node == at && message.id.is_none();
            let is_at_rest = node.actor.as_ref().is_some_and(A::is_at_rest);
            if !is_at_rest || self.messages.iter().any(is_late) {
                continue;
            }
            let mut sessions = self.monitor.sessions_of(at);
            let is_used = |it: &&str| {
                self.agent.is_tied(it) || self.agent.holders().iter().any(|holder| holder == it)
            };
            if let Some(session) = sessions.find(is_used) {
                return Err(Violation::LeftOnSession {
                    owner: node.name.into(),
                    session: session.to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Checks that an actor that has finished left nothing behind. After a fault, that may take a
    /// TTL.
    fn judge_rest(&self, scene: &Scene) -> Result<(), Violation> {
        if self.budget < scene.budget {
            return Ok(());
        }
        for (at, node) in self.nodes.iter().enumerate() {
            let is_waited_for = self.messages.iter().any(|message| message.node == at);
            if node.actor.is_none() || !node.is_done() || is_waited_for {
                continue;
            }
            if let Some(session) = self.monitor.sessions_of(at).next() {
                return Err(Violation::LeftBehind {
                    owner: node.name.into(),
                    session: session.to_owned(),
                });
            }
        }
        Ok(())
    }

    /// The fingerprint. It is the same for all states that no continuation can tell apart.
    pub(crate) fn fingerprint(&self, scene: &Scene) -> u128 {
        let left = u16::from_be_bytes([self.changes, self.budget]);
        let budget = [Token::Text(u64::from(left))];
        let owned: Vec<Vec<Token>> = (0..self.nodes.len())
            .map(|at| {
                let mut tokens = Vec::new();
                for session in self.monitor.sessions_of(at) {
                    self.agent.show_session(session, &mut tokens);
                }
                tokens
            })
            .collect();
        let is_asked = |key: &str| {
            let mut requests = self.messages.iter().filter_map(Message::as_request);
            requests.any(|it| Transaction::of(it).is_some_and(|it| it.prunes(key)))
        };
        let nodes = self.nodes.iter().zip(&owned);
        let mut parts = Parts {
            is_semaphore: scene.contest == Contest::Semaphore,
            line: self.agent.line(),
            has_record: self.agent.subject().is_some(),
            common: vec![&budget, self.agent.tokens(), self.monitor.tokens()],
            loose: self.agent.delays(is_asked).map(|it| [it]).collect(),
            nodes: nodes
                .map(|(node, owned)| NodeParts {
                    own: vec![owned, node.tokens()],
                    messages: Vec::new(),
                })
                .collect(),
        };
        let request = |node: usize, id: Option<_>| {
            let id = id?;
            Some(self.nodes[node].request(id))
        };
        let may_wait = self.budget > 0 && scene.may_lose_leases();
        for it in &self.messages {
            // If time can't pass, deadlines have no effect.
            let has_time = it.is_slow || may_wait || self.nodes[it.node].is_paused;
            let due = if has_time { it.due() } else { &[] };
            let request = request(it.node, it.id).unwrap_or_default();
            parts.nodes[it.node]
                .messages
                .push([request, it.tokens(), due]);
        }
        for it in &self.parked {
            let request = request(it.node, Some(it.id)).unwrap_or_default();
            parts.nodes[it.node]
                .messages
                .push([request, it.tokens(), &[]]);
        }
        fingerprint(&parts, self.now, scene.tick)
    }
}
