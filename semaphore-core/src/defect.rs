//! Deliberate defects. Each removes one rule, to show that the checks notice.
//!
//! They exist only with the feature `unstable-defects`. One at a time can be switched on for the
//! whole process; by default all are off. Without the feature `is_on` is a constant, and the
//! compiler removes them.
//!
//! The feature is only for this repository's checks.
//!
//! A defect is where a slip could happen, and as small as the slip would be.

macro_rules! defects {
    ($($(#[$doc:meta])* $name:ident breaks $promise:ident,)*) => {
        /// A removed rule.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Defect {
            $($(#[$doc])* $name,)*
        }

        #[cfg(feature = "unstable-defects")]
        impl Defect {
            /// All defects.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The promise that it breaks, by its name in `PROMISES.md`; `Soundness` if observers are
            /// told something wrong.
            pub fn promise(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($promise),)*
                }
            }
        }
    };
}

defects! {
    /// Belief lasts for the whole TTL.
    LeaseMarginGone breaks S2,
    /// The lease counts from the answer to a renewal instead of from its sending.
    LeaseFromAnswer breaks S2,
    /// Belief ends only when Consul says so.
    LeaseEndIgnored breaks S2,
    /// A renewal that failed for a moment is not tried again.
    RenewalStoppedAfterTransient breaks L4,
    /// A renewal that failed for a moment is taken for the end of the session.
    TransientTakenForLoss breaks L4,
    /// What is held is renewed as seldom as what waits.
    RenewalInAThird breaks L4,
    /// A renewal of what is held waits for the answer to the one before it.
    RenewalsInTurn breaks L4,
    /// However slow answers are, the next one is waited for as long as usual.
    LatencyIgnored breaks L4,
    /// A session stands on the node of the agent, whatever node was chosen.
    OwnNodeForgotten breaks L4,
    /// A renewal is believed without asking whether its leader still is one.
    RenewalUnconfirmed breaks S2,
    /// A renewal that finds no session is taken for the end of it without asking the leader.
    MissingSessionBelieved breaks L4,
    /// An election's token counts the terms of its key, and starts with it.
    TokenRestarts breaks S5,
    /// A follower does not say that it is cut off.
    SilenceUntold breaks L4,
    /// A key that was overwritten under its leader still counts as that leader's.
    ForeignKeyAnnounced breaks L4,
    /// A campaign with a session that was kept does not know what the one before it saw.
    FormerTermForgotten breaks S5,
    /// An election writes its key as it finds it, not as it has seen it.
    ElectionUnfenced breaks S4,
    /// Holders are pruned on a view that says that it is filtered.
    PruneFiltered breaks S3,
    /// A holder whose key is not in the view is pruned without asking for the key alone.
    PruneWithoutProof breaks S1,
    /// A holder whose key has gone is pruned as soon as a read of the key alone says so too.
    PruneAtOnce breaks S1,
    /// The lock delay of a session is far shorter than its lease.
    LockDelayShort breaks S1,
    /// A claim, or an attempt to lead, whose outcome is unknown counts as not applied.
    UnknownTakenForNotApplied breaks L2,
    /// A claim whose outcome is unknown counts as applied.
    UnknownTakenForApplied breaks S5,
    /// A contender leaves while its admission may yet be applied.
    ReleaseNotFenced breaks L2,
    /// A write that changes nothing is sent as it is, so that it moves no index and fences nothing.
    FenceWithoutChange breaks S5,
    /// The record is written without check-and-set.
    WriteWithoutCas breaks S4,
    /// A record that is not understood is replaced.
    GarbageOverwritten breaks S4,
    /// One slot more than the limit is given.
    LimitExceeded breaks S1,
    /// The fencing token is the place in the queue.
    TokenOfQueue breaks S5,
    /// All that one write admits have one fencing token.
    TokenRepeated breaks S5,
    /// Observers are not told of a loss.
    LossNotNoticed breaks Soundness,
    /// A holder does not look whether the record, or the election's key, still names it.
    EvictionUnnoticed breaks S1,
    /// With `keep_lost`, a slot whose session has ended is given up before its permit is given back.
    LostNotKept breaks S1,
    /// A view that was asked for before the known one is taken for news.
    OlderViewAccepted breaks L4,
    /// A watch goes on from its index when the server's went backwards.
    IndexResetIgnored breaks L1,
    /// A watch that failed once is not started again.
    WatchStoppedAfterTransient breaks L1,
    /// Those ahead in the queue are waited for without end.
    PatienceInfinite breaks L1,
    /// A free slot is claimed although others stand ahead in the queue.
    OutOfTurn breaks Queue,
    /// Failures are retried at once.
    RetryWithoutBackoff breaks L3,
    /// A claim under way goes on when its caller gives up, and is granted to nobody.
    CancelledClaimGranted breaks L2,
    /// Sessions are left to their TTL.
    SessionLeftBehind breaks L2,
    /// What is refused when it is given back is given up, and left to the TTL.
    ReleaseGivenUp breaks L2,
    /// A 404 is taken for Consul's, even if a gateway says it.
    Html404Believed breaks L4,
    /// A read settles what became of a write that was given up.
    ReadSettles breaks L2,
    /// A session that is shared is destroyed when one of those leaves that stand on it.
    SessionDestroyedUnderOthers breaks S3,
    /// A session that is shared is lent to two contenders of one semaphore.
    LentTwiceAtAPlace breaks S1,
    /// A session on which nothing stands but what may come late is not ended.
    SessionKeptForLateKeys breaks L2,
    /// A caller that wants several slots claims those that are free, and gives them back as they are too
    /// few.
    ManyClaimedInParts breaks L3,
    /// What a check of many keys has found is believed without a read, even if it is older than what
    /// is known.
    OlderCheckBelieved breaks L4,
    /// A follower for which its client looks does not read what is said to have changed.
    SharedChangeUnread breaks L1,
    /// A process that ends in a hurry gives nothing back.
    FarewellUnsaid breaks L2,
    /// A change that a check of many keys has found is told to nobody.
    CheckedChangeUntold breaks L1,
    /// A candidate takes whomever the key shows for itself.
    AnothersKeyBelieved breaks S1,
    /// An attempt that was refused is repeated at once.
    LockDelayIgnored breaks L3,
    /// An attempt that was refused is not repeated.
    RefusalTakenForGood breaks L1,
    /// A leader writes its value by check-and-set instead of acquiring the key.
    ValueWithoutAcquire breaks S4,
    /// A leader says that the key shows its value when it has not been written yet.
    ValueToldUnshown breaks S4,
    /// A leader that can't read the key takes that for the end of its term.
    FailureTakenForLoss breaks L4,
    /// A leader that resigns leaves the key to the end of its session.
    KeyLeftLocked breaks L2,
    /// Polls may take as many connections as there are, beside those of everything else.
    PollsTakeAll breaks L3,
    /// The connection of a poll that is given up counts as free at once.
    GivenUpPollForgotten breaks L3,
    /// Renewals wait for a connection behind the reads that came before them.
    RenewalsBehindPolls breaks L4,
}

#[cfg(not(feature = "unstable-defects"))]
pub(crate) const fn is_on(_: Defect) -> bool {
    false
}

#[cfg(feature = "unstable-defects")]
pub(crate) use switch::is_on;
#[cfg(feature = "unstable-defects")]
pub use switch::{UnknownDefect, switch_on};

#[cfg(feature = "unstable-defects")]
mod switch {
    use core::fmt;
    use core::str::FromStr;
    use core::sync::atomic::{AtomicU8, Ordering};

    use super::Defect;

    /// The number of the active defect, counted from one.
    static ON: AtomicU8 = AtomicU8::new(0);

    /// Activates this defect, and no other, in the whole process.
    pub fn switch_on(defect: Option<Defect>) {
        ON.store(defect.map_or(0, number), Ordering::SeqCst);
    }

    pub(crate) fn is_on(defect: Defect) -> bool {
        ON.load(Ordering::Relaxed) == number(defect)
    }

    fn number(defect: Defect) -> u8 {
        defect as u8 + 1
    }

    /// `LeaseMarginGone` is shown as `lease-margin-gone`.
    impl fmt::Display for Defect {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let name = format!("{self:?}");
            let mut words = String::new();
            for letter in name.chars() {
                if letter.is_uppercase() && !words.is_empty() {
                    words.push('-');
                }
                words.extend(letter.to_lowercase());
            }
            f.write_str(&words)
        }
    }

    impl FromStr for Defect {
        type Err = UnknownDefect;

        fn from_str(name: &str) -> Result<Self, UnknownDefect> {
            Self::ALL
                .iter()
                .find(|defect| defect.to_string() == name)
                .copied()
                .ok_or_else(|| UnknownDefect(name.to_owned()))
        }
    }

    /// There is no defect of this name.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct UnknownDefect(String);

    impl fmt::Display for UnknownDefect {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "no defect is called {:?}; there are:", self.0)?;
            Defect::ALL
                .iter()
                .try_for_each(|defect| write!(f, " {defect}"))
        }
    }

    impl core::error::Error for UnknownDefect {}
}
