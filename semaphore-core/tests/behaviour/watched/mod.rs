//! What observers learn: notices, the log, and the status on request.

mod doubled_writes;
mod figures;
mod levels;
pub(crate) mod log;
mod notices;
mod outages;
mod status;
mod token_files;
