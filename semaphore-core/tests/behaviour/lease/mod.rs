//! How long a holder believes in its hold, and how its end is noticed.

mod early_ends;
mod first_moments;
mod kept_sessions;
mod late_answers;
mod loss;
mod loss_beside_a_write;
mod many_sessions;
mod outages;
mod own_node;
mod partition;
mod release_too_late;
mod request_limits;
mod room_after_silence;
mod rotated_tokens;
mod session;
mod silence;
mod standing_clock;
