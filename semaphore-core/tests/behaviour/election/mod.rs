//! Elections keep the same promises.

mod after_silence;
mod beside_the_guide;
mod by_hand;
mod cancel;
mod chaos;
mod conflicts;
mod electing;
mod failures;
mod frozen_reads;
mod handles;
mod handover;
mod hostile;
mod loss;
mod many_candidates;
mod old_answers;
mod quick_terms;
mod refusals_leave_nothing;
mod sequencer;
mod sequencers;
mod shards;
mod stepping_down;
mod terms_by_options;
mod terms_in_a_loop;
pub(crate) mod unknown;
mod value;
