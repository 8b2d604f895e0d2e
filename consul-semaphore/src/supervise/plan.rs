//! What to do with the command now, and when to look again: a function of the time, the lease and
//! the past steps.
//!
//! ```text
//!  last answer                                   told to end        killed   lease ends      others may hold
//!  ────┼──────────── the command runs ───────────────┼─── grace ───────┼─ margin ─┼───────────────┼──▶
//! ```
//! Times count from an origin that the caller chooses.

use std::time::Duration;

use clap::ValueEnum;

/// What becomes of the command when what it runs under is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// It is told to end by SIGTERM, and killed when its grace is over or the lease is about to end.
    Term,
    /// It is killed at once.
    Kill,
    /// It goes on. Others may hold meanwhile.
    Ignore,
}

/// How a command is supervised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Care {
    pub(crate) on_lost: OnLost,
    /// The time between telling and killing.
    pub(crate) grace: Duration,
}

/// So long before the end of a lease the command is killed: the system needs time to kill and reap.
pub(crate) const MARGIN: Duration = Duration::from_millis(500);

/// How often the lease is checked: timers stand still while a machine is suspended.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// The state of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Runs,
    /// It was told to end. It has time until then.
    Told {
        kill_at: Duration,
    },
    Killed,
}

/// What is known about the lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    /// When it ends, or would have ended.
    pub(super) deadline: Duration,
    /// Whether it is already lost, for any reason.
    pub(super) is_lost: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Nothing, until this time has passed or something has happened.
    Wait(Duration),
    /// Tell it to end. It is killed at this time.
    Tell { kill_at: Duration },
    /// Kill it, because its lease or its grace time is about to end.
    Kill { grace_is_over: bool },
}

impl Care {
    pub(super) fn plan(self, now: Duration, lease: Lease, stage: Stage) -> Act {
        let until = |time: Duration| time.saturating_sub(now);
        let to_kill = lease.deadline.saturating_sub(MARGIN);
        match (self.on_lost, stage) {
            (OnLost::Ignore, Stage::Runs) | (_, Stage::Killed) => Act::Wait(LOOK),
            (on_lost, Stage::Runs) => {
                let to_tell = to_kill.saturating_sub(self.grace);
                if !lease.is_lost && now < to_tell {
                    Act::Wait(until(to_tell).min(LOOK))
                } else if on_lost == OnLost::Kill {
                    Act::Kill {
                        grace_is_over: false,
                    }
                } else {
                    let kill_at = now.saturating_add(self.grace);
                    Act::Tell { kill_at }
                }
            }
            (on_lost, Stage::Told { kill_at }) => {
                // A lease that was renewed meanwhile does not extend the grace time.
                let end = match on_lost {
                    OnLost::Ignore => kill_at,
                    OnLost::Term | OnLost::Kill => kill_at.min(to_kill),
                };
                if now < end {
                    Act::Wait(until(end).min(LOOK))
                } else {
                    Act::Kill {
                        grace_is_over: now >= kill_at,
                    }
                }
            }
        }
    }

    /// When to kill those that outlive the command.
    pub(super) fn last(self, now: Duration, lease: Lease) -> Duration {
        let grace = now.saturating_add(self.grace);
        match self.on_lost {
            OnLost::Ignore => grace,
            OnLost::Term | OnLost::Kill => grace.min(lease.deadline.saturating_sub(MARGIN)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn care(on_lost: OnLost) -> Care {
        Care {
            on_lost,
            grace: at(5_000),
        }
    }

    fn lease(deadline: u64) -> Lease {
        Lease {
            deadline: at(deadline),
            is_lost: false,
        }
    }

    #[test]
    fn it_runs_until_grace_and_margin_are_left_of_the_lease() {
        let care = care(OnLost::Term);
        let plan = |now| care.plan(at(now), lease(27_000), Stage::Runs);
        assert_eq!(plan(0), Act::Wait(LOOK));
        assert_eq!(plan(21_400), Act::Wait(at(100)));
        assert_eq!(
            plan(21_500),
            Act::Tell {
                kill_at: at(26_500)
            }
        );
    }

    #[test]
    fn it_is_killed_a_margin_before_the_lease_ends_however_late_it_was_told() {
        let care = care(OnLost::Term);
        let told = Stage::Told {
            kill_at: at(30_000),
        };
        let plan = |now| care.plan(at(now), lease(27_000), told);
        assert_eq!(plan(26_400), Act::Wait(at(100)));
        let kill = |grace_is_over| Act::Kill { grace_is_over };
        assert_eq!(plan(26_500), kill(false));
        // After a suspend of the machine the lease is over.
        assert_eq!(plan(90_000), kill(true));
    }

    #[test]
    fn a_lease_that_is_renewed_after_it_was_told_gives_no_more_grace() {
        let told = Stage::Told { kill_at: at(5_000) };
        let plan = care(OnLost::Term).plan(at(5_000), lease(60_000), told);
        let grace_is_over = true;
        assert_eq!(plan, Act::Kill { grace_is_over });
    }

    #[test]
    fn what_is_lost_ends_at_once_by_word_or_by_force_or_not_at_all() {
        let lost = Lease {
            deadline: at(27_000),
            is_lost: true,
        };
        let plan = |on_lost| care(on_lost).plan(at(3_000), lost, Stage::Runs);
        assert_eq!(plan(OnLost::Term), Act::Tell { kill_at: at(8_000) });
        let grace_is_over = false;
        assert_eq!(plan(OnLost::Kill), Act::Kill { grace_is_over });
        assert_eq!(plan(OnLost::Ignore), Act::Wait(LOOK));
    }

    #[test]
    fn what_was_told_to_end_for_another_reason_has_its_grace_also_where_a_loss_is_ignored() {
        let told = Stage::Told { kill_at: at(5_000) };
        let plan = |now| care(OnLost::Ignore).plan(at(now), lease(2_000), told);
        assert_eq!(plan(4_900), Act::Wait(at(100)));
        let grace_is_over = true;
        assert_eq!(plan(5_000), Act::Kill { grace_is_over });
    }

    #[test]
    fn what_was_killed_is_waited_for() {
        let plan = care(OnLost::Term).plan(at(27_000), lease(27_000), Stage::Killed);
        assert_eq!(plan, Act::Wait(LOOK));
    }

    #[test]
    fn whoever_outlives_the_command_has_its_grace_and_no_more_than_the_lease() {
        let last = |on_lost, deadline| care(on_lost).last(at(1_000), lease(deadline));
        assert_eq!(last(OnLost::Term, 27_000), at(6_000));
        assert_eq!(last(OnLost::Term, 4_000), at(3_500));
        assert_eq!(last(OnLost::Ignore, 4_000), at(6_000));
    }
}
