//! Consul's guide to semaphores, step by step, with the guide's own requests: a client of a few
//! lines. A contender of this library is on the same prefix, and both share its slots.
//!
//! `cargo run --bin guide`, on a Consul in memory or on the agent at `CONSUL_HTTP_ADDR`.
//!
//! The library sends other requests for the same steps: transactions, which are atomic. And it does
//! what the guide leaves to its reader: it renews the session, keeps the order of the queue, waits
//! for lock delays, and tells the holder when its slot is lost.

use std::error::Error;
use std::time::Duration;

use examples::agent::Agent;
use examples::say;
use semaphore_core::adapter::Transport as _;
use semaphore_core::sans_io::api::{
    AcquireKey, CasKey, CreateSession, DeleteKey, DestroySession, ListKeys, ReadKey,
};
use semaphore_core::sans_io::{Index, Record, Request, Response, SessionOptions, View};
use semaphore_core::{Prefix, SessionId};
use transport_reqwest::{ReqwestTransport, Scope, Semaphore};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const PREFIX: &str = "examples/guide";
const LIMIT: u32 = 2;

#[tokio::main]
async fn main() -> Outcome<()> {
    let agent = Agent::find()?;
    say!("on {}", agent.describe());
    let ours = Semaphore::builder(PREFIX, LIMIT)
        .value("ours")
        .connect(agent.reqwest()?)?;
    let guide = Guide::new(agent.reqwest()?)?;

    let permit = ours.acquire().await?;
    say!("a contender of the library holds a slot");
    let session = guide.create_session().await?;
    guide.enter(&session).await?;
    guide.acquire(&session).await?;
    say!(
        "both slots are held, one by each: {}",
        guide.holders().await?
    );

    // Everybody who comes now waits, of either client.
    let next = tokio::spawn({
        let ours = ours.clone();
        async move { ours.acquire().await }
    });
    guide.release(&session).await?;
    let next = next.await??;
    say!("the slot that the guide's client gave back went to the library's next caller");

    next.release().await?;
    permit.release().await?;
    ours.shutdown().await;
    ours.destroy().await?;
    say!("nothing is left");
    Ok(())
}

/// A client that does what the guide says, and nothing else.
struct Guide {
    transport: ReqwestTransport,
    scope: Scope,
    prefix: Prefix,
}

impl Guide {
    fn new(transport: ReqwestTransport) -> Outcome<Self> {
        Ok(Self {
            scope: transport.defaults(),
            transport,
            prefix: Prefix::new(PREFIX)?,
        })
    }

    async fn send(&self, request: Request) -> Outcome<Response> {
        say!("  {} {}", request.method(), request.target());
        Ok(self.transport.send(request).await?)
    }

    /// Creates the session that proves that the client is alive.
    async fn create_session(&self) -> Outcome<SessionId> {
        say!("the guide's client creates a session");
        let options = SessionOptions::new().with_name("the guide's")?;
        let create = CreateSession { options: &options };
        let answer = self.send(create.request(&self.scope)).await?;
        Ok(CreateSession::parse(&answer)?)
    }

    /// Becomes a contender: creates its own key, which is tied to its session.
    async fn enter(&self, session: &SessionId) -> Outcome<()> {
        say!("it creates its contender key");
        let enter = AcquireKey {
            key: &self.prefix.contender_key(session),
            session,
            value: b"the guide's",
            flags: 0,
        };
        let answer = self.send(enter.request(&self.scope)).await?;
        if AcquireKey::parse(&answer)? {
            Ok(())
        } else {
            Err("another session has its contender key".into())
        }
    }

    /// Reads the prefix: the contenders, and the record of the holders.
    async fn read(&self) -> Outcome<View> {
        let list = ListKeys {
            prefix: &self.prefix,
            wait: None,
            consistent: false,
        };
        let answer = self.send(list.request(&self.scope)).await?;
        Ok(View::new(&self.prefix, &ListKeys::parse(&answer)?))
    }

    /// Replaces the record if it has not changed since it was read. Zero creates it.
    async fn write(&self, record: &Record, index: Index) -> Outcome<bool> {
        let write = CasKey {
            key: &self.prefix.record_key(),
            index,
            value: &record.encode(),
            flags: record.flags(),
        };
        let answer = self.send(write.request(&self.scope)).await?;
        Ok(CasKey::parse(&answer)?)
    }

    /// Adds itself to the record, as soon as a slot is free.
    async fn acquire(&self, session: &SessionId) -> Outcome<()> {
        loop {
            say!("it reads the prefix");
            let view = self.read().await?;
            let index = view.record_index();
            let mut record = view.record().cloned().unwrap_or_else(|| Record::new(LIMIT));
            say!("it leaves out holders without a live session, and adds itself");
            record.retain(|holder| view.is_alive(holder));
            if record.holders().len() < record.limit() as usize {
                record.add(session.as_str());
                if self.write(&record, index).await? {
                    say!("it holds a slot");
                    return Ok(());
                }
                say!("somebody was faster");
            } else {
                say!("no slot is free: it waits until the record changes");
                self.wait(index).await?;
            }
        }
    }

    /// A blocking query: it is answered when the record has changed.
    async fn wait(&self, index: Index) -> Outcome<()> {
        let wait = ReadKey {
            key: &self.prefix.record_key(),
            wait: Some((index, Duration::from_secs(30))),
            consistent: false,
        };
        let answer = self.send(wait.request(&self.scope)).await?;
        ReadKey::parse(&answer)?;
        Ok(())
    }

    /// Takes itself out of the record, deletes its contender key, and ends its session.
    async fn release(&self, session: &SessionId) -> Outcome<()> {
        say!("the guide's client gives its slot back");
        loop {
            let view = self.read().await?;
            let Some(mut record) = view.record().cloned() else {
                break;
            };
            record.retain(|holder| holder != session.as_str());
            if self.write(&record, view.record_index()).await? {
                break;
            }
        }
        let delete = DeleteKey {
            key: &self.prefix.contender_key(session),
            index: None,
        };
        let answer = self.send(delete.request(&self.scope)).await?;
        DeleteKey::parse(&answer)?;
        let destroy = DestroySession { session };
        let answer = self.send(destroy.request(&self.scope)).await?;
        Ok(DestroySession::parse(&answer)?)
    }

    async fn holders(&self) -> Outcome<String> {
        let view = self.read().await?;
        let record = view.record().ok_or("there is no record")?;
        Ok(record.holders().collect::<Vec<_>>().join(", "))
    }
}
