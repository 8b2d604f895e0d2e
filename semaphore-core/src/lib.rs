//! A distributed semaphore over Consul as a protocol core that does no I/O.

mod agent_url;
pub mod api;
mod driver;
mod error;
mod handle;
mod http;
mod id;
mod input;
mod machine;
pub mod manage;
mod record;
mod sequencer;
mod time;
mod token;
mod transport;
mod view;

pub use agent_url::{AgentEnvironment, AgentUrl, InvalidEnvironment, InvalidUrl};
pub use error::{Conflict, Error, InvalidInput, Lost, RequestError};
pub use handle::{Builder, Permit, Semaphore, blocking};
pub use http::{Method, Request, Response};
pub use id::{AcquireId, FencingToken, Index, RequestId, SessionId};
pub use input::{Behavior, Prefix, Scope, SessionOptions, Value};
pub use machine::{Event, Grant, Participant, Settings, Transmit};
pub use record::{Dialect, Record};
pub use sequencer::{Sequencer, SequencerStatus};
pub use time::Instant;
pub use token::Token;
pub use transport::{BlockOn, BoxFuture, Runtime, Transport, TransportError, TransportErrorKind};
pub use view::{Contender, Lock, Orphan, View};
