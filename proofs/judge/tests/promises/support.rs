//! Histories for a judge.

use std::time::Duration;

use judge::{Event, Hold, Judge, Moment, Place, Promise};

pub(crate) const HERE: Place = Place(0);
pub(crate) const THERE: Place = Place(1);

/// A history, and the violations in it.
#[derive(Default)]
pub(crate) struct History {
    judge: Judge,
    pub(crate) found: Vec<(u64, Promise)>,
}

/// A history in which this many permits may be held at [`HERE`].
pub(crate) fn limit(permits: u32) -> History {
    let place = HERE;
    History::default().then(0, &Event::Allowed { place, permits })
}

impl History {
    /// An event after this many seconds.
    pub(crate) fn then(mut self, at: u64, event: &Event) -> Self {
        let moment = secs(at);
        if let Err(violation) = self.judge.hear(moment, event) {
            assert_eq!(violation.at, moment);
            self.found.push((at, violation.promise));
        }
        self
    }

    pub(crate) fn begins(self, at: u64, hold: u64, permits: u32) -> Self {
        self.then(at, &begins(HERE, hold, permits))
    }

    pub(crate) fn ends(self, at: u64, hold: u64) -> Self {
        let hold = Hold(hold);
        self.then(at, &Event::Ends { hold })
    }

    pub(crate) fn most(&self) -> u32 {
        self.judge.most_at_once(HERE)
    }
}

pub(crate) fn secs(at: u64) -> Moment {
    Moment(Duration::from_secs(at))
}

pub(crate) fn begins(place: Place, hold: u64, permits: u32) -> Event {
    Event::Begins {
        hold: Hold(hold),
        place,
        permits,
        name: format!("hold {hold}"),
    }
}
