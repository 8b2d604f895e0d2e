//! L4: a transient failure causes no loss while the lease lasts, and no lease ends while it could
//! be renewed.

use crate::Wrong;
use crate::event::{Lease, Place};

pub(crate) fn lose(place: Place, was_taken: bool, lease: Lease, name: &str) -> Result<(), Wrong> {
    let why = match lease {
        _ if was_taken => return Ok(()),
        Lease::Lasts => "its lease lasted, and nobody took it away".to_owned(),
        Lease::Over { in_reach, needed } if in_reach >= needed => format!(
            "it could have been renewed: Consul was within reach for {in_reach:?}, and {needed:?} are enough"
        ),
        Lease::Over { .. } => return Ok(()),
    };
    Err((place, format!("{name} was lost, but {why}")))
}
