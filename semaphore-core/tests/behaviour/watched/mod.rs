//! What observers learn: notices, the log, and the status on request.

mod notices;
mod recording;
mod status;
