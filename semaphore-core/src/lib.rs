//! A distributed counting semaphore and leader election over Consul, as a protocol core without
//! I/O.
//!
//! Services on many machines share a limited resource: at most N at once. Consul stores who holds a
//! slot. This crate has only the protocol: it describes HTTP requests and understands their answers.
//! An adapter sends them: `transport-reqwest` on tokio, `transport-ureq` on plain threads and on smol,
//! `transport-mock` to a Consul in memory. Each adapter re-exports the parts of this crate that users
//! need, so one dependency is enough.
//!
//! # Holding a slot
//! ```
//! use semaphore_core::{Error, Semaphore};
//! # use transport_mock::MockConsul;
//!
//! # let world = MockConsul::new(1);
//! # let transport = world.client("node-1");
//! # async fn work(_token: semaphore_core::FencingToken) {}
//! # world.run(async {
//! let semaphore = Semaphore::builder("service/db", 3).value("node-1").connect(transport)?;
//! let permit = semaphore.acquire().await?; // or try_acquire, acquire_timeout, acquire_many
//! work(permit.fencing_token()).await;
//! permit.release().await?; // or drop it
//! # Ok::<(), Error>(())
//! # })?;
//! # Ok::<(), Error>(())
//! ```
//! The semaphore is *advisory*: it tells its holders the truth, but they must ask. [`blocking`] has
//! the same handles for threads.
//!
//! # What to do on loss
//! A permit is lost if Consul is silent for longer than the lease, or if its session ends early. Then stop the work.
//! [`Semaphore::with_permit`] drops it, and [`Permit::lost`] resolves. Ask [`Permit::is_held`] before each step, and give
//! [`Permit::lost_signal`] to spawned work. Only a resource that refuses old fencing tokens is safe from a pause between check and step.
//!
//! # Leading
//! Of all candidates for a key one leads at a time: its [`Election`] gives it a [`Leadership`].
//! ```
//! use semaphore_core::{Election, Error};
//! # use transport_mock::MockConsul;
//!
//! # let world = MockConsul::new(1);
//! # let transport = world.client("node-1");
//! # async fn serve(_token: semaphore_core::FencingToken) {}
//! # world.run(async {
//! let election = Election::builder("service/db/leader").value("10.0.0.1:5432").connect(transport)?;
//! let leadership = election.campaign().await?; // or try_campaign, campaign_timeout
//! serve(leadership.fencing_token()).await; // until leadership.lost() resolves
//! leadership.set_value("10.0.0.1:5433").await?;
//! leadership.resign().await?; // or drop it
//! # Ok::<(), Error>(())
//! # })?;
//! # Ok::<(), Error>(())
//! ```
//! A leadership is advisory, too. `consul lock -n 1` and Go's `api.Lock` can share the key. A semaphore's
//! key is refused for an election, and the other way round.
//!
//! # Finding a leader
//! [`Discovery`] reads an election's key once, or follows it. It also checks a [`Sequencer`] for a resource that serves only
//! the leader.
//! ```
//! use semaphore_core::{Discovery, LeaderEvent};
//! # use transport_mock::MockConsul;
//! # let world = MockConsul::new(1);
//! # let transport = world.client("node-1");
//! # world.run(async {
//!
//! let discovery = Discovery::builder("service/db/leader").connect(transport)?;
//! let mut follower = discovery.follow();
//! while let Some(event) = follower.next().await {
//!     match event? {
//!         LeaderEvent::Elected(leader) => println!("{:?} leads", leader.text()),
//!         LeaderEvent::Leaderless { .. } => println!("nobody leads"),
//!         _ => {}
//!     }
//! #   break;
//! }
//! # Ok::<(), semaphore_core::Error>(())
//! # })?;
//! # Ok::<(), semaphore_core::Error>(())
//! ```
//!
//! # Driving it by hand
//! [`Participant`](sans_io::Participant) is the machine behind the handles. With your own socket and clock, this is the whole
//! loop:
//! ```
//! use semaphore_core::Prefix;
//! use semaphore_core::sans_io::{Event, Machine as _, Participant, Request, Response, Settings};
//! use semaphore_core::sans_io::TransportError;
//! # use transport_mock::{MockClient, MockConsul};
//! # use semaphore_core::adapter::{Runtime as _, Transport as _};
//! # let world = MockConsul::new(1);
//! # let client = world.client("node-1");
//! # let now = || client.now();
//! # let send = |request: Request| world.run(client.send(request));
//!
//! let settings = Settings::new(Prefix::new("service/db")?, 3)?;
//! let mut participant = Participant::new(settings, 42);
//! let acquire = participant.acquire(now(), 1, None)?;
//! let token = loop {
//!     participant.handle_timeout(now());
//!     match participant.poll_event() {
//!         Some(Event::Granted { grant, .. }) => break grant.token,
//!         Some(event) => panic!("{event:?}"),
//!         None => {}
//!     }
//!     if let Some(transmit) = participant.poll_transmit(now()) {
//!         let answer: Result<Response, TransportError> = send(transmit.request);
//!         participant.handle_response(now(), transmit.id, answer);
//!     } else {
//!         // Wait until participant.poll_timeout().
//!     }
//! };
//! assert!(participant.is_held(now(), acquire));
//! # let _ = token;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! A [`Candidate`](sans_io::Candidate) is the machine of an election. The same loop drives it.
//!
//! This loop sends one request after the other. A real one has several requests under way, since the agent holds a poll
//! ([`Request::is_long_poll`](sans_io::Request::is_long_poll)) open for up to 64 s. It also gives up the requests that
//! [`poll_abort`](sans_io::Machine::poll_abort) names. In the repository, `docs/guides/BY-HAND.md` has such a loop, and the example
//! `by_hand` is a whole program.
//!
//! # Where things are
//! | module | has |
//! |---|---|
//! | this one | the handles, their options, and their results |
//! | [`blocking`] | the same handles for threads |
//! | [`error`] | every error, and its parts |
//! | [`lost`] | the signal that spawned work watches |
//! | [`terms`] | the options of [`Election::run`] |
//! | [`manage`] | inspecting and managing a semaphore |
//! | [`observe`] | observers, for your own logs and metrics |
//! | [`adapter`] | for adapters: `Transport`, `Runtime`, connections, addresses |
//! | [`sans_io`] | for your own event loop: the machines behind the handles, and their types |
//!
//! # Features
//! - `metrics`: `observe::Metrics`, figures for the facade `metrics`.
//! - `serialize`: what `inspect` returns can be serialized by serde.
//!
//! # What is promised
//! [`promises`] lists the promises S1 to S5 and L1 to L4, with bounds and assumptions. In the repository, `docs/EVIDENCE.md` says
//! how each promise is checked, and `docs/ARCHITECTURE.md` how this crate is built. `docs/guides` has guides with code: TTL, loss,
//! fencing, ACLs, writing an adapter.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod adapter;
mod agent_environment;
mod agent_url;
mod api;
mod asked;
mod authorities;
mod basic_auth;
mod build_error;
mod connections;
#[cfg(feature = "unstable-defects")]
#[doc(hidden)]
pub mod defect;
#[cfg(not(feature = "unstable-defects"))]
#[expect(unreachable_pub, reason = "public with the feature")]
mod defect;
mod driver;
mod election_key;
pub mod error;
mod handle;
mod http;
mod id;
mod input;
mod leader;
pub mod lost {
    //! The signal of a loss, for work that runs in other tasks or threads.

    pub use crate::handle::LostSignal;
}
mod machine;
pub mod manage;
pub mod observe;
mod one_line;
mod pem;
mod runtime;
#[doc = include_str!("../PROMISES.md")]
pub mod promises {}
mod record;
mod reloaded;
pub mod sans_io;
mod sequencer;
mod subject;
#[cfg(not(semaphore_races))]
mod sync;
#[cfg(semaphore_races)]
#[doc(hidden)]
pub mod sync;
pub mod terms {
    //! The options of [`Election::run`](crate::Election::run): how one term of an election follows another.

    pub use crate::handle::{TermLimit, Terms};
}
mod time;
mod token;
mod token_source;
mod transport;
mod view;
mod work;

pub use build_error::BuildError;
pub use error::{Conflict, Error, Lost, Refusal, RequestError};
pub use handle::{
    Builder, Client, Discovery, Election, Follower, Leadership, Permit, Semaphore, blocking,
};
pub use id::{FencingToken, SessionId};
pub use input::{Behavior, InvalidInput, LockKey, Prefix, Scope};
pub use leader::{Leader, LeaderStatus};
pub use machine::{Availability, LeaderEvent};
pub use sequencer::{Sequencer, SequencerStatus};
pub use token::Token;
pub use token_source::TokenSource;
