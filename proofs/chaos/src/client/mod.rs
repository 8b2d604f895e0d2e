//! A client process: contenders in a loop with their beliefs, or followers with what they see.
//!
//! It ends in order when it reads a line, and in a hurry when it reads [`LEAVE`]. It ends at once
//! when its input ends, which happens when its parent process is gone.

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
use semaphore_core::{Builder, Election, Encoding, Semaphore};
use serde::{Deserialize, Serialize};
use transport_reqwest::ReqwestTransport;
use transport_ureq::{SmolTransport, UreqTransport};

use crate::defect;
use crate::failure::{Failure, Try as _};
use crate::record::{Backend, Folder, Place, Role};
use book::Book;

/// What a client process is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Which client it is.
    pub number: usize,
    /// How often it was started, from 1.
    pub incarnation: u32,
    /// What it runs on.
    pub backend: Backend,
    /// The address of its agent.
    pub url: String,
    /// The TTL of its sessions.
    pub ttl: Duration,
    /// The lock delay of its sessions, unless it is the default.
    pub lock_delay: Option<Duration>,
    /// Whether its sessions stand on a node that no server stands for.
    pub own_node: bool,
    /// Whether it holds for longer than Consul needs to take a dead server out.
    pub holds_long: bool,
    /// What it does.
    pub role: Role,
    /// What it contends for, or follows.
    pub places: Vec<Place>,
    /// What its choices come from.
    pub seed: u64,
    /// Where it writes.
    pub folder: PathBuf,
    /// What is wrong with it.
    pub defect: Option<String>,
}

impl Plan {
    /// What its contender keys are called, and how the names of its sessions begin.
    pub fn name(&self) -> String {
        name(self.number, self.incarnation)
    }

    /// Says where it was for when it is left behind.
    fn session_name(&self, place: &Place) -> String {
        format!("{} at {}", self.name(), place.prefix)
    }

    fn semaphore(&self, place: &Place) -> Builder {
        let builder = Semaphore::builder(&place.prefix, place.limit)
            .ttl(self.ttl)
            .session_name(self.session_name(place))
            .value(self.name())
            .encoding(self.encoding());
        let builder = match self.lock_delay {
            Some(delay) => builder.lock_delay(delay),
            None => builder,
        };
        if self.own_node {
            builder.own_node(OWN_NODE)
        } else {
            builder
        }
    }

    fn election(&self, place: &Place) -> Builder<Election> {
        let builder = Election::builder(place.record_key())
            .ttl(self.ttl)
            .session_name(self.session_name(place))
            .value(self.name())
            .encoding(self.encoding());
        let builder = match self.lock_delay {
            Some(delay) => builder.lock_delay(delay),
            None => builder,
        };
        if self.own_node {
            builder.own_node(OWN_NODE)
        } else {
            builder
        }
    }

    fn elections(&self) -> impl Iterator<Item = &Place> {
        self.places.iter().filter(|place| place.is_election())
    }

    /// How it encodes its steps: each incarnation as its seed says, so that fleets are mixed.
    fn encoding(&self) -> Encoding {
        if self.seed >> 63 == 0 {
            Encoding::Transactions
        } else {
            Encoding::Requests
        }
    }
}

/// What a client reads that is to end in a hurry.
pub const LEAVE: u8 = b'!';

/// The node that no server stands for.
const OWN_NODE: &str = "chaos-sessions";

/// The beginning of the names of all our sessions, and of all values that we write.
pub const OURS: &str = "chaos-client-";

/// What an incarnation is called.
pub fn name(client: usize, incarnation: u32) -> String {
    format!("{OURS}{client}-{incarnation}")
}

/// Runs a client to its end.
///
/// # Errors
/// [`Failure`] when it can't begin.
pub fn run(plan: &Plan) -> Result<(), Failure> {
    // Nothing else ends one that is stopped when its parent is killed.
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
