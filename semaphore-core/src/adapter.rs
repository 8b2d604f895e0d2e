//! For those who connect the handles to the world: what an adapter implements, and what makes it easier.
//!
//! An adapter is a [`Transport`], which sends requests, and a [`Runtime`], which has a clock, a timer and somewhere to run a
//! task; for the blocking handles it is [`BlockOn`], too. Both traits say what they must keep.
//!
//! The rest is shared by the adapters of this workspace: [`Connections`] keeps to a ceiling of connections and says which
//! request goes by which, [`Servers`] which of the servers behind a name is connected to, [`AgentUrl`] is an agent's address, and
//! [`AgentEnvironment`] what `CONSUL_*` variables say of it. [`Reloaded`] is what is made of files that may be replaced.

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
