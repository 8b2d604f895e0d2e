//! Every run of small scenes: the core's own machines against the Consul in memory, in every order
//! of all possible events, with every fault at every place.
//!
//! ```text
//!   scene, scenes        who contends, and what may go wrong
//!        │
//!   search               breadth first over states, each seen once; then backwards from the ends
//!        ├── world       one state, the actions in it, what each leads to, what must hold
//!        ├── canon       when two states are the same
//!        └── story       the shortest run that breaks a promise, step by step
//! ```
//! A scene has a semaphore with participants, or an election with candidates ([`Contest`]). Each has
//! its own session, or is a member of a client ([`Scene::in_clients`], [`Scene::beside_neighbours`]).
//! There a neighbour uses its session, too, so that the session lives on when the contender has
//! finished.
//!
//! `cargo run --release -p exploration` prints the table; this crate's tests explore the small scenes.
//!
//! # What is explored
//! A state is the machines, Consul, the messages between them, the progress of each caller, and the
//! number of faults that are left. In each state every action is tried. A caller asks, gives back,
//! gives up, or changes the value of the election's key ([`Scene::changes`]). A request or an
//! answer arrives, time passes, or a [`Fault`] of the scene happens. No order is skipped by chance
//! or because another one seems equivalent, except for the assumptions below.
//!
//! States are distinguished by what decides the following states (`canon` defines that), not by how
//! long ago something was, or by its name. This is checked: with [`Bounds::checks_sameness`],
//! whenever a state equals a known one, both must have the same following states. Each test run
//! checks a few scenes in this way, and `scripts/explore --check` checks all.
//!
//! These data are read from the `Debug` text, by the names of fields. So that none is left out
//! without notice, a test lists every field with a time, a moment or an index, and its treatment.
//! Another test checks that the machines only use the derived `Debug`.
//!
//! The semaphore's machine is read as a tree. `canon::meaning` says what each of its fields means by the
//! field's whole name, and `world::participant` what is left out.
//!
//! # What must hold
//! In every state: S1 (nobody believes beyond the limit, even if a session has ended early and its
//! holder does not know; and every belief is founded on the record, or on the session of the
//! election's key). At every write: S3, S4 and S5. For S4, the limit changes only if that was
//! requested and nobody holds. An election's key is written by `acquire` and `release` only, with a
//! value that its leader was asked to write, and nothing older than the last confirmed value is
//! left. A claim passes no waiter that came earlier and of whom its sender knew
//! (Queue). It is judged by the causes of `docs/PROTOCOL.md` alone: the order that the sender was shown, moved up by those whom it saw served
//! (rule 5), and room for PATIENCE by the records that it saw (rule 7). A slot is handed over within
//! the process for STAY only (rule 3). At every event: L4 (a transient fault causes no loss and no failure). While nothing has
//! gone wrong: L2 (a finished caller has left nothing behind). In a client, this holds after faults,
//! too: a contender at rest has left nothing on the session that lives on. When all states are known: L1 and
//! the rest of L2. From *each* state, without more faults, a state can be reached where all are
//! served and gone and nothing of them is in Consul (of an election, all but its key). No leader
//! has to leave for a change of its value to end, and the changes end once, in order. [`Violation`]
//! has the list.
//!
//! # Assumptions
//! - A participant acts at once on what it learns, as with its driver, unless it is paused.
//! - Messages take no time, unless [`Fault::Delay`] holds them up: the clock moves only when no
//!   other message is under way. So the scenes with that fault cover a slow network.
//! - Time stops at multiples of [`Scene::tick`]. What is due in between is late by less than one
//!   tick.
//! - A participant's jitter comes from the same seed at every step, so it is always the same
//!   fraction.
//! - With [`Messages::RoundTrips`], a request without a fault is answered in the same step. Answers
//!   to blocking queries that had to wait still come at any time.
//! - Consul expires a session at any time between one and two TTLs after the last renewal that
//!   arrived. All clocks have the same rate: the margin of the lease is not explored.
//! - A holder's poll of its own key, which waits for a minute, has no end. Its end
//!   brings nothing but the next one.
//! - How often a contender key was touched has no effect: each touch is bound to the
//!   key's index, and differs from what the key was.
//! - No run is so long that Consul forgets a deletion (a quarter of an hour), or that the limit of
//!   the watch's reads matters.
//! - Participants are interchangeable, and so are the callers of each. So are session ids: of two
//!   dead holders, the one with the older session is checked first.
//! - Consul refuses nothing for want of permission, so it does not matter what it has served before.
//! - A process ends when all its callers are served and it has nothing left to do.
//! - In a client, a neighbour's requests are answered before anything else happens, and while it
//!   holds, it sends none. Nobody else wants what it holds. It is there from the start, and gives back
//!   at any time after the contender's callers are done. With [`Scene::beside_neighbours`] it comes
//!   and goes at any time, once, and the requests for its session arrive as all others do. What it
//!   believes must be founded, and it may lose it for no transient fault.
//! - In a client, what was given up arrives within [`LATEST`], or not at all. The core assumes the
//!   same where no index can settle the matter.
//! - In a semaphore's client, a copy of an answered acquisition of a contender key may leave that key
//!   on the session, since no index can fence it. That is not judged.
//!
//! A state is identified by 128 bits of hash. With ten million states, the chance of any collision
//! is below 10⁻²⁴. While few states wait, the search is breadth first, so that stories are short.
//! Then it is depth first, so that the states fit into memory.

mod action;
mod canon;
mod clock;
mod scene;
pub mod scenes;
mod search;
mod story;
mod violation;
mod world;

pub use scene::{Arrivals, Contest, Fault, Furniture, LATEST, Messages, Scene, Sessions};
pub use search::{Bounds, Outcome, Report, explore};
pub use violation::Violation;
