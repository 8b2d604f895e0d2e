//! The possible actions in a state.

use std::sync::Arc;

use semaphore_core::sans_io::Instant;

use super::State;
use super::actor::Actor;
use super::message::{Content, Message};
use super::node::{Node, Step};
use crate::action::Action;
use crate::clock::Clock;
use crate::scene::{Fault, Messages, Scene};

impl<A: Actor> State<A> {
    /// Everything that can happen next.
    pub(crate) fn options(&self, scene: &Scene) -> Vec<Action> {
        let mut options = Vec::new();
        self.callers(scene, &mut options);
        self.arrivals(&mut options);
        if self.next_stop(scene).is_some() {
            options.push(Action::Tick);
        }
        for (at, session) in self.agent.sessions().enumerate() {
            if self.agent.is_overdue(self.now, &session) {
                options.push(Action::Expire(number(at)));
            }
        }
        if self.agent.may_resign() {
            options.push(Action::Resign);
        }
        if self.budget > 0 {
            self.faults(scene, &mut options);
        }
        options
    }

    /// Whether the action may be expected to happen. A leader need not release before its requested
    /// change has ended.
    pub(crate) fn counts_on(&self, action: Action) -> bool {
        let waits = |at: u8, caller: u8| {
            let node = &self.nodes[usize::from(at)];
            !node.callers[usize::from(caller)].changes.is_empty()
        };
        match action {
            Action::Release(at, caller) => !waits(at, caller),
            _ => action.is_progress(),
        }
    }

    /// When time stops next. It stands still while a message without delay is under way.
    pub(crate) fn next_stop(&self, scene: &Scene) -> Option<Instant> {
        let holds_time_up = |message: &Message| {
            let is_answer = matches!(*message.content, Content::Answer(_));
            !(message.is_slow || is_answer && self.nodes[message.node].is_paused)
        };
        if self.messages.iter().any(holds_time_up) {
            return None;
        }
        let is_at_work = |node: &&Arc<Node<A>>| node.is_running() && !node.is_done();
        let running = self.nodes.iter().filter(is_at_work);
        let timers = running.filter_map(|node| node.actor.as_ref()?.poll_timeout());
        let deadlines = self
            .messages
            .iter()
            .filter(|message| message.id.is_some() && self.nodes[message.node].is_running())
            .map(|message| message.deadline);
        let ends = self.messages.iter().filter_map(|message| message.lost_at);
        let due = timers
            .chain(deadlines)
            .chain(ends)
            .chain(self.agent.consul.poll_timeout())
            .filter(|at| *at > self.now)
            .min()?;
        Some(Clock::new(self.now, scene.tick).stop(due))
    }

    fn callers(&self, scene: &Scene, options: &mut Vec<Action>) {
        for (at, node) in self.nodes.iter().enumerate() {
            if !node.is_running() {
                if node.actor.is_some() {
                    options.push(Action::Resume(number(at)));
                }
                continue;
            }
            if node.actor.as_ref().is_some_and(A::may_invite) {
                options.push(Action::Invite(number(at)));
            }
            if node.may_dismiss(scene) {
                options.push(Action::Dismiss(number(at)));
            }
            for (caller, it) in node.callers.iter().enumerate() {
                let (at, caller) = (number(at), number(caller));
                // Callers of one participant are interchangeable, so they come in order.
                let is_next = || {
                    let before = &node.callers[..usize::from(caller)];
                    before.iter().all(|before| before.step != Step::Away)
                };
                match it.step {
                    Step::Away if is_next() => options.push(Action::Acquire(at, caller)),
                    Step::Holds | Step::Lost => options.push(Action::Release(at, caller)),
                    _ => {}
                }
                if self.changes > 0 && matches!(it.step, Step::Holds | Step::Lost) {
                    options.push(Action::SetValue(at, caller));
                }
                if scene.cancels && matches!(it.step, Step::Waits | Step::Holds) {
                    options.push(Action::Cancel(at, caller));
                }
            }
        }
    }

    fn arrivals(&self, options: &mut Vec<Action>) {
        for (at, message) in self.messages.iter().enumerate() {
            let at = number(at);
            if message.as_request().is_some() || self.nodes[message.node].is_running() {
                options.push(Action::Deliver(at));
            }
            if message.id.is_none() {
                options.push(Action::Vanish(at));
            }
        }
    }

    fn faults(&self, scene: &Scene, options: &mut Vec<Action>) {
        let waiting = self
            .messages
            .iter()
            .enumerate()
            .filter(|(_, message)| message.id.is_some());
        for (at, message) in waiting {
            let at = number(at);
            if scene.may(Fault::Cut) && message.as_request().is_some() {
                options.push(Action::Cut(at));
            }
            let can_lose = match &*message.content {
                Content::Answer(answer) => answer.is_ok(),
                Content::Request(_) => {
                    scene.messages == Messages::RoundTrips && message.as_awaited_write().is_some()
                }
            };
            if scene.may(Fault::LoseAnswer) && can_lose {
                options.push(Action::LoseAnswer(at));
            }
            if scene.may(Fault::Delay) && !message.is_slow {
                options.push(Action::Delay(at));
            }
            if scene.may(Fault::Repeat) && message.as_awaited_write().is_some() {
                options.push(Action::Repeat(at));
            }
        }
        if scene.may(Fault::Cut) {
            // The polls that wait at Consul come after the messages.
            let polls = self.messages.len()..self.messages.len() + self.parked.len();
            options.extend(polls.map(|at| Action::Cut(number(at))));
        }
        for (at, node) in self.nodes.iter().enumerate() {
            let at = number(at);
            let is_at_work = node.actor.is_some() && !node.is_done();
            if scene.may(Fault::Crash) && is_at_work {
                options.push(Action::Crash(at));
            }
            if scene.may(Fault::Pause) && is_at_work && !node.is_paused {
                options.push(Action::Pause(at));
            }
            if scene.may(Fault::LoseServer) && is_at_work && !node.is_paused {
                options.push(Action::LoseServer(at));
            }
        }
        if scene.may(Fault::Destroy) {
            let sessions = 0..self.agent.sessions().count();
            options.extend(sessions.map(|at| Action::Destroy(number(at))));
        }
    }
}

/// Scenes are far too small for larger numbers.
fn number(at: usize) -> u8 {
    u8::try_from(at).unwrap_or(u8::MAX)
}
