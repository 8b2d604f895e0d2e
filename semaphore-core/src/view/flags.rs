//! What the flags of a contender key mean.
//!
//! ```text
//!   63          32 31     23 22     18 17            2 1   0
//!  | as Go writes | touches | size − 1 | lock delay    | state |
//! ```
//! - The *state*: 1 if the contender is parked and waits for nothing, 3 if it is asked to leave, with
//!   its value as the reason. See [`Evict`](crate::manage::Evict).
//! - The *lock delay* of the key's session, in milliseconds: if a contender finds the key gone, it
//!   leaves the slot alone for that time. The encoding is such that plain [`SEMAPHORE_FLAGS`] mean
//!   15 s. That is Consul's default for sessions that name no lock delay, such as those of Go's
//!   client.
//! - The *size* of the group that enters together, for a caller that wants several slots.
//! - A count of *touches*, which is never zero: each `lock` of the key changes it, since Consul takes
//!   an equal one for no change. That wakes those who watch the key.
//!
//! Other clients don't use the flags of contender keys: Go's `api.Semaphore` and `consul lock` only
//! look at those of `.lock`, and the guide has none. Flags that don't read so belong to another
//! program, so Consul's default applies.

use core::time::Duration;

use crate::api::SEMAPHORE_FLAGS;
use crate::input::SessionOptions;

/// The flags of a contender key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContenderFlags {
    pub(crate) lock_delay: Duration,
    pub(crate) claim: Claimed,
    /// How many slots its caller wants.
    pub(crate) size: u32,
    /// How often the key was written, so far as it matters. Zero for another program's key.
    pub(crate) touches: u32,
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
        Self {
            lock_delay,
            claim: Claimed::None,
            size: 1,
            touches: 0,
        }
    }

    pub(crate) fn encode(self) -> u64 {
        let millis = self.lock_delay.as_nanos().div_ceil(1_000_000);
        let millis = u64::try_from(millis).unwrap_or(u64::MAX).min(MOST_MILLIS);
        let claim = match self.claim {
            Claimed::None => 0,
            Claimed::Last => 1,
            Claimed::One => 2,
        };
        let size = u64::from(self.size.clamp(1, MOST_SIZE) - 1);
        let touches = u64::from(self.touches) & TOUCHES_MASK;
        SEMAPHORE_FLAGS
            ^ touches << TOUCHES_SHIFT
            ^ size << SIZE_SHIFT
            ^ (millis ^ DEFAULT_MILLIS) << CLAIM_BITS
            ^ claim
    }

    /// `None` for flags that are not a contender's of this crate.
    pub(crate) fn decode(flags: u64) -> Option<Self> {
        let code = flags ^ SEMAPHORE_FLAGS;
        if code >> (TOUCHES_SHIFT + TOUCHES_BITS) != 0 {
            return None;
        }
        let millis = code >> CLAIM_BITS & MILLIS_MASK ^ DEFAULT_MILLIS;
        let claim = match code & CLAIM_MASK {
            1 => Claimed::Last,
            2 => Claimed::One,
            // If both bits ask it to leave, they no longer show what it had claimed.
            _ => Claimed::None,
        };
        let size = u32::try_from(code >> SIZE_SHIFT & SIZE_MASK).unwrap_or(0) + 1;
        let touches = u32::try_from(code >> TOUCHES_SHIFT).unwrap_or(0);
        (millis <= MOST_MILLIS).then_some(Self {
            lock_delay: Duration::from_millis(millis),
            claim,
            size,
            touches,
        })
    }

    /// What a key with these flags is in the line, if a contender of this crate has written it.
    pub(crate) fn in_line(flags: u64) -> Option<Self> {
        let state = (flags ^ SEMAPHORE_FLAGS) & CLAIM_MASK;
        Self::decode(flags).filter(|known| known.touches != 0 && state != 2)
    }

    /// Whether the contender waits for nothing: it only keeps others' late writes off its key.
    pub(crate) fn is_parked(flags: u64) -> bool {
        let state = (flags ^ SEMAPHORE_FLAGS) & CLAIM_MASK;
        Self::in_line(flags).is_some() && state == PARKED
    }

    /// The flags of a key that is parked.
    pub(crate) fn parked(self) -> u64 {
        let waiting = Self {
            claim: Claimed::None,
            ..self
        };
        waiting.encode() ^ PARKED
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
const PARKED: u64 = 1;
const MILLIS_MASK: u64 = 0xFFFF;
const DEFAULT_MILLIS: u64 = 15_000;
const MOST_MILLIS: u64 = 60_000;
const SIZE_SHIFT: u32 = 18;
const SIZE_MASK: u64 = 31;
const MOST_SIZE: u32 = 32;
const TOUCHES_SHIFT: u32 = 23;
const TOUCHES_BITS: u32 = 9;
const TOUCHES_MASK: u64 = 511;

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIMS: [Claimed; 3] = [Claimed::None, Claimed::Last, Claimed::One];

    #[test]
    fn what_is_written_is_read() {
        for claim in CLAIMS {
            for millis in [0, 1, 10_000, 15_000, 27_000, 60_000] {
                let lock_delay = Duration::from_millis(millis);
                let flags = ContenderFlags {
                    claim,
                    touches: 7,
                    size: 31,
                    ..ContenderFlags::entering(lock_delay)
                };
                assert_eq!(ContenderFlags::decode(flags.encode()), Some(flags));
            }
        }
    }

    #[test]
    fn flags_that_ask_to_go_keep_the_lock_delay() {
        for claim in CLAIMS {
            let lock_delay = Duration::from_millis(27_000);
            let flags = ContenderFlags {
                claim,
                ..ContenderFlags::entering(lock_delay)
            }
            .encode();
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
