//! How much is sent, how often and over how many connections.

mod connections;
mod dear_lists;
mod far_agent;
mod many_permits;
mod parked_polls;
mod request_limits;
mod request_rates;
mod shared_connections;
mod throughput;
pub(crate) mod wire;
mod without_leader;
