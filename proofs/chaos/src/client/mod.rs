//! A client process. It has contenders in a loop that log their beliefs, or followers that log what
//! they see.
//!
//! A line on its input makes it end in order, and [`LEAVE`] in a hurry. It ends at once when its
//! input ends, which happens when its parent process is gone.

mod book;
mod members;
mod tasks;
mod threads;
mod turn;

use std::io::{self, Read as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{process, thread};

use rustix::process::{Signal, set_parent_process_death_signal};
use semaphore_core::{Builder, Election, Scope, Semaphore};
use serde::{Deserialize, Serialize};
use transport_reqwest::ReqwestTransport;
use transport_ureq::{SmolTransport, UreqTransport};

use crate::defect;
use crate::failure::{Failure, Try as _};
use crate::record::{Backend, Folder, Place, Role};
use crate::tokens;
use book::Book;

/// The instructions for a client process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The number of the client.
    pub number: usize,
    /// How often the client has been started, from 1.
    pub incarnation: u32,
    /// The backend that it uses.
    pub backend: Backend,
    /// The address of its agent.
    pub url: String,
    /// The TTL of its sessions.
    pub ttl: Duration,
    /// The lock delay of its sessions, unless it is the default.
    pub lock_delay: Option<Duration>,
    /// Whether its sessions use a node without a server.
    pub own_node: bool,
    /// Whose token it has, if its agent asks for one.
    pub token_of: Option<usize>,
    /// Whether all of it uses one `Client`.
    pub shares: bool,
    /// Whether it holds for longer than Consul needs to remove a dead server.
    pub holds_long: bool,
    /// What it does.
    pub role: Role,
    /// What it contends for, or follows.
    pub places: Vec<Place>,
    /// The seed of its choices.
    pub seed: u64,
    /// The folder of its logs.
    pub folder: PathBuf,
    /// Its deliberate defect, if any.
    pub defect: Option<String>,
}

impl Plan {
    /// The value of its contender keys, and the beginning of its sessions' names.
    pub fn name(&self) -> String {
        name(self.number, self.incarnation)
    }

    /// The name of a session. It says where it was used, in case it is left behind. Those who share
    /// sessions give them one name.
    fn session_name(&self, place: &Place) -> String {
        if self.shares {
            return self.name();
        }
        format!("{} at {}", self.name(), place.prefix)
    }

    fn semaphore(&self, place: &Place) -> Result<Builder, Failure> {
        let builder = Semaphore::builder(&place.prefix, place.limit)
            .ttl(self.ttl)
            .session_name(self.session_name(place))
            .value(self.name());
        let builder = builder.scope(self.scope()?);
        let builder = match self.lock_delay {
            Some(delay) => builder.lock_delay(delay),
            None => builder,
        };
        Ok(if self.own_node {
            builder.own_node(OWN_NODE)
        } else {
            builder
        })
    }

    fn scope(&self) -> Result<Scope, Failure> {
        tokens::scope(self.token_of.map(tokens::secret))
    }

    fn election(&self, place: &Place) -> Result<Builder<Election>, Failure> {
        let builder = Election::builder(place.record_key())
            .ttl(self.ttl)
            .session_name(self.session_name(place))
            .value(self.name());
        let builder = builder.scope(self.scope()?);
        let builder = match self.lock_delay {
            Some(delay) => builder.lock_delay(delay),
            None => builder,
        };
        Ok(if self.own_node {
            builder.own_node(OWN_NODE)
        } else {
            builder
        })
    }

    fn elections(&self) -> impl Iterator<Item = &Place> {
        self.places.iter().filter(|place| place.is_election())
    }
}

/// A client that reads this ends in a hurry.
pub const LEAVE: u8 = b'!';

/// The node without a server.
const OWN_NODE: &str = "chaos-sessions";

/// All names of our sessions and all our values begin with this.
pub const OURS: &str = "chaos-client-";

/// The name of an incarnation.
pub fn name(client: usize, incarnation: u32) -> String {
    format!("{OURS}{client}-{incarnation}")
}

/// Runs a client to its end.
///
/// # Errors
/// [`Failure`] if it can't begin.
pub fn run(plan: &Plan) -> Result<(), Failure> {
    // If the parent is killed while this process is frozen, nothing else would end it.
    set_parent_process_death_signal(Some(Signal::KILL)).doing("tying a client to its parent")?;
    defect::switch_on(plan.defect.as_deref())?;
    let folder = Folder(plan.folder.clone());
    let book = Book::open(&folder.client(plan.number, plan.incarnation), plan)
        .doing("opening a client's log")?;
    let book = Arc::new(book);
    listen(Arc::clone(&book));
    match plan.backend {
        Backend::Tokio => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .doing("starting tokio")?;
            let _inside = runtime.enter();
            let backend = ReqwestTransport::new(&plan.url).doing("building a transport")?;
            tasks::run(plan, &backend, &book)?;
        }
        Backend::Smol => {
            let backend = SmolTransport::new(&plan.url).doing("building a transport")?;
            tasks::run(plan, &backend, &book)?;
        }
        Backend::Threads => {
            let backend = UreqTransport::new(&plan.url).doing("building a transport")?;
            threads::run(plan, &backend, &book)?;
        }
    }
    book.end();
    Ok(())
}

fn listen(book: Arc<Book>) {
    thread::spawn(move || {
        let mut byte = [0];
        while let Ok(1) = io::stdin().read(&mut byte) {
            match byte[0] {
                LEAVE => book.leave(),
                _ => book.stop(),
            }
        }
        if !book.must_stop() {
            process::exit(1);
        }
    });
}
