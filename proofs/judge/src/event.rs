//! The judge's input.

use std::fmt;
use std::time::Duration;

/// A moment on the single clock of a history: the time since its origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub Duration);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}s", self.0.as_secs_f64())
    }
}

/// The prefix of a semaphore, or the key of an election, which has one permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub usize);

/// One grant to one holder, from its beginning to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hold(pub u64);

/// A follower of one election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Follower(pub u64);

/// A belief, or a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// From now on, this many permits may be held.
    Allowed {
        /// The place.
        place: Place,
        /// The limit.
        permits: u32,
    },
    /// Somebody begins to believe that they hold.
    Begins {
        /// The hold that begins.
        hold: Hold,
        /// The place.
        place: Place,
        /// The number of permits.
        permits: u32,
        /// The holder's name in a verdict.
        name: String,
    },
    /// The belief ends, or does not count any more.
    Ends {
        /// The hold that ends.
        hold: Hold,
    },
    /// Somebody believes at this moment.
    Believed {
        /// The place.
        place: Place,
        /// The moment at which the belief must end: the end of its lease by its holder's clock, or
        /// the end of its session.
        until: Moment,
        /// The longest time for which it may last from now on, if that is known.
        longest: Option<Duration>,
        /// The holder's name in a verdict.
        name: String,
    },
    /// A leader's session has ended, or will end. Nobody may acquire its key between this event and
    /// `until`.
    Delayed {
        /// The place.
        place: Place,
        /// The earliest end of the lock delay.
        until: Moment,
        /// The owner of the session in a verdict.
        after: String,
    },
    /// Consul has forgotten all lock delays.
    Undelayed,
    /// Somebody has acquired the key, now or a while ago.
    Acquired {
        /// The place.
        place: Place,
        /// The candidate's name in a verdict.
        name: String,
    },
    /// Somebody learned of a grant.
    Granted {
        /// The place.
        place: Place,
        /// The number of permits.
        permits: u32,
        /// Its fencing token.
        token: u64,
        /// The writes that may have admitted it. One of them must have. It is wrong if there is
        /// none.
        admitted: Vec<Admission>,
        /// The holder's name in a verdict.
        name: String,
    },
    /// Somebody learns that their hold is lost.
    Lost {
        /// The place.
        place: Place,
        /// Whether somebody has removed the hold, or what it depended on.
        was_taken: bool,
        /// The state of its lease.
        lease: Lease,
        /// The holder's name and the reason in a verdict.
        name: String,
    },
    /// From now on, an election's key has this content.
    Shows {
        /// The place.
        place: Place,
        /// The content.
        sight: Sight,
    },
    /// From now on, this follower knows this about its election.
    Sees {
        /// The follower.
        follower: Follower,
        /// The place.
        place: Place,
        /// What it knows.
        sight: Sight,
        /// The follower's name in a verdict.
        name: String,
    },
    /// A follower stops, or begins again.
    Leaves {
        /// The follower.
        follower: Follower,
    },
    /// By now, the follower must know content that the key has had for longer than `within`.
    CaughtUp {
        /// The follower.
        follower: Follower,
        /// The time.
        within: Duration,
    },
}

/// The lease of a lost hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// The lease would have lasted.
    Lasts,
    /// The lease was over.
    Over {
        /// The longest time without a break, after a renewal was due, in which one could have
        /// reached Consul and been answered.
        in_reach: Duration,
        /// The time that is enough for a renewal.
        needed: Duration,
    },
}

/// What can be known about an election.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    /// Nothing is known for now.
    #[default]
    Unknown,
    /// Nobody leads.
    Leaderless {
        /// The value of the key, if that is known.
        value: Option<String>,
    },
    /// Somebody leads.
    Led {
        /// The leader's session.
        session: String,
        /// The leader's value, if that is known.
        value: Option<String>,
    },
}

/// What is known about the write that admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// This write admitted.
    By(Write),
    /// The write came after its holder had asked, and before the holder knew of it. If two can't
    /// hold together, the one that knew later came later.
    Between {
        /// The write came after this moment.
        asked: Moment,
        /// The write came before this moment.
        known: Moment,
    },
}

/// A write that says who holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// How often indexes had started again before. Only tokens of the same epoch are compared.
    pub epoch: u64,
    /// The number of the write, in the order in which writes were applied.
    pub number: u64,
}
