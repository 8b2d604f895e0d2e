//! Discovery: a follower of an election sees its leaders in order, and in time.
//!
//! A follower may miss leaders and be late. It never returns to a leader after it has seen a later
//! one. It never sees a leader begin more often than it did.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Wrong;
use crate::event::{Follower, Moment, Place, Sight};

#[derive(Clone, Debug, Default)]
pub(crate) struct Discovery {
    /// The content of each key, and since when it has been there.
    keys: BTreeMap<Place, (Moment, Sight)>,
    /// How often each session began to lead, if that is known.
    terms: BTreeMap<(Place, String), u32>,
    followers: BTreeMap<Follower, Known>,
}

#[derive(Clone, Debug)]
struct Known {
    name: String,
    place: Place,
    sight: Sight,
    /// The last leader that it saw.
    leader: Option<String>,
    /// How often it saw each session begin to lead.
    terms: BTreeMap<String, u32>,
}

impl Discovery {
    pub(crate) fn show(&mut self, at: Moment, place: Place, sight: &Sight) {
        let before = self.keys.get(&place).and_then(|(_, it)| it.session());
        if let Some(session) = sight.session().filter(|it| before != Some(it)) {
            let term = (place, session.to_owned());
            *self.terms.entry(term).or_default() += 1;
        }
        self.keys.insert(place, (at, sight.clone()));
    }

    pub(crate) fn see(
        &mut self,
        follower: Follower,
        place: Place,
        sight: &Sight,
        name: &str,
    ) -> Result<(), Wrong> {
        let known = self.followers.entry(follower).or_insert_with(|| Known {
            name: name.to_owned(),
            place,
            sight: Sight::Unknown,
            leader: None,
            terms: BTreeMap::new(),
        });
        known.sight = sight.clone();
        let Some(session) = sight.session() else {
            return Ok(());
        };
        if known.leader.as_deref() == Some(session) {
            return Ok(());
        }
        known.leader = Some(session.to_owned());
        let seen = known.terms.entry(session.to_owned()).or_default();
        *seen += 1;
        // If it is not known who began to lead, each session does so once.
        let term = (place, session.to_owned());
        let terms = self.terms.get(&term).copied().unwrap_or(1);
        if *seen > terms {
            let what = format!("{name} saw {session} lead again, after another one");
            return Err((place, what));
        }
        Ok(())
    }

    pub(crate) fn leave(&mut self, follower: Follower) {
        self.followers.remove(&follower);
    }

    pub(crate) fn catch_up(
        &self,
        at: Moment,
        follower: Follower,
        within: Duration,
    ) -> Result<(), Wrong> {
        let Some(known) = self.followers.get(&follower) else {
            return Ok(());
        };
        let nothing = (Moment::default(), Sight::Leaderless { value: None });
        let (since, shows) = self.keys.get(&known.place).unwrap_or(&nothing);
        if at.0 <= since.0 + within || known.sight == *shows {
            return Ok(());
        }
        let (name, sight) = (&known.name, &known.sight);
        let what = format!("{name} knows {sight:?}, and since {since} it is {shows:?}");
        Err((known.place, what))
    }
}

impl Sight {
    fn session(&self) -> Option<&str> {
        match self {
            Self::Led { session, .. } => Some(session),
            Self::Unknown | Self::Leaderless { .. } => None,
        }
    }
}
