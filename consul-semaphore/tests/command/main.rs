//! The command as a script runs it, on a real agent.
#![expect(clippy::expect_used, clippy::panic, reason = "these are tests")]

mod addresses;
mod check;
mod cut_off;
mod documented;
mod elections;
mod endings;
mod environment;
mod exit_codes;
mod failures;
mod false_agent;
mod faults;
mod guard;
mod job_control;
mod like_consul_lock;
mod loss;
mod manage;
mod orphans;
mod out_of_reach;
mod pages;
mod pty;
mod refused;
mod signals;
mod stalled;
mod status;
mod support;
mod terminal;
