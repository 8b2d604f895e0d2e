//! A flight recorder: it records every input of a machine, and a replay gives the same inputs to
//! the same machine.
//!
//! ```text
//!  commands, times, answers ──▶ machine ──▶ requests, events
//!            │                                    │ their digest
//!            ▼                                    ▼
//!         Recorder ──────────── lines of JSON ────────────▶ replay ──▶ the same machine ──▶ the same story
//! ```
//! The core does no I/O and reads no clock. So the same inputs lead to the same outputs, byte for
//! byte, and an incident becomes a test. [`Builder::recorder`](crate::Builder::recorder) records
//! one semaphore or election from its beginning. [`replay`] tells the story of a recording, and
//! compares each step with what was sent.
//!
//! A recording has the keys, values and sessions that Consul showed, but no token: protect it as
//! you protect the values. Replay it with the version of this crate that wrote it. Another version
//! may act differently, and then reports [`ReplayError::Diverged`].

mod digest;
mod head;
mod line;
mod replay;

pub(crate) use digest::digest_of;
pub(crate) use head::Head;
pub(crate) use line::{Answer, Line, Step, end_line};
pub use replay::{ReplayError, Story, replay};

pub use crate::handle::Recorder;
