//! A distributed semaphore over Consul as a protocol core that does no I/O.

mod agent_url;
mod error;
mod http;
mod time;
mod token;
mod transport;

pub use agent_url::{AgentEnvironment, AgentUrl, InvalidEnvironment, InvalidUrl};
pub use error::InvalidInput;
pub use http::{Method, Request, Response};
pub use time::Instant;
pub use token::Token;
pub use transport::{BlockOn, BoxFuture, Runtime, Transport, TransportError, TransportErrorKind};
