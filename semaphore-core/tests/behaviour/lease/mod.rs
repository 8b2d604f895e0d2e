//! How long a holder believes in its hold, and how its end is noticed.

mod early_ends;
mod kept_sessions;
mod late_answers;
mod loss;
mod many_sessions;
mod outages;
mod own_node;
mod partition;
mod release_too_late;
mod request_limits;
mod rotated_tokens;
mod session;
mod standing_clock;
