//! What goes wrong with requests, and what it costs.

mod claim_under_way;
mod error_texts;
mod errors;
mod hostile_answers;
mod late_writes;
mod left_out;
mod lost_creations;
mod lost_transactions;
mod old_refusals;
mod permanent;
mod refusals_leave_nothing;
mod refused_for_now;
mod refused_keys;
mod refused_transactions;
mod slow_answers;
mod transient;
mod unknown_outcomes;
mod without_index;
