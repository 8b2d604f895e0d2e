//! Every run of small scenes: the core's own machines against the Consul in memory, in every order of
//! everything that can happen, with every fault at every place.
//!
//! ```text
//!   scene, scenes        who contends, and what may go wrong
//!        │
//!   search               breadth first over states, each seen once; then backwards from the ends
//!        ├── world       one state, the actions in it, what each leads to, what must hold
//!        ├── canon       when two states are the same
//!        └── story       the shortest run that breaks a promise, step by step
//! ```
//! A scene is of a semaphore, whose machines are participants, or of an election with candidates ([`Contest`]).
//!
//! `cargo run --release -p exploration` prints the table; this crate's tests explore the small scenes.
//!
//! # What is explored
//! A state is the machines, Consul, the messages between them, how far each caller is, and how many
//! faults are left. From each state every action is tried: a caller asks, gives back, gives up, changes what the
//! election's key says ([`Scene::changes`]); a request or an answer arrives; time passes; and the [`Fault`]s of the scene. No order is left out by chance or
//! because another is held to be as good, but see the assumptions.
//!
//! States are told apart by what decides what can follow from them (`canon` says by what), not by how
//! long ago something was or what it is called. That this leaves nothing out is not believed but
//! checked: with [`Bounds::checks_sameness`], whenever a state is taken for one that is known, all states
//! that follow from the one must be those that follow from the other. A few scenes are checked so in
//! each test run, all with `scripts/explore --check`.
//!
//! What decides is read from the text that `Debug` shows, by the names of fields. So that none is left out in
//! silence, a test lists every field with a time, a moment or an index and what it is taken for, and another one
//! sees to it that the machines are shown by `derive` alone.
//!
//! # What must hold
//! In every state S1 (nobody believes beyond the limit, also not whose session has ended early and who does not
//! know; and every belief is founded on the record, or on the session of the election's key), at every write S3, S4 (the limit changes only
//! where that was asked for and nobody holds; the key of an election is written by `acquire` and
//! `release` only, says what its leader was asked to write, and is left with nothing older than what the leader
//! was told last) and S5, at every event L4 (nothing is lost or fails for a fault that is to be
//! outlived), and, while nothing has gone wrong, L2 (who is done has left nothing behind). When all states
//! are known, L1 and the rest of L2 (of an election, all but its key): from *each* of them, with no more faults, a state can be reached
//! where all are served and gone and nothing of them is in Consul, and no leader has to go for a change of its value
//! to end. Each of these ends once, in their order. [`Violation`] has the list.
//!
//! # Assumptions
//! - A participant acts at once on what it learns, as its driver does, unless it is paused.
//! - Messages take no time, unless they are held up by [`Fault::Delay`]: the clock moves only when none is
//!   under way that takes no time. What a slow network does is therefore in the scenes with that fault.
//! - Time stops at multiples of [`Scene::tick`]; what is due in between is late, by less than one.
//! - A participant's jitter is drawn again from one seed at every step, so it is always the same share.
//! - With [`Messages::RoundTrips`], a request that nothing happens to is answered in the same step.
//!   Answers to blocking queries that had to wait still come at any time.
//! - Consul expires a session at any time after its TTL, counted from the last renewal that arrived, and
//!   at the latest after twice that. Clocks run at one rate: what the lease's margin is for is not explored.
//! - No run lasts until Consul forgets a deletion (a quarter of an hour), or until the ceiling of the
//!   watch's reads matters.
//! - Participants are interchangeable, as are the callers of each. So are the ids of sessions: of two dead
//!   holders, the one whose session is older is asked for first.
//! - A process ends when all its callers are served and it has nothing left to do.
//!
//! States are told apart by 128 bits of hash: of ten million states, the chance that any two are taken for
//! one by accident is below 10⁻²⁴. As long as few states wait, the search is breadth first, so that stories
//! are short; then it goes into depth, so that they fit into memory.

mod action;
mod canon;
mod clock;
mod scene;
pub mod scenes;
mod search;
mod story;
mod violation;
mod world;

pub use scene::{Arrivals, Contest, Fault, Furniture, Messages, Scene};
pub use search::{Bounds, Outcome, Report, explore};
pub use violation::Violation;
