//! One exchange, from the client's request to the client's outcome.
//!
//! ```text
//!  send ──▶ in flight ──Deliver──▶ at Consul ──poll_answer──▶ in flight ──Answer──▶ done
//!    │         │ lost                  │ held open               │ lost
//!    └─Timeout, or the future is dropped: HangUp follows the request and abandons it
//! ```
//!
//! It has two ends that only share messages: a [`ClientEnd`] until the client has its outcome, and
//! a [`ServerEnd`] until Consul is done with it.

use std::fmt;
use std::task::Waker;

use semaphore_core::adapter::{
    Instant, Lane, Request, Response, TransportError, TransportErrorKind,
};

use super::lag::Server;
use super::sockets::{Pool, Socket};
use super::{Call, Delivered, Event, Host, Message, Network, Outcome};
use crate::consul::Exchange;
use crate::fault::Fault;
use crate::kind::RequestKind;
use crate::timeline::Key;
use crate::trace::Line;

#[derive(Debug)]
pub(super) struct ClientEnd {
    host: Host,
    waker: Option<Waker>,
    outcome: Option<Outcome>,
    timeout: Key,
}

#[derive(Debug)]
pub(super) struct ServerEnd {
    pub(super) host: Host,
    pub(super) request: Request,
    fault: Option<Fault>,
    sent_at: Instant,
    arrives: Instant,
    pub(super) exchange: Option<(Server, Exchange)>,
}

impl ServerEnd {
    /// How long an agent keeps serving it when nobody waits for it, if it is a blocking query.
    fn polls_until(&self) -> Option<Instant> {
        let wait = self.request.longest_wait();
        let wait = wait.filter(|_| self.request.is_long_poll());
        wait.map(|wait| self.sent_at + wait)
    }
}

impl Network {
    /// A client sends a request. It gets `fault`, or else the fault of the rules and rates.
    pub(crate) fn send(&mut self, host: Host, request: Request, fault: Option<Fault>) -> Call {
        self.send_by(host, None, request, fault)
    }

    /// A client sends a request on a connection of a pool.
    pub(crate) fn send_on(
        &mut self,
        socket: Socket,
        request: Request,
        fault: Option<Fault>,
    ) -> Call {
        self.send_by(socket.0, Some(socket), request, fault)
    }

    pub(crate) fn new_pool(&mut self) -> Pool {
        self.sockets.new_pool()
    }

    pub(crate) fn close_idle(&mut self, host: Host, pool: Pool, lane: Lane) {
        self.sockets.close((host, pool, lane));
    }

    /// The most connections that a transport has had at once.
    pub(crate) fn peak_of_pool(&self, pool: Pool) -> usize {
        self.sockets.peak(pool)
    }

    pub(crate) fn close_pool(&mut self, pool: Pool) {
        self.sockets.close_pool(pool);
    }

    fn send_by(
        &mut self,
        host: Host,
        socket: Option<Socket>,
        request: Request,
        fault: Option<Fault>,
    ) -> Call {
        self.calls += 1;
        let call = Call(self.calls);
        let is_open = socket.is_some_and(|socket| self.sockets.take(self.now, call, socket));
        self.note(host, call, format_args!("> {}", Line(&request)));
        let timeout = self.timeline.add(
            self.now + request.timeout(),
            Event::Message(host, Message::Timeout(call)),
        );
        self.clients.insert(
            call,
            ClientEnd {
                host,
                waker: None,
                outcome: None,
                timeout,
            },
        );
        let exchanges = self.hosts[host.0].stats.sent(RequestKind::of(&request));
        let open = self.sockets.count(self.now, host, exchanges);
        for outage in self.faults.draw_outages(&mut self.rng) {
            self.begin_outage(host, outage);
        }

        let fault = fault
            .or_else(|| self.rules.strike(&self.hosts[host.0].name, &request))
            .or_else(|| self.faults.draw(&mut self.rng));
        if let Some(fault) = &fault {
            let line = Line(&request);
            self.tell_of(host, call, format_args!("! {fault}: {line}"));
        }
        let own = self.hosts[host.0].max_connections;
        let most = own.or(self.max_connections);
        if !is_open && most.is_some_and(|most| open > most) {
            self.tell_of(host, call, format_args!("! too many connections"));
            self.sockets.refuse(call, host);
            self.travel(
                host,
                Message::Answer(call, Err(TransportErrorKind::Unknown)),
            );
            return call;
        }
        self.hosts[host.0].stats.connected(open);
        self.sockets.connected(call);
        self.launch(host, call, request, fault);
        call
    }

    /// The client's outcome, if it is there.
    pub(crate) fn poll_outcome(&mut self, call: Call, waker: &Waker) -> Option<Outcome> {
        let client = self.clients.get_mut(&call)?;
        if let Some(outcome) = client.outcome.take() {
            self.clients.remove(&call);
            return Some(outcome);
        }
        match &mut client.waker {
            Some(present) => present.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        None
    }

    /// A client gives up its request.
    pub(crate) fn give_up(&mut self, call: Call) {
        let Some(client) = self.clients.remove(&call) else {
            return;
        };
        if client.outcome.is_none() {
            self.note(client.host, call, format_args!("x given up"));
            self.timeline.remove(client.timeout);
            self.hosts[client.host.0].stats.closed();
            let pool = self.sockets.ended(self.now, call, false);
            self.leave_behind(client.host, pool, call);
            self.close(client.host, call);
        }
    }

    /// An agent keeps serving a blocking query that nobody waits for, and what it holds for a
    /// leader.
    fn leave_behind(&mut self, host: Host, pool: Option<Pool>, call: Call) {
        let held_until = self.held_until(call);
        if let Some(server) = self.servers.get(&call) {
            let until = held_until.max(server.polls_until());
            self.sockets.given_up(host, pool, until);
        }
    }

    /// Sends all answers of Consul.
    pub(crate) fn collect_answers(&mut self) {
        while let Some((exchange, response)) = self.poll_answer() {
            // Nobody waits for the second answer to a duplicated request.
            let Some(call) = self.exchanges.remove(&exchange) else {
                continue;
            };
            if let Some(server) = self.servers.remove(&call) {
                self.send_answer(call, server.fault, response);
            }
        }
        self.tell();
    }

    fn poll_answer(&mut self) -> Option<((Server, Exchange), Response)> {
        let leader = self.consul.poll_answer();
        if let Some((exchange, response)) = leader {
            return Some(((Server::Leader, exchange), response));
        }
        let behind = self.behind.as_mut();
        if let Some((exchange, response)) = behind.and_then(|it| it.leader_mut().poll_answer()) {
            return Some(((Server::Behind, exchange), response));
        }
        self.lagging.iter_mut().find_map(|(host, agent)| {
            let (exchange, response) = agent.poll_answer()?;
            Some(((Server::Lagging(*host), exchange), response))
        })
    }

    fn launch(&mut self, host: Host, call: Call, request: Request, fault: Option<Fault>) {
        let mut arrives = self.now + self.draw_latency();
        match &fault {
            Some(Fault::LoseRequest) => return,
            Some(Fault::Refuse) => {
                let refused = Message::Answer(call, Err(TransportErrorKind::NotSent));
                self.travel(host, refused);
                return;
            }
            Some(Fault::ResetBefore) => {
                let reset = Message::Answer(call, Err(TransportErrorKind::Unknown));
                self.travel(host, reset);
                return;
            }
            Some(Fault::Delay(by)) => arrives = arrives + *by,
            Some(Fault::Duplicate(after)) => {
                self.timeline.add(
                    arrives + *after,
                    Event::Message(host, Message::DeliverAgain(request.clone(), self.now)),
                );
            }
            _ => {}
        }
        self.servers.insert(
            call,
            ServerEnd {
                host,
                request,
                fault,
                sent_at: self.now,
                arrives,
                exchange: None,
            },
        );
        self.timeline
            .add(arrives, Event::Message(host, Message::Deliver(call)));
    }

    pub(super) fn deliver(&mut self, host: Host, call: Call) {
        let Some(server) = self.servers.remove(&call) else {
            return;
        };
        if let Some(Fault::Answer(response)) = server.fault {
            self.travel(host, Message::Answer(call, Ok(response)));
            return;
        }
        let (request, sent_at) = (server.request.clone(), server.sent_at);
        if server.fault == Some(Fault::Twice) {
            self.arrive(host, None, &request, sent_at);
        }
        if server.fault == Some(Fault::ResetAfter) {
            let reset = Message::Answer(call, Err(TransportErrorKind::Unknown));
            self.travel(host, reset);
        } else {
            self.servers.insert(call, server);
        }
        self.arrive(host, Some(call), &request, sent_at);
    }

    /// The second copy of a request arrives.
    pub(super) fn deliver_again(&mut self, host: Host, request: &Request, sent_at: Instant) {
        let line = Line(request);
        let name = &self.hosts[host.0].name;
        self.trace
            .add(self.now, format_args!("{name} delivered again {line}"));
        self.arrive(host, None, request, sent_at);
    }

    /// A request reaches Consul, whether or not somebody waits for its answer.
    pub(super) fn arrive(
        &mut self,
        host: Host,
        call: Option<Call>,
        request: &Request,
        sent_at: Instant,
    ) {
        if self.put_into_log(host, call, request, sent_at)
            || self.hold(host, call, request, sent_at)
            || self.refuse_severed(host, call, request)
        {
            return;
        }
        self.log(host, request, sent_at);
        let exchange = self.submit(host, request);
        match call.filter(|call| self.servers.contains_key(call)) {
            Some(call) => self.expect(call, exchange),
            None => self.abandon(exchange),
        }
        self.collect_answers();
    }

    /// The answer of this exchange belongs to this call.
    pub(super) fn expect(&mut self, call: Call, exchange: (Server, Exchange)) {
        if let Some(end) = self.servers.get_mut(&call) {
            end.exchange = Some(exchange);
            self.exchanges.insert(exchange, call);
        }
    }

    fn log(&mut self, host: Host, request: &Request, sent_at: Instant) {
        if let Some(writes) = &mut self.writes
            && RequestKind::of(request).is_write()
        {
            writes.push(Delivered {
                host: self.hosts[host.0].name.clone(),
                sent_at,
                request: request.clone(),
            });
        }
    }

    /// The end of the client's connection arrives.
    pub(super) fn hang_up(&mut self, host: Host, call: Call) {
        let server = self.servers.remove(&call);
        if let Some(exchange) = server.and_then(|server| server.exchange) {
            self.note(host, call, format_args!("x hung up"));
            self.exchanges.remove(&exchange);
            self.abandon(exchange);
            self.collect_answers();
        }
    }

    /// The answers to requests under way show Consul's indexes. Otherwise a poll could be answered
    /// much later with an index that keeps the next one waiting.
    pub(super) fn keep_indexes(&mut self) {
        for server in self.servers.values_mut() {
            server
                .fault
                .take_if(|fault| matches!(fault, Fault::Index(_)));
        }
    }

    fn send_answer(&mut self, call: Call, fault: Option<Fault>, response: Response) {
        // The client may have given up. Then nobody gets the answer.
        let Some(host) = self.clients.get(&call).map(|client| client.host) else {
            return;
        };
        let mut arrives = self.now + self.draw_latency();
        let outcome = match fault {
            Some(Fault::LoseAnswer) => return,
            Some(Fault::AnswerAfter(instead)) => Ok(instead),
            Some(Fault::BadAnswer) => Err(TransportErrorKind::BadAnswer),
            Some(Fault::Index(index)) => Ok(with_index(&response, Some(index))),
            Some(Fault::NoIndex) => Ok(with_index(&response, None)),
            Some(Fault::DelayAnswer(by)) => {
                arrives = arrives + by;
                Ok(response)
            }
            _ => Ok(response),
        };
        self.timeline.add(
            arrives,
            Event::Message(host, Message::Answer(call, outcome)),
        );
    }

    /// The client learns how its exchange ended.
    pub(super) fn finish(&mut self, call: Call, outcome: Result<Response, TransportErrorKind>) {
        let Some(client) = self.clients.get_mut(&call) else {
            return;
        };
        if client.outcome.is_some() {
            return;
        }
        let host = client.host;
        self.timeline.remove(client.timeout);
        self.woken.extend(client.waker.take());
        let pool = self.sockets.ended(self.now, call, outcome.is_ok());
        if matches!(outcome, Err(TransportErrorKind::Timeout)) {
            self.leave_behind(host, pool, call);
        }
        let Some(client) = self.clients.get_mut(&call) else {
            return;
        };
        let stats = &mut self.hosts[host.0].stats;
        stats.closed();
        client.outcome = Some(match outcome {
            Ok(response) => {
                stats.received(&response);
                self.trace.add(
                    self.now,
                    format_args!(
                        "{} #{} < {}{} ({} B)",
                        self.hosts[host.0].name,
                        call.0,
                        response.status(),
                        ShownIndex(response.header("X-Consul-Index")),
                        response.body().len()
                    ),
                );
                Ok(response)
            }
            Err(kind) => {
                stats.failed();
                self.trace.add(
                    self.now,
                    format_args!("{} #{} < {kind:?}", self.hosts[host.0].name, call.0),
                );
                Err(TransportError::with_source(
                    kind,
                    "simulated by the network",
                ))
            }
        });
    }

    /// The client closes its connection. Consul notices after the request.
    pub(super) fn close(&mut self, host: Host, call: Call) {
        if let Some(server) = self.servers.get(&call) {
            let arrives = server.arrives;
            let at = (self.now + self.draw_latency()).max(arrives);
            self.timeline
                .add(at, Event::Message(host, Message::HangUp(call)));
        }
    }
}

fn with_index(response: &Response, index: Option<u64>) -> Response {
    let bare = Response::new(response.status(), response.body());
    response
        .headers()
        .fold(bare, |answer, (name, value)| match index {
            _ if !name.eq_ignore_ascii_case("X-Consul-Index") => answer.with_header(name, value),
            Some(index) => answer.with_header(name, index.to_string()),
            None => answer,
        })
}

struct ShownIndex<'a>(Option<&'a str>);

impl fmt::Display for ShownIndex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(index) => write!(f, " index {index}"),
            None => Ok(()),
        }
    }
}
