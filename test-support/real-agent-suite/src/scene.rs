//! An agent, a prefix, and what both sides of it see.

use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_channel::oneshot;
use futures_util::future::{Either, select};
use real_agent::{Agent, Client};
use semaphore_core::adapter::{BlockOn, Runtime as _};
use semaphore_core::{Builder, Error, Permit, Semaphore};
use serde_json::Value;

use crate::{Backend, Options};

/// How long a step may take that must happen at some time. A loaded machine is no reason to fail.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Consul's shortest TTL.
pub const SHORT_TTL: Duration = Duration::from_secs(10);

/// One prefix on one agent.
pub struct Scene<'b, B: Backend> {
    backend: &'b B,
    /// The adapter whose runtime runs the test's futures.
    home: B::Adapter,
    /// The options that participants connect with.
    options: Options,
    admin: Client,
    prefix: String,
}

/// Something that runs in the background.
pub struct Task<T>(oneshot::Receiver<T>);

impl<'b, B: Backend> Scene<'b, B> {
    /// A scene on the agent that tests share.
    pub fn shared(backend: &'b B) -> Self {
        Self::at(backend, Agent::shared().unwrap())
    }

    /// A scene on an agent of the test's own.
    pub fn on(backend: &'b B, agent: &Agent) -> Self {
        Self::at(backend, agent.client())
    }

    /// A scene on the agent of this client.
    pub fn at(backend: &'b B, admin: Client) -> Self {
        let options = Options::to(admin.url());
        Self::with(backend, admin, options)
    }

    /// A scene whose participants connect with these options. `admin` is the test's own connection.
    pub fn with(backend: &'b B, admin: Client, options: Options) -> Self {
        Self {
            backend,
            home: backend.build(options.clone()),
            options,
            admin,
            prefix: fresh_prefix(),
        }
    }

    pub fn admin(&self) -> &Client {
        &self.admin
    }

    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    pub fn home(&self) -> &B::Adapter {
        &self.home
    }

    /// Another adapter, as another host would have it.
    pub fn adapter(&self) -> B::Adapter {
        self.adapter_to(&self.options.url)
    }

    /// Another adapter, connected to this URL.
    pub fn adapter_to(&self, url: &str) -> B::Adapter {
        let url = url.to_owned();
        self.backend.build(Options {
            url,
            ..self.options.clone()
        })
    }

    pub fn builder(&self, limit: u32) -> Builder {
        Semaphore::builder(&self.prefix, limit)
    }

    /// A separate participant.
    pub fn semaphore(&self, limit: u32) -> Semaphore {
        self.connect(self.builder(limit))
    }

    pub fn connect(&self, builder: Builder) -> Semaphore {
        builder.connect(self.adapter()).unwrap()
    }

    /// A participant that connects to this URL, with the shortest lease.
    pub fn semaphore_to(&self, url: &str, limit: u32) -> Semaphore {
        let builder = self.builder(limit).ttl(SHORT_TTL);
        builder.connect(self.adapter_to(url)).unwrap()
    }

    /// Waits for a future on the backend's runtime.
    pub fn run<T: Send>(&self, future: impl Future<Output = T> + Send) -> T {
        run_on(&self.home, future)
    }

    pub fn acquire(&self, semaphore: &Semaphore) -> Permit {
        self.run(semaphore.acquire()).unwrap()
    }

    pub fn release(&self, permit: Permit) {
        self.run(permit.release()).unwrap();
    }

    /// Runs a future as a task of the backend's runtime.
    pub fn start<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Task<T> {
        let (done, task) = oneshot::channel();
        self.home
            .spawn(Box::pin(async move {
                // This fails if nobody waits for the task, which is fine.
                let _ = done.send(future.await);
            }))
            .unwrap();
        Task(task)
    }

    /// Waits for a slot in a task.
    pub fn start_acquire(&self, semaphore: &Semaphore) -> Task<Result<Permit, Error>> {
        let semaphore = semaphore.clone();
        self.start(async move { semaphore.acquire().await })
    }

    pub fn finish<T: Send>(&self, task: Task<T>) -> T {
        self.run(task.0).expect("the task ran to its end")
    }

    /// One key, if it exists.
    pub fn entry(&self, key: &str) -> Option<Value> {
        let answer = self.admin.get(&format!("/v1/kv/{key}")).unwrap();
        (answer.status == 200).then(|| answer.json().unwrap()[0].clone())
    }

    pub fn record_key(&self) -> String {
        format!("{}/.lock", self.prefix)
    }

    pub fn contender_key(&self, session: &str) -> String {
        format!("{}/{session}", self.prefix)
    }

    /// The record as JSON, null when there is none.
    pub fn record(&self) -> Value {
        let text = self.entry(&self.record_key()).map(|entry| value(&entry));
        text.map_or(Value::Null, |text| serde_json::from_slice(&text).unwrap())
    }

    /// Overwrites the record, as an administrator does.
    pub fn write_record(&self, record: &str, flags: u64) {
        let path = format!("/v1/kv/{}?flags={flags}", self.record_key());
        assert!(self.admin.put(&path, record.as_bytes()).unwrap().is_true());
    }

    pub fn holders(&self) -> Vec<String> {
        let left = self.admin.leftovers(&self.prefix).unwrap();
        left.holders.into_iter().collect()
    }

    /// The sessions of all contenders, whether they hold a slot or not.
    pub fn contenders(&self) -> Vec<String> {
        let left = self.admin.leftovers(&self.prefix).unwrap();
        let name = |key: &String| key.rsplit('/').next().unwrap().to_owned();
        left.keys.iter().map(name).collect()
    }

    /// Consul's description of a session.
    pub fn session_info(&self, session: &str) -> Value {
        let path = format!("/v1/session/info/{session}");
        self.admin.get(&path).unwrap().json().unwrap()[0].clone()
    }

    #[track_caller]
    pub fn assert_nothing_left(&self) {
        self.admin.assert_nothing_left(&self.prefix);
    }

    /// As [`Client::assert_nothing_left`], but waits for a clean-up in the background.
    #[track_caller]
    pub fn assert_nothing_left_soon(&self) {
        self.admin
            .assert_nothing_left_within(&self.prefix, PATIENCE);
    }
}

/// Waits for a future on this adapter's runtime.
pub fn run_on<T: Send>(adapter: &impl BlockOn, future: impl Future<Output = T> + Send) -> T {
    let mut output = None;
    adapter.block_on(Box::pin(async {
        let future = pin!(future);
        output = match select(future, adapter.sleep(PATIENCE)).await {
            Either::Left((result, _)) => Some(result),
            Either::Right(_) => None,
        };
    }));
    output.expect("it ends within the patience of a test")
}

/// The session of a permit's only slot.
pub fn session(permit: &Permit) -> String {
    permit.sequencers()[0].session.to_string()
}

/// The value of an entry.
pub fn value(entry: &Value) -> Vec<u8> {
    let text = entry["Value"].as_str().unwrap_or_default();
    STANDARD.decode(text).unwrap()
}

/// Waits until `is_so` is true. `what` names it in the failure.
#[track_caller]
pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// No prefix contains another, since leftovers are found by name. Other processes use the same
/// agent with their own names.
fn fresh_prefix() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("suite/{:016x}-{number:08}/slots", *PROCESS)
}
