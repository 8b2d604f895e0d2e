//! How much is sent, how often and over how many connections.

mod far_agent;
mod request_limits;
mod request_rates;
mod without_leader;
