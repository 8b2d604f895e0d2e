//! The judge's input.

use std::fmt;
use std::time::Duration;

/// A moment on the one clock of a history: the time since its origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub Duration);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}s", self.0.as_secs_f64())
    }
}

/// What is contended for: the prefix of a semaphore, or the key of an election, which has one permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub usize);

/// One grant to one holder, from its beginning to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hold(pub u64);

/// One who follows one election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Follower(pub u64);

/// Something that was believed or told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// So many permits may be held from now on.
    Allowed {
        /// Where.
        place: Place,
        /// How many.
        permits: u32,
    },
    /// Somebody believes to hold.
    Begins {
        /// From now on until this ends.
        hold: Hold,
        /// Where.
        place: Place,
        /// How many permits it is.
        permits: u32,
        /// Who it is, as it is written in a verdict.
        name: String,
    },
    /// Somebody believes no more, or does not count any more.
    Ends {
        /// Of what.
        hold: Hold,
    },
    /// Somebody believes at this moment.
    Believed {
        /// Where.
        place: Place,
        /// The belief has to be over at this moment: at the end of its lease, by the clock of its holder, or of its session.
        until: Moment,
        /// For how long from now it may go on at most, where that is known.
        longest: Option<Duration>,
        /// Who it is, as it is written in a verdict.
        name: String,
    },
    /// The session of a leader has ended, or will: nobody acquires its key from this event on and before that moment.
    Delayed {
        /// Where.
        place: Place,
        /// The soonest at which the lock delay can be over.
        until: Moment,
        /// Whose session it was, as it is written in a verdict.
        after: String,
    },
    /// Consul knows of no lock delay any more.
    Undelayed,
    /// Somebody has acquired the key, now or a while ago.
    Acquired {
        /// Where.
        place: Place,
        /// Who it is, as it is written in a verdict.
        name: String,
    },
    /// Somebody was told that something is granted.
    Granted {
        /// Where.
        place: Place,
        /// How many permits it is.
        permits: u32,
        /// Its fencing token.
        token: u64,
        /// What may have admitted it: one of these. It is wrong when there is none.
        admitted: Vec<Admission>,
        /// Who it is, as it is written in a verdict.
        name: String,
    },
    /// Somebody is told that what they hold is lost.
    Lost {
        /// Where.
        place: Place,
        /// Whether somebody has taken it away, or what it stood on.
        was_taken: bool,
        /// What is known of its lease.
        lease: Lease,
        /// Who it is and what they were told, as it is written in a verdict.
        name: String,
    },
    /// This is what the key of an election shows from now on.
    Shows {
        /// Where.
        place: Place,
        /// What.
        sight: Sight,
    },
    /// This is what somebody who follows an election knows from now on.
    Sees {
        /// Who.
        follower: Follower,
        /// Where.
        place: Place,
        /// What.
        sight: Sight,
        /// Who it is, as it is written in a verdict.
        name: String,
    },
    /// Somebody follows no more, or begins again.
    Leaves {
        /// Who.
        follower: Follower,
    },
    /// By now this one knows what the key has shown for longer than this.
    CaughtUp {
        /// Who.
        follower: Follower,
        /// How long.
        within: Duration,
    },
}

/// The lease of something that was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// It would have lasted.
    Lasts,
    /// It was over.
    Over {
        /// For how long at a stretch a renewal could have reached Consul and been answered, from when on it was due.
        in_reach: Duration,
        /// For so long is enough.
        needed: Duration,
    },
}

/// What can be known of an election.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    /// Nothing for now.
    #[default]
    Unknown,
    /// Nobody leads.
    Leaderless {
        /// What the key says all the same, where that is told.
        value: Option<String>,
    },
    /// Somebody leads.
    Led {
        /// By this session.
        session: String,
        /// What it says, where that is told.
        value: Option<String>,
    },
}

/// What is known of the write that admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is this one.
    By(Write),
    /// It came after its holder had asked, and before the holder knew of it. Of two who can't hold together the one who knew
    /// later came later.
    Between {
        /// It came after this moment.
        asked: Moment,
        /// It came before this moment.
        known: Moment,
    },
}

/// A write that says who holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// How often indexes were counted again before: tokens compare with those of the same epoch alone.
    pub epoch: u64,
    /// In the order in which writes were applied.
    pub number: u64,
}
