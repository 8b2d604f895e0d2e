//! The effect of an action.

use core::time::Duration;
use std::sync::Arc;

use semaphore_core::sans_io::{
    Instant, Method, Request, RequestId, Response, Transmit, TransportError, TransportErrorKind,
};
use transport_mock::consul::Exchange;

use super::State;
use super::actor::Actor;
use super::agent::Agent;
use super::message::{ComparedWith, Content, Message, Parked};
use super::monitor::{Monitor, Sent};
use super::node::{Change, Node, Step};
use super::values;
use crate::action::Action;
use crate::scene::{Contest, LATEST, Messages, Scene};
use crate::violation::Violation;

impl<A: Actor> State<A> {
    /// The state after an action, or the promise that the action broke.
    pub(crate) fn after(&self, scene: &Scene, action: Action) -> Result<Self, Violation> {
        let mut next = self.clone();
        if action.is_fault() {
            next.budget -= 1;
        }
        next.act(scene, action)?;
        next.watch(scene);
        next.judge(scene)?;
        next.settle(self);
        Ok(next)
    }

    /// Updates what is known about its parts, if they have changed.
    fn settle(&mut self, before: &Self) {
        for (node, before) in self.nodes.iter_mut().zip(&before.nodes) {
            if !Arc::ptr_eq(node, before) {
                Arc::make_mut(node).show();
            }
        }
        if !Arc::ptr_eq(&self.agent, &before.agent) {
            self.agent().show();
        }
    }

    fn act(&mut self, scene: &Scene, action: Action) -> Result<(), Violation> {
        let place = usize::from;
        match action {
            Action::Acquire(at, caller) => self.acquire(scene, place(at), place(caller)),
            Action::Release(at, caller) => self.release(scene, place(at), place(caller)),
            Action::Cancel(at, caller) => self.cancel(scene, place(at), place(caller)),
            Action::SetValue(at, caller) => self.set_value(scene, place(at), place(caller)),
            Action::Deliver(at) => self.deliver(scene, place(at)),
            Action::Vanish(at) => {
                self.messages.remove(place(at));
                Ok(())
            }
            Action::Tick => self.tick(scene),
            Action::Resume(at) => {
                self.node(place(at)).is_paused = false;
                self.wake(scene, place(at))
            }
            Action::Pause(at) => {
                self.node(place(at)).is_paused = true;
                Ok(())
            }
            Action::Expire(at) => {
                self.end_session(place(at), false);
                Ok(())
            }
            Action::LoseServer(at) => {
                self.node(place(at)).is_paused = true;
                self.lose_server(place(at));
                Ok(())
            }
            Action::Invite(at) => {
                self.node(place(at)).call(A::invite);
                self.pump(scene, place(at))
            }
            Action::Dismiss(at) => {
                let now = self.now;
                self.node(place(at)).call(|actor| actor.dismiss(now));
                self.pump(scene, place(at))
            }
            Action::Destroy(at) => {
                self.end_session(place(at), true);
                Ok(())
            }
            Action::Resign => {
                let now = self.now;
                self.agent().resign(now);
                self.agent().refresh();
                self.collect();
                Ok(())
            }
            Action::Cut(at) => {
                self.cut(scene, place(at));
                Ok(())
            }
            Action::LoseAnswer(at) => {
                let lost = self.messages.remove(place(at));
                if lost.as_request().is_some() {
                    let ghost = lost.clone().into_ghost(None);
                    ghost.map_or(Ok(()), |ghost| self.submit(scene, &ghost))?;
                }
                self.fail(&lost);
                Ok(())
            }
            Action::Delay(at) => {
                let slow = self.messages[place(at)].clone().slowed();
                self.messages[place(at)] = slow;
                Ok(())
            }
            Action::Repeat(at) => {
                let twin = self.messages[place(at)].clone();
                self.messages.extend(twin.into_ghost(self.lost_at(scene)));
                Ok(())
            }
            Action::Crash(at) => {
                self.crash(scene, place(at));
                Ok(())
            }
        }
    }

    pub(super) fn acquire(
        &mut self,
        scene: &Scene,
        at: usize,
        caller: usize,
    ) -> Result<(), Violation> {
        let now = self.now;
        let node = self.node(at);
        let command = node.call(|actor| actor.ask(now));
        let it = &mut node.callers[caller];
        it.step = Step::Waits;
        it.command = command.flatten();
        self.pump(scene, at)
    }

    fn release(&mut self, scene: &Scene, at: usize, caller: usize) -> Result<(), Violation> {
        let now = self.now;
        let node = self.node(at);
        node.callers[caller].step = Step::Releases;
        if let Some(command) = node.callers[caller].command {
            node.call(|actor| actor.release(now, command));
        }
        self.pump(scene, at)
    }

    fn cancel(&mut self, scene: &Scene, at: usize, caller: usize) -> Result<(), Violation> {
        let now = self.now;
        let node = self.node(at);
        if let Some(command) = node.callers[caller].command {
            node.call(|actor| actor.cancel(now, command));
        }
        node.callers[caller].end();
        self.pump(scene, at)
    }

    fn set_value(&mut self, scene: &Scene, at: usize, caller: usize) -> Result<(), Violation> {
        self.changes -= 1;
        let value = scene.changes - self.changes;
        let now = self.now;
        let node = self.node(at);
        if let Some(command) = node.callers[caller].command {
            let change = node.call(|actor| actor.change(now, command, &values::text(value)));
            let change = change.flatten().map(|command| Change { command, value });
            node.callers[caller].changes.extend(change);
        }
        let sessions = self.nodes[at].callers[caller].sessions.iter();
        let monitor = Arc::make_mut(&mut self.monitor);
        for session in sessions {
            monitor.values.ask(at, session, value);
        }
        monitor.refresh(&self.agent, None);
        self.pump(scene, at)
    }

    fn deliver(&mut self, scene: &Scene, at: usize) -> Result<(), Violation> {
        let message = self.messages.remove(at);
        match &*message.content {
            Content::Request(_) => self.submit(scene, &message),
            Content::Answer(answer) => {
                let now = self.now;
                let answer = answer.clone().map_err(TransportError::new);
                let Some(id) = message.id else { return Ok(()) };
                let agent = Arc::clone(&self.agent);
                let node = self.node(message.node);
                node.hear(scene, now, &agent, &answer);
                node.call(|actor| actor.handle_response(now, id, answer));
                self.pump(scene, message.node)
            }
        }
    }

    fn submit(&mut self, scene: &Scene, message: &Message) -> Result<(), Violation> {
        let Some(request) = message.as_request() else {
            return Ok(());
        };
        let sent = Sent {
            node: message.node,
            name: self.nodes[message.node].name,
            request,
            is_late: message.id.is_none(),
        };
        Monitor::judge_request(scene.contest, &sent)?;
        let before = self.agent.subject().cloned();
        let endless = without_end(request);
        let handover = self.handover(scene, request);
        let (exchange, response) = self.exchange(endless.as_ref().unwrap_or(request));
        let answer = message.id.zip(response);
        let wait = self
            .agent
            .consul
            .waits()
            .find(|(waiting, ..)| *waiting == exchange);
        if let Some((.., ends_at)) = wait {
            match message.id {
                Some(id) => {
                    let deadline = message.deadline;
                    let index = compared_with(scene, request);
                    let parked = Parked::new(
                        message.node,
                        id,
                        exchange,
                        request,
                        index,
                        ends_at,
                        deadline,
                    );
                    self.parked.push(parked);
                }
                None => self.agent().consul.abandon(exchange),
            }
        }
        self.agent().refresh();
        let monitor = Arc::make_mut(&mut self.monitor);
        monitor.judge_change(scene, &sent, before.as_ref(), &self.agent)?;
        self.judge_turn(scene, message, before.as_ref())?;
        self.judge_handover(message, &handover)?;
        match answer {
            Some((id, response)) => self.answer(scene, message, id, response),
            None => Ok(()),
        }
    }

    /// Consul takes a request. Returns the answer, unless it has to wait.
    fn exchange(&mut self, request: &Request) -> (Exchange, Option<Response>) {
        let now = self.now;
        let exchange = self.agent().consul.submit(now, request);
        let mut answer = None;
        while let Some((answered, response)) = self.agent().consul.poll_answer() {
            if answered == exchange {
                answer = Some(response);
            } else {
                self.unpark(|parked| parked.exchange == answered, Ok(response));
            }
        }
        (exchange, answer)
    }

    /// Answers a request of a neighbour. A poll that would have to wait stays unanswered.
    fn serve(&mut self, at: usize, transmit: &Transmit) {
        let (exchange, answer) = self.exchange(&transmit.request);
        if answer.is_none() {
            self.agent().consul.abandon(exchange);
        }
        self.agent().refresh();
        Arc::make_mut(&mut self.monitor).refresh(&self.agent, Some(at));
        let now = self.now;
        if let Some(answer) = answer {
            let id = transmit.id;
            self.node(at)
                .call(|actor| actor.handle_response(now, id, Ok(answer)));
        }
    }

    /// When something is lost that nobody waits for from now on.
    fn lost_at(&self, scene: &Scene) -> Option<Instant> {
        scene.is_in_clients().then(|| self.now + LATEST)
    }

    fn answer(
        &mut self,
        scene: &Scene,
        request: &Message,
        id: RequestId,
        response: Response,
    ) -> Result<(), Violation> {
        let at = request.node;
        let is_prompt = scene.messages == Messages::RoundTrips && !request.is_slow;
        if is_prompt && self.nodes[at].is_running() {
            let now = self.now;
            let agent = Arc::clone(&self.agent);
            let node = self.node(at);
            let response = Ok(response);
            node.hear(scene, now, &agent, &response);
            node.call(|actor| actor.handle_response(now, id, response));
            return self.pump(scene, at);
        }
        let index = request
            .as_request()
            .map_or(ComparedWith::Nothing, |it| compared_with(scene, it));
        let answer = Message::answer(at, id, Ok(response), request.deadline, index);
        let answer = if request.is_slow {
            answer.slowed()
        } else {
            answer
        };
        self.messages.push(answer);
        Ok(())
    }

    fn tick(&mut self, scene: &Scene) -> Result<(), Violation> {
        let Some(now) = self.next_stop(scene) else {
            return Ok(());
        };
        self.now = now;
        let is_lost = |message: &Message| message.lost_at.is_some_and(|at| at <= now);
        self.messages.retain(|message| !is_lost(message));
        self.agent().consul.handle_timeout(now);
        self.agent().refresh();
        self.collect();
        for at in 0..self.nodes.len() {
            if self.nodes[at].is_running() {
                self.wake(scene, at)?;
            }
        }
        Ok(())
    }

    /// A running participant looks at its clock.
    fn wake(&mut self, scene: &Scene, at: usize) -> Result<(), Violation> {
        let now = self.now;
        self.node(at).call(|actor| actor.handle_timeout(now));
        self.pump(scene, at)?;
        let is_over = |message: &Message| {
            message.node == at && message.is_slow && message.id.is_some() && message.deadline <= now
        };
        while let Some(over) = self.messages.iter().position(is_over) {
            let message = self.messages.remove(over);
            if let Some(id) = message.id {
                let timeout = TransportError::new(TransportErrorKind::Timeout);
                self.node(at)
                    .call(|actor| actor.handle_response(now, id, Err(timeout)));
            }
            self.messages
                .extend(message.into_ghost(self.lost_at(scene)));
            self.pump(scene, at)?;
        }
        Ok(())
    }

    fn end_session(&mut self, at: usize, is_operator: bool) {
        let now = self.now;
        let session = self.agent.sessions().nth(at);
        if let Some(session) = session {
            self.agent().consul.destroy_session(now, &session);
            if is_operator {
                Arc::make_mut(&mut self.monitor).destroyed(&session);
            }
        }
        self.agent().refresh();
        self.collect();
    }

    /// Ends all sessions of a participant, together with their node.
    fn lose_server(&mut self, at: usize) {
        let now = self.now;
        let sessions: Vec<_> = self.monitor.sessions_of(at).map(str::to_owned).collect();
        for session in sessions {
            self.agent().consul.destroy_session(now, &session);
            Arc::make_mut(&mut self.monitor).destroyed(&session);
        }
        self.agent().refresh();
        self.collect();
    }

    /// Collects answers of Consul to earlier requests.
    fn collect(&mut self) {
        while let Some((answered, response)) = self.agent().consul.poll_answer() {
            self.unpark(|parked| parked.exchange == answered, Ok(response));
        }
        let agent = Arc::clone(&self.agent);
        Arc::make_mut(&mut self.monitor).refresh(&agent, None);
    }

    fn cut(&mut self, scene: &Scene, at: usize) {
        if at < self.messages.len() {
            let message = self.messages.remove(at);
            self.fail(&message);
            self.messages
                .extend(message.into_ghost(self.lost_at(scene)));
        } else if let Some(exchange) = self
            .parked
            .get(at - self.messages.len())
            .map(|parked| parked.exchange)
        {
            self.agent().consul.abandon(exchange);
            self.unpark(
                |parked| parked.exchange == exchange,
                Err(TransportErrorKind::Unknown),
            );
        }
    }

    /// The sender will learn that there is no answer.
    fn fail(&mut self, message: &Message) {
        if let Some(id) = message.id {
            let answer = Err(TransportErrorKind::Unknown);
            let failure = Message::answer(
                message.node,
                id,
                answer,
                message.deadline,
                ComparedWith::Nothing,
            );
            self.messages.push(failure);
        }
    }

    fn crash(&mut self, scene: &Scene, at: usize) {
        let monitor = Arc::make_mut(&mut self.monitor);
        let node = Arc::make_mut(&mut self.nodes[at]);
        node.actor = None;
        node.is_paused = false;
        for caller in &mut node.callers {
            caller.step = Step::Done;
            for change in caller.changes.drain(..) {
                monitor.values.ended(change.value);
            }
        }
        monitor.refresh(&self.agent, None);
        let ids: Vec<_> = self
            .messages
            .iter()
            .filter(|message| message.node == at)
            .filter_map(|message| message.id)
            .chain(
                self.parked
                    .iter()
                    .filter(|it| it.node == at)
                    .map(|it| it.id),
            )
            .collect();
        for id in ids {
            self.abort(scene, at, id);
        }
    }

    /// Takes everything that a participant has to say.
    pub(super) fn pump(&mut self, scene: &Scene, at: usize) -> Result<(), Violation> {
        let now = self.now;
        let mut requests = 0;
        loop {
            self.do_what_is_due(scene, at)?;
            if let Some(Some(transmit)) = self.node(at).call(|it| it.poll_transmit(now)) {
                let ahead = self.known_ahead(scene, at, &transmit.request);
                let message = Message::request(now, at, transmit.id, transmit.request);
                self.messages.push(message.behind(ahead));
            } else if let Some(Some(transmit)) = self.node(at).call(|it| it.poll_prompt(now)) {
                self.serve(at, &transmit);
            } else {
                break;
            }
            requests += 1;
            if requests > MOST_REQUESTS {
                let sender = self.nodes[at].name.into();
                return Err(Violation::HotLoop { sender, requests });
            }
        }
        while let Some(Some(id)) = self.node(at).call(A::poll_abort) {
            self.abort(scene, at, id);
        }
        while let Some(Some(event)) = self.node(at).call(A::poll_event) {
            self.take(scene, at, event)?;
        }
        if let Some(Some(reason)) = self.node(at).call(A::complaint) {
            self.complain(scene, at, reason)?;
        }
        if self.nodes[at].is_done() {
            self.end(at);
        }
        Ok(())
    }

    /// A driver calls a machine whose time has come.
    fn do_what_is_due(&mut self, scene: &Scene, at: usize) -> Result<(), Violation> {
        if scene.contest == Contest::Election {
            return Ok(());
        }
        let now = self.now;
        for _ in 0..MOST_REQUESTS {
            let timeout = self.node(at).call(|it| it.poll_timeout()).flatten();
            if !self.nodes[at].is_running() || timeout.is_none_or(|at| at > now) {
                return Ok(());
            }
            self.node(at).call(|it| it.handle_timeout(now));
        }
        Err(Violation::HotLoop {
            sender: self.nodes[at].name.into(),
            requests: 0,
        })
    }

    /// A participant that has finished waits for nothing any more, and its reads are left
    /// unanswered.
    fn end(&mut self, at: usize) {
        self.messages
            .retain(|message| message.node != at || message.id.is_none());
        let (gone, left): (Vec<_>, Vec<_>) = self.parked.drain(..).partition(|it| it.node == at);
        self.parked = left;
        for Parked { exchange, .. } in gone {
            self.agent().consul.abandon(exchange);
        }
    }

    fn abort(&mut self, scene: &Scene, at: usize, id: RequestId) {
        let is_it = |message: &Message| message.node == at && message.id == Some(id);
        if let Some(place) = self.messages.iter().position(is_it) {
            let message = self.messages.remove(place);
            self.messages
                .extend(message.into_ghost(self.lost_at(scene)));
        }
        let is_it = |parked: &Parked| parked.node == at && parked.id == id;
        if let Some(place) = self.parked.iter().position(is_it) {
            let exchange = self.parked.remove(place).exchange;
            self.agent().consul.abandon(exchange);
        }
    }

    fn unpark(
        &mut self,
        is_it: impl Fn(&Parked) -> bool,
        answer: Result<Response, TransportErrorKind>,
    ) {
        if let Some(place) = self.parked.iter().position(is_it) {
            let parked = self.parked.remove(place);
            let Parked {
                node,
                id,
                deadline,
                index,
                ..
            } = parked;
            // A poll without an end is taken for one that began a while ago.
            let deadline = if parked.is_endless {
                self.now + LEFT_OF_A_POLL
            } else {
                deadline
            };
            let message = Message::answer(node, id, answer, deadline, index);
            self.messages.push(message);
        }
    }

    pub(super) fn node(&mut self, at: usize) -> &mut Node<A> {
        Arc::make_mut(&mut self.nodes[at])
    }

    fn agent(&mut self) -> &mut Agent {
        Arc::make_mut(&mut self.agent)
    }
}

/// More requests than any participant of a scene has reason to send at the same time.
const MOST_REQUESTS: usize = 32;

/// How long the sender of a poll without an end still waits when it is answered.
const LEFT_OF_A_POLL: Duration = Duration::from_secs(15);

/// A holder's poll of its own key waits for a minute, and then for the next one. That its end brings
/// nothing is not explored: such a poll has no end.
fn without_end(request: &Request) -> Option<Request> {
    let target = request.target();
    let is_holders = target.contains("wait=60s");
    is_holders.then(|| Request::new(Method::Get, target.replace("wait=60s", "wait=600s")))
}

/// What a request's sender compares the index of the answer with. Who asks for a session, or reads a contender
/// key, ignores it.
fn compared_with(scene: &Scene, request: &Request) -> ComparedWith {
    let target = request.target();
    let is_of_key = request.method() == Method::Get && !target.contains("?recurse");
    let is_semaphores = scene.contest == Contest::Semaphore;
    if target.starts_with("/v1/kv/p/.lock") {
        ComparedWith::Record
    } else if is_of_key && (is_semaphores || target.starts_with("/v1/session/")) {
        ComparedWith::Nothing
    } else {
        ComparedWith::All
    }
}
