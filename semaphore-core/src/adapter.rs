//! For authors of adapters: what an adapter implements, and helpers for it.
//!
//! An adapter implements [`Transport`], which sends requests, and [`Runtime`], which has a clock,
//! timers and tasks. For the blocking handles it also implements [`BlockOn`]. Each trait documents
//! its contract.
//!
//! The adapters of this workspace share the rest. [`Connections`] limits the number of connections
//! and chooses one for each request. [`Servers`] chooses among the servers behind a name.
//! [`AgentUrl`] is an agent's address, and [`AgentEnvironment`] reads the `CONSUL_*` variables.
//! [`Reloaded`] holds what is made of files that may be replaced.

pub use crate::agent_environment::{AgentEnvironment, Certificates};
pub use crate::agent_url::{AgentUrl, InvalidUrl};
pub use crate::authorities::read_authorities;
pub use crate::basic_auth::BasicAuth;
pub use crate::build_error::InvalidEnvironment;
pub use crate::connections::{
    Connections, Lane, Lanes, MOST as MOST_CONNECTIONS, Servers, is_no_room,
};
pub use crate::http::{Method, Priority, Request, Response};
pub use crate::pem::Pem;
pub use crate::reloaded::{Files, Reading, Reloaded, Stamp};
pub use crate::runtime::{BlockOn, BoxFuture, Runtime, Unfinished};
pub use crate::time::Instant;
pub use crate::token_source::{TokenFile, TokenProvider};
pub use crate::transport::{NotTls, Transport, TransportError, TransportErrorKind};
