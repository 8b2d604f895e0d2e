//! S1: never more than the limit believe that they hold. An election has the limit one.

use std::collections::BTreeMap;

use crate::Wrong;
use crate::event::{Hold, Place};

#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    places: BTreeMap<Place, Believers>,
    /// The places of all beliefs.
    holds: BTreeMap<Hold, Place>,
}

#[derive(Clone, Debug, Default)]
struct Believers {
    /// Without a limit, nobody may hold.
    allowed: u32,
    held: u32,
    most: u32,
    /// The permits of each hold, and the holder's name.
    all: BTreeMap<Hold, (u32, String)>,
}

impl Limits {
    pub(crate) fn allow(&mut self, place: Place, permits: u32) -> Result<(), Wrong> {
        let believers = self.places.entry(place).or_default();
        believers.allowed = permits;
        believers.judge().map_err(|what| (place, what))
    }

    pub(crate) fn begin(
        &mut self,
        hold: Hold,
        place: Place,
        permits: u32,
        name: &str,
    ) -> Result<(), Wrong> {
        self.end(hold);
        self.holds.insert(hold, place);
        let believers = self.places.entry(place).or_default();
        believers.all.insert(hold, (permits, name.to_owned()));
        believers.held = believers.held.saturating_add(permits);
        believers.most = believers.most.max(believers.held);
        believers.judge().map_err(|what| (place, what))
    }

    pub(crate) fn end(&mut self, hold: Hold) {
        let place = self.holds.remove(&hold);
        let Some(believers) = place.and_then(|place| self.places.get_mut(&place)) else {
            return;
        };
        if let Some((permits, _)) = believers.all.remove(&hold) {
            believers.held = believers.held.saturating_sub(permits);
        }
    }

    /// How many may hold.
    pub(crate) fn allowed(&self, place: Place) -> u32 {
        self.places.get(&place).map_or(0, |it| it.allowed)
    }

    pub(crate) fn most_at_once(&self, place: Place) -> u32 {
        self.places.get(&place).map_or(0, |it| it.most)
    }
}

impl Believers {
    fn judge(&self) -> Result<(), String> {
        let (held, allowed) = (self.held, self.allowed);
        if held <= allowed {
            return Ok(());
        }
        let all: Vec<_> = self.all.values().map(|(_, name)| name.as_str()).collect();
        let all = all.join(", ");
        Err(format!("{held} are held at once of {allowed}: {all}"))
    }
}
