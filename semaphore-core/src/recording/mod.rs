//! A flight recorder: it writes down every input of a machine, and a replay gives the same inputs to the same machine.
//!
//! ```text
//!  commands, times, answers ──▶ machine ──▶ requests, events
//!            │                                    │ their digest
//!            ▼                                    ▼
//!         Recorder ──────────── lines of JSON ────────────▶ replay ──▶ the same machine ──▶ the same story
//! ```
//! The core does no I/O and reads no clock, so that the same inputs lead to the same outputs, byte for byte: an incident becomes
//! a test. [`Builder::recorder`](crate::Builder::recorder) records one semaphore or election from its beginning; [`replay`] tells
//! the story of a recording, and checks each step against what was sent then.
//!
//! A recording has the keys, the values and the sessions that Consul showed, and no token: treat it as you treat the values.
//! Replay it with the version of this crate that has written it: another one may act otherwise, and then says
//! [`ReplayError::Diverged`].

mod digest;
mod head;
mod line;
mod replay;

pub(crate) use digest::digest_of;
pub(crate) use head::Head;
pub(crate) use line::{Answer, Line, Step, end_line};
pub use replay::{ReplayError, Story, replay};

pub use crate::handle::Recorder;
