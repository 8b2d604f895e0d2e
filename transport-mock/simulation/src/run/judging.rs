//! What a step has changed, told to the checks.

use semaphore_core::Lost;

use super::deeds::Act;
use super::{Judged, Run};
use crate::history::Happening;

impl Run<'_> {
    pub(super) fn judge_step(&mut self) -> Judged {
        let writes = self.world.take_writes();
        let seen = &mut self.seen;
        let book = &self.book;
        let changes = self.world.consul(|consul, _| {
            if !seen.is_behind(consul) {
                return Vec::new();
            }
            let changes = seen.compare(consul, Some(&writes));
            for change in &changes {
                if let Happening::Changed(change) = change {
                    let admitted = change.added.iter();
                    let admitted = admitted.filter(|it| seen.lives(consul, change.prefix, it));
                    admitted.for_each(|it| book.lock().restore(it));
                }
            }
            changes
        });
        self.judge_all(&changes)
    }

    /// What an operator did is compared by itself: whom it has hit is known then.
    pub(super) fn judge_operation(&mut self) -> Judged {
        let before = self.seen.index();
        let seen = &mut self.seen;
        let changes = self.world.consul(|consul, _| seen.compare(consul, None));
        let mut book = self.book.lock();
        for change in &changes {
            match change {
                Happening::SessionEnded { session, .. } => book.take(session, before),
                Happening::Changed(change) => {
                    let taken = change.taken_from();
                    taken.for_each(|session| book.take(session, before));
                }
                _ => {}
            }
        }
        drop(book);
        self.judge_all(&changes)
    }

    fn judge_all(&mut self, changes: &[Happening]) -> Judged {
        if let Some(past) = &mut self.past {
            self.world.consul(|consul, _| past.look_at(consul));
        }
        let now = self.world.now();
        let (written, causes) = {
            let mut book = self.book.lock();
            let written = std::mem::take(&mut book.happenings);
            (written, std::mem::take(&mut book.causes))
        };
        for what in changes.iter().chain(&written) {
            self.count(what);
            if self.keeps_story
                && !matches!(what, Happening::Sent { .. } | Happening::Informed { .. })
            {
                self.world.note(format_args!("           · {what}"));
            }
            self.judge.happen(now, what)?;
        }
        self.judge.settle(now, &self.book.lock().held())?;
        for (after, deed) in causes {
            self.plan_act(now + after, Act::Do(deed));
        }
        Ok(())
    }

    fn count(&mut self, what: &Happening) {
        match what {
            Happening::Granted { token, .. } if token.0 == 0 => {
                self.figures.grants_to_strangers += 1;
            }
            Happening::Granted { belief, .. } => {
                self.figures.grants += 1;
                let is_election = self.plan.place(belief.prefix).is_election();
                self.figures.elected += u64::from(is_election);
            }
            Happening::ValueSet { .. } => self.figures.values_set += 1,
            Happening::Lost { reason, .. } => {
                let name = match reason {
                    Lost::SessionGone { .. } => "session gone",
                    Lost::RemovedFromHolders { .. } => "removed from the holders",
                    Lost::ContenderKeyTaken { .. } => "contender key taken",
                    Lost::KeyReleased { .. } => "key released",
                    Lost::KeyTaken { .. } => "key taken by another",
                    Lost::KeyDeleted { .. } => "key deleted",
                    Lost::KeyOverwritten { .. } => "key overwritten",
                    Lost::LeaseExpired { .. } => "lease ran out",
                    _ => "other",
                };
                *self.figures.losses.entry(name).or_default() += 1;
            }
            _ => {}
        }
    }
}
