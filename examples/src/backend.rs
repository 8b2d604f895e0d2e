//! The three backends behind one type, so that a program can choose at its start.
//!
//! A program with one backend does not need this. It passes its `ReqwestTransport`, `UreqTransport`
//! or `SmolTransport` to the builder, as `on_tokio`, `on_threads` and `on_smol` show.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clap::ValueEnum;
use semaphore_core::adapter::{
    BlockOn, BoxFuture, Instant, Method, Request, Response, Runtime, Transport, TransportError,
    Unfinished,
};
use semaphore_core::{Builder, Client, Error, Scope, Semaphore, blocking};
use transport_reqwest::ReqwestTransport;
use transport_ureq::{SmolTransport, UreqTransport};

use crate::agent::Agent;
use crate::failure::Failure;
use crate::meter::{Meter, Metered, Reading};
use crate::place::Place;

/// The code that sends requests and runs contenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// `transport-reqwest`: a contender is a task of tokio.
    Tokio,
    /// `transport-ureq`: a contender is a thread that blocks.
    Threads,
    /// `transport-ureq` with its feature `smol`: a contender is a task of smol.
    Smol,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tokio => "tokio",
            Self::Threads => "threads",
            Self::Smol => "smol",
        })
    }
}

/// Which connections are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Transports {
    /// All share one client with its connections and sessions
    Client,
    /// All share the connections of one transport
    Shared,
    /// Each host has its own
    Each,
}

/// Makes the hosts of a program, and counts the traffic of all.
#[derive(Debug)]
pub struct Hosts {
    backend: Backend,
    agent: Agent,
    meter: Arc<Meter>,
    tokio: Option<tokio::runtime::Runtime>,
}

impl Hosts {
    /// Hosts with this backend that use `agent`. It sends nothing yet.
    ///
    /// # Errors
    /// [`Failure::Thread`] when the system has no threads for a runtime.
    pub fn new(backend: Backend, agent: Agent) -> Result<Self, Failure> {
        let tokio = (backend == Backend::Tokio)
            .then(|| {
                tokio::runtime::Builder::new_multi_thread()
                    .enable_all()
                    .build()
            })
            .transpose()
            .map_err(Failure::Thread)?;
        Ok(Self {
            backend,
            agent,
            meter: Arc::default(),
            tokio,
        })
    }

    /// The agent they talk to.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// The counter of all traffic.
    pub fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    /// The traffic of all hosts so far.
    pub fn traffic(&self) -> Reading {
        self.meter.read()
    }

    /// A host with separate connections, like another machine.
    ///
    /// # Errors
    /// [`Failure::Backend`], before anything is sent.
    pub fn host(&self) -> Result<Host, Failure> {
        match self.backend {
            Backend::Tokio => {
                // The transport uses the runtime in which it is built.
                let _inside = self.tokio.as_ref().map(tokio::runtime::Runtime::enter);
                let built = match self.in_memory() {
                    Some(url) => ReqwestTransport::new(url),
                    None => ReqwestTransport::from_env(),
                };
                built.map_or_else(unbuilt, |transport| Ok(self.wrap(transport)))
            }
            Backend::Threads => self.ureq().map(|transport| self.wrap(transport)),
            Backend::Smol => self
                .ureq()
                .map(|transport| self.wrap(SmolTransport::from(transport))),
        }
    }

    /// That many hosts.
    ///
    /// # Errors
    /// [`Failure::Backend`], before anything is sent.
    pub fn several(&self, count: usize, transports: Transports) -> Result<Vec<Host>, Failure> {
        let mut hosts: Vec<Host> = Vec::with_capacity(count);
        for _ in 0..count {
            hosts.push(match (transports, hosts.first()) {
                (Transports::Client | Transports::Shared, Some(first)) => first.beside(),
                _ => self.host()?,
            });
        }
        Ok(hosts)
    }

    fn ureq(&self) -> Result<UreqTransport, Failure> {
        let built = match self.in_memory() {
            Some(url) => UreqTransport::new(url),
            None => UreqTransport::from_env(),
        };
        built.or_else(unbuilt)
    }

    fn in_memory(&self) -> Option<String> {
        self.agent
            .is_in_memory()
            .then(|| self.agent.url().to_string())
    }

    fn wrap<B>(&self, backend: B) -> Host
    where
        B: Transport + BlockOn + Clone + 'static,
    {
        let place = Arc::<Place>::default();
        let meter = Arc::clone(&self.meter);
        let wire: Arc<dyn Transport> = Arc::new(backend.clone());
        Host {
            client: None,
            transport: Arc::new(Metered::new(wire, meter, Arc::clone(&place))),
            place,
            runtime: Arc::new(backend),
            blocks: self.backend == Backend::Threads,
        }
    }
}

/// One machine: a transport, usually with separate connections, and its runtime.
#[derive(Clone)]
pub struct Host {
    /// What its semaphores share, if they share more than connections.
    client: Option<Client>,
    transport: Arc<Metered<Arc<dyn Transport>>>,
    place: Arc<Place>,
    runtime: Arc<dyn BlockOn>,
    blocks: bool,
}

/// A semaphore, with the kind of handles that the backend needs.
#[derive(Clone, Debug)]
pub enum Handle {
    /// For tasks.
    Async(Semaphore),
    /// For threads.
    Blocking(blocking::Semaphore),
}

impl Host {
    /// The semaphore that `builder` describes, on this host. It sends nothing yet.
    ///
    /// # Errors
    /// [`Error::InvalidInput`].
    pub fn connect(&self, builder: Builder) -> Result<Handle, Error> {
        if self.blocks {
            builder.connect_blocking(self.clone()).map(Handle::Blocking)
        } else {
            builder.connect(self.clone()).map(Handle::Async)
        }
    }

    /// Asks the agent for its leader, so that a wrong address is reported at once instead of being
    /// waited for.
    ///
    /// # Errors
    /// [`Failure::Unreachable`], [`Failure::NotReady`].
    pub fn probe(&self, agent: &Agent) -> Result<(), Failure> {
        let request = Request::new(Method::Get, "/v1/status/leader");
        let request = request.with_timeout(Duration::from_secs(5));
        let url = agent.url().clone();
        match self.wait(self.send(request)) {
            Ok(answer) if answer.status() == 200 => Ok(()),
            Ok(answer) => Err(Failure::NotReady {
                url,
                status: answer.status(),
            }),
            Err(source) => Err(Failure::Unreachable { url, source }),
        }
    }

    /// The same host, with everything connected through this client.
    #[must_use]
    pub fn with(&self, client: &Client) -> Self {
        Self {
            client: Some(client.clone()),
            ..self.clone()
        }
    }

    /// Another host that shares its connections, like handles of one transport.
    fn beside(&self) -> Self {
        let place = Arc::<Place>::default();
        Self {
            transport: Arc::new(self.transport.beside(Arc::clone(&place))),
            place,
            ..self.clone()
        }
    }

    /// The place of its contender in the queue.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Runs `future` to its end on the calling thread.
    ///
    /// # Panics
    /// If it is called within async code.
    pub fn wait<T: Send>(&self, future: impl Future<Output = T> + Send) -> T {
        let mut output = None;
        self.block_on(Box::pin(async { output = Some(future.await) }));
        output.unwrap_or_else(|| unreachable!("a runtime runs the future to its end"))
    }
}

impl Handle {
    /// Waits until nothing of it is left in Consul.
    pub fn shutdown(&self, host: &Host) {
        match self {
            Self::Async(semaphore) => host.wait(semaphore.shutdown()),
            Self::Blocking(semaphore) => semaphore.shutdown(),
        }
    }

    /// Removes the semaphore's record, unless others use it or have already removed it.
    ///
    /// # Errors
    /// As [`Semaphore::destroy`], except [`Error::InUse`] and [`Error::NotFound`].
    pub fn destroy(&self, host: &Host) -> Result<(), Error> {
        let destroyed = match self {
            Self::Async(semaphore) => host.wait(semaphore.destroy()),
            Self::Blocking(semaphore) => semaphore.destroy(),
        };
        match destroyed {
            Err(Error::InUse { .. } | Error::NotFound { .. }) => Ok(()),
            result => result,
        }
    }
}

#[async_trait]
impl Transport for Host {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.transport.send(request).await
    }

    fn defaults(&self) -> Scope {
        self.transport.defaults()
    }

    fn address(&self) -> Option<String> {
        self.transport.address()
    }

    fn shared(&self) -> Option<&dyn Any> {
        self.client.as_ref().and_then(Transport::shared)
    }
}

#[async_trait]
impl Runtime for Host {
    fn now(&self) -> Instant {
        self.runtime.now()
    }

    async fn sleep(&self, duration: Duration) {
        self.runtime.sleep(duration).await;
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) -> std::io::Result<()> {
        self.runtime.spawn(future)
    }

    fn seed(&self) -> u64 {
        self.runtime.seed()
    }

    fn linger(&self, rest: BoxFuture<'_, ()>) {
        self.runtime.linger(rest);
    }

    fn finish(&self, rest: Unfinished) {
        self.runtime.finish(rest);
    }
}

impl BlockOn for Host {
    fn block_on(&self, future: BoxFuture<'_, ()>) {
        self.runtime.block_on(future);
    }
}

fn unbuilt<T>(error: impl std::error::Error + Send + Sync + 'static) -> Result<T, Failure> {
    Err(Failure::Backend(error.into()))
}
