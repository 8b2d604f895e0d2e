//! S1, of elections: nobody acquires a key during the lock delay after the end of a session that
//! held it. Consul refuses that. If a candidate is elected during that time, Consul did not refuse
//! it.

use std::collections::BTreeMap;

use crate::Wrong;
use crate::event::{Moment, Place};

#[derive(Clone, Debug, Default)]
pub(crate) struct Delays {
    /// The end of each lock delay, and the former leader.
    places: BTreeMap<Place, Vec<(Moment, String)>>,
}

impl Delays {
    pub(crate) fn begin(&mut self, place: Place, until: Moment, after: &str) {
        let delays = self.places.entry(place).or_default();
        delays.push((until, after.to_owned()));
    }

    pub(crate) fn forget(&mut self) {
        self.places.clear();
    }

    pub(crate) fn acquire(&mut self, at: Moment, place: Place, name: &str) -> Result<(), Wrong> {
        let Some(delays) = self.places.get_mut(&place) else {
            return Ok(());
        };
        delays.retain(|(until, _)| at < *until);
        match delays.iter().max() {
            None => Ok(()),
            Some((until, after)) => {
                let what = format!(
                    "{name} acquired the key, though the lock delay after {after} lasts until {until}"
                );
                Err((place, what))
            }
        }
    }
}
