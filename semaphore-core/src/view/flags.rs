//! What the flags of a contender key mean.
//!
//! ```text
//!   63            32 31         18 17            2 1     0
//!  | as Go writes   | as Go writes | lock delay    | claim |
//! ```
//! - The *lock delay* of the key's session, in milliseconds: if a contender finds the key gone, it
//!   leaves the slot alone for that time. The encoding is such that plain [`SEMAPHORE_FLAGS`] mean
//!   15 s. That is Consul's default for sessions that name no lock delay, such as those of Go's
//!   client.
//! - The *claim*: a contender that has claimed a slot changes its flags. That changes the key's
//!   index, which wakes those who watch the key. Both bits together ask the contender to leave,
//!   with its value as the reason. See [`Evict`](crate::manage::Evict).
//!
//! Other clients don't use the flags of contender keys: Go's `api.Semaphore` and `consul lock` only
//! look at those of `.lock`, and the guide has none. Flags in another format mean nothing, so
//! Consul's default applies.

use core::time::Duration;

use crate::api::SEMAPHORE_FLAGS;
use crate::input::SessionOptions;

/// The flags of a contender key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContenderFlags {
    pub(crate) lock_delay: Duration,
    pub(crate) claim: Claimed,
}

/// Whether the contender has claimed a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claimed {
    /// Not yet.
    None,
    /// It claimed the last free slot.
    Last,
    /// It claimed one of several free slots.
    One,
}

impl ContenderFlags {
    /// The flags of a contender that enters with a session of this lock delay.
    pub(crate) const fn entering(lock_delay: Duration) -> Self {
        let claim = Claimed::None;
        Self { lock_delay, claim }
    }

    pub(crate) fn encode(self) -> u64 {
        let millis = self.lock_delay.as_nanos().div_ceil(1_000_000);
        let millis = u64::try_from(millis).unwrap_or(u64::MAX).min(MOST_MILLIS);
        let claim = match self.claim {
            Claimed::None => 0,
            Claimed::Last => 1,
            Claimed::One => 2,
        };
        SEMAPHORE_FLAGS ^ (millis ^ DEFAULT_MILLIS) << CLAIM_BITS ^ claim
    }

    /// `None` for flags that are not a contender's of this crate.
    pub(crate) fn decode(flags: u64) -> Option<Self> {
        let code = flags ^ SEMAPHORE_FLAGS;
        let millis = code >> CLAIM_BITS ^ DEFAULT_MILLIS;
        let claim = match code & CLAIM_MASK {
            1 => Claimed::Last,
            2 => Claimed::One,
            // If both bits ask it to leave, they no longer show what it had claimed.
            _ => Claimed::None,
        };
        (millis <= MOST_MILLIS).then_some(Self {
            lock_delay: Duration::from_millis(millis),
            claim,
        })
    }

    /// The same flags, which now ask the contender to leave.
    pub(crate) fn asking_to_go(flags: u64) -> u64 {
        let known = Self::decode(flags).filter(|_| !Self::ask_to_go(flags));
        let claim = Claimed::None;
        let kept = known.map_or(
            Self::entering(SessionOptions::DEFAULT_LOCK_DELAY),
            |known| Self { claim, ..known },
        );
        kept.encode() ^ CLAIM_MASK
    }

    /// Whether they ask the contender to leave.
    pub(crate) fn ask_to_go(flags: u64) -> bool {
        (flags ^ SEMAPHORE_FLAGS) & CLAIM_MASK == CLAIM_MASK && Self::decode(flags).is_some()
    }

    /// How long a holder's slot is left alone after its key with these flags has gone.
    pub(crate) fn lock_delay_of(flags: u64) -> Duration {
        Self::decode(flags).map_or(SessionOptions::DEFAULT_LOCK_DELAY, |it| it.lock_delay)
    }
}

const CLAIM_BITS: u32 = 2;
const CLAIM_MASK: u64 = 3;
const DEFAULT_MILLIS: u64 = 15_000;
const MOST_MILLIS: u64 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIMS: [Claimed; 3] = [Claimed::None, Claimed::Last, Claimed::One];

    #[test]
    fn what_is_written_is_read() {
        for claim in CLAIMS {
            for millis in [0, 1, 10_000, 15_000, 27_000, 60_000] {
                let lock_delay = Duration::from_millis(millis);
                let flags = ContenderFlags { lock_delay, claim };
                assert_eq!(ContenderFlags::decode(flags.encode()), Some(flags));
            }
        }
    }

    #[test]
    fn flags_that_ask_to_go_keep_the_lock_delay() {
        for claim in CLAIMS {
            let lock_delay = Duration::from_millis(27_000);
            let flags = ContenderFlags { lock_delay, claim }.encode();
            assert!(!ContenderFlags::ask_to_go(flags));
            let asking = ContenderFlags::asking_to_go(flags);
            assert!(ContenderFlags::ask_to_go(asking));
            assert_eq!(ContenderFlags::lock_delay_of(asking), lock_delay);
        }
        for anothers in [0, u64::MAX] {
            assert!(!ContenderFlags::ask_to_go(anothers));
            assert!(ContenderFlags::ask_to_go(ContenderFlags::asking_to_go(
                anothers
            )));
        }
    }

    #[test]
    fn plain_flags_say_consuls_default() {
        let plain = ContenderFlags::entering(SessionOptions::DEFAULT_LOCK_DELAY);
        assert_eq!(plain.encode(), SEMAPHORE_FLAGS);
        for anothers in [0, 1, u64::MAX, SEMAPHORE_FLAGS ^ 1 << 40] {
            assert_eq!(ContenderFlags::decode(anothers), None, "{anothers}");
            let delay = ContenderFlags::lock_delay_of(anothers);
            assert_eq!(delay, SessionOptions::DEFAULT_LOCK_DELAY);
        }
    }

    #[test]
    fn a_lock_delay_is_rounded_up_and_never_over_consuls_most() {
        let written = |lock_delay| {
            let flags = ContenderFlags::entering(lock_delay).encode();
            ContenderFlags::lock_delay_of(flags)
        };
        assert_eq!(
            written(Duration::from_nanos(10_000_000_001)),
            Duration::from_millis(10_001)
        );
        assert_eq!(written(Duration::MAX), Duration::from_secs(60));
    }
}
