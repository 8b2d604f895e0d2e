//! The Consul in memory without a real agent beside it, one file per behaviour. `conformance/`
//! compares its answers with a real agent.

mod blocking_threads;
mod consul;
mod determinism;
mod faults_of_one_exchange;
mod holding;
mod lagging_agents;
mod leader_behind_its_log;
mod loopback;
mod nobody_waits;
mod nodes;
mod on_tokio;
mod outages;
mod seeds;
mod severed;
mod steps;
mod support;
mod suspended;
mod virtual_time;
mod words;
