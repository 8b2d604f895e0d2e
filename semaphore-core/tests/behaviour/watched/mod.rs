//! What observers are told: observers, the log, and a status that is asked for.

mod notices;
mod recording;
mod status;
