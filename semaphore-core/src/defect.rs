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
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A removed rule.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Defect {
            $($(#[$doc])* $name,)*
        }

        #[cfg(feature = "unstable-defects")]
        impl Defect {
            /// All defects.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

defects! {
    /// Belief lasts for the whole TTL.
    LeaseMarginGone,
    /// The lease counts from the answer to a renewal instead of from its sending.
    LeaseFromAnswer,
    /// Belief ends only when Consul says so.
    LeaseEndIgnored,
    /// A renewal that failed for a moment is not tried again.
    RenewalStoppedAfterTransient,
    /// A renewal that failed for a moment is taken for the end of the session.
    TransientTakenForLoss,
    /// What is held is renewed as seldom as what waits.
    RenewalInAThird,
    /// A renewal of what is held waits for the answer to the one before it.
    RenewalsInTurn,
    /// However slow answers are, the next one is waited for as long as usual.
    LatencyIgnored,
    /// A session stands on the node of the agent, whatever node was chosen.
    OwnNodeForgotten,
    /// A renewal is believed without asking whether its leader still is one.
    RenewalUnconfirmed,
    /// A renewal that finds no session is taken for the end of it without asking the leader.
    MissingSessionBelieved,
    /// An election's token counts the terms of its key, and starts with it.
    TokenRestarts,
    /// A follower does not say that it is cut off.
    SilenceUntold,
    /// A key that was overwritten under its leader still counts as that leader's.
    ForeignKeyAnnounced,
    /// A campaign with a session that was kept does not know what the one before it saw.
    FormerTermForgotten,
    /// An election writes its key as it finds it, not as it has seen it.
    ElectionUnfenced,
    /// Holders are pruned on a view that shows no contender key of ours.
    PruneWithoutOwnKey,
    /// Holders are pruned on a view that says that it is filtered.
    PruneFiltered,
    /// A holder whose key is not in the view is pruned without asking for the key alone.
    PruneWithoutInquest,
    /// A holder whose key has gone is pruned as soon as a read of the key alone says so too.
    PruneAtOnce,
    /// The lock delay of a session is far shorter than its lease.
    LockDelayShort,
    /// A claim, or an attempt to lead, whose outcome is unknown counts as not applied.
    UnknownTakenForNotApplied,
    /// A claim whose outcome is unknown counts as applied.
    UnknownTakenForApplied,
    /// A contender leaves while its admission may yet be applied.
    ReleaseNotFenced,
    /// A write that changes nothing is sent as it is, so that it moves no index and fences nothing.
    FenceWithoutChange,
    /// A refused decision is written again, on the index of the next view.
    StaleDecision,
    /// The record is written without check-and-set.
    WriteWithoutCas,
    /// A record that is not understood is replaced.
    GarbageOverwritten,
    /// One slot more than the limit is given.
    LimitExceeded,
    /// The fencing token is the place in the queue.
    TokenOfQueue,
    /// All that one write admits have one fencing token.
    TokenRepeated,
    /// Whom the first write of a record admits has the token of the next one.
    FirstTokenRepeated,
    /// Observers are not told of a loss.
    LossNotNoticed,
    /// A holder does not look whether the record, or the election's key, still names it.
    EvictionUnnoticed,
    /// A view that was asked for before the known one is taken for news.
    OlderViewAccepted,
    /// A watch goes on from its index when the server's went backwards.
    IndexResetIgnored,
    /// A watch that failed once is not started again.
    WatchStoppedAfterTransient,
    /// Those ahead in the queue are waited for without end.
    PatienceInfinite,
    /// Failures are retried at once.
    RetryWithoutBackoff,
    /// A claim under way goes on when its caller gives up, and is granted to nobody.
    CancelledClaimGranted,
    /// Sessions are left to their TTL.
    SessionLeftBehind,
    /// What is refused when it is given back is given up, and left to the TTL.
    ReleaseGivenUp,
    /// A 404 is taken for Consul's, even if a gateway says it.
    Html404Believed,
    /// A read settles what became of a write that was given up.
    ReadSettles,
    /// A session that is shared is destroyed when one of those leaves that stand on it.
    SessionDestroyedUnderOthers,
    /// A session that is shared is lent to two contenders of one semaphore.
    LentTwiceAtAPlace,
    /// What a check of many keys has found is believed without a read, even if it is older than what
    /// is known.
    OlderCheckBelieved,
    /// A candidate takes whomever the key shows for itself.
    AnothersKeyBelieved,
    /// An attempt that was refused is repeated at once.
    LockDelayIgnored,
    /// An attempt that was refused is not repeated.
    RefusalTakenForGood,
    /// A leader writes its value by check-and-set instead of acquiring the key.
    ValueWithoutAcquire,
    /// A leader says that the key shows its value when it has not been written yet.
    ValueToldUnshown,
    /// A leader that can't read the key takes that for the end of its term.
    FailureTakenForLoss,
    /// A leader that resigns leaves the key to the end of its session.
    KeyLeftLocked,
    /// Polls may take as many connections as there are, beside those of everything else.
    PollsTakeAll,
    /// The connection of a poll that is given up counts as free at once.
    GivenUpPollForgotten,
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
