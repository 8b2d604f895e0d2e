//! How much is sent, how often and over how many connections.

mod request_limits;
mod request_rates;
mod without_leader;
