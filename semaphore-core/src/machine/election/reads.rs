//! Who looks at the key while nothing else is to be done: a poll of this candidate, or the process
//! for all of its machines (`process::reader::checks`).
//!
//! That is so for a leader whose value is shown, and for a candidate while another one leads. Such
//! a check only says that the key is as it was, or that it is not. Then the candidate reads it.

use crate::defect::{Defect, is_on};
use crate::error::Lost;
use crate::machine::election::Candidate;
use crate::machine::election::candidacy::{Candidacy, CandidacyEvent};
use crate::machine::election::settings::ElectionSettings;
use crate::machine::process::encoding::Encoding;
use crate::machine::process::reader::check::{Check, CheckNews, Reads, Stance};
use crate::subject::Subject;
use crate::time::Instant;

/// Who looks at the key for a leader, and for a candidate.
#[derive(Clone, Debug)]
pub(super) struct Lookout {
    leading: Reads,
    waiting: Reads,
}

impl Lookout {
    pub(super) fn new(settings: &ElectionSettings) -> Self {
        Self {
            leading: Reads::at_first(&settings.session),
            waiting: Reads::at_first(&settings.session),
        }
    }

    fn reads(&self, stance: Stance) -> Reads {
        match stance {
            Stance::Holds => self.leading,
            Stance::Waits { .. } => self.waiting,
        }
    }
}

impl Candidate {
    /// What the process may check for it.
    pub(super) fn wanted_check(&self) -> Option<Check> {
        let may_share = self.settings.session.shares_sessions()
            && self.settings.encoding == Encoding::Transactions;
        let candidacy = self.candidacy.as_ref().filter(|_| may_share)?;
        candidacy.wanted_check(&self.settings)
    }

    /// Whether no poll is needed: the process looks at the key, or the answer to an attempt tells
    /// more.
    pub(super) fn is_looked_after(&self) -> bool {
        let Some(candidacy) = &self.candidacy else {
            return false;
        };
        if self.settings.session.shares_sessions() && candidacy.is_attempting() {
            return true;
        }
        let check = self.wanted_check().filter(|_| candidacy.is_in_sight());
        check.is_some_and(|check| self.lookout.reads(check.stance) == Reads::Shared)
    }

    /// Takes the result of a check with the keys of others.
    pub(super) fn take_check(&mut self, now: Instant, news: CheckNews) {
        match news {
            CheckNews::Reads(reads) => self.lookout.leading = reads,
            CheckNews::WaitingReads(reads) => self.lookout.waiting = reads,
            CheckNews::AsBefore { index, .. } => {
                if let Some(candidacy) = &mut self.candidacy {
                    candidacy.seen_again(now, index);
                }
                self.note(now);
            }
            CheckNews::Changed(index) => {
                if is_on(Defect::OlderCheckBelieved)
                    && let Some(session) = self.candidacy.as_ref().and_then(Candidacy::led_with)
                {
                    let (session, on) = (session.clone(), Subject::default());
                    let lost = CandidacyEvent::Lost(Lost::KeyReleased { session, on });
                    self.handle_event(now, Some(lost));
                }
                let is_news = |it: &mut Candidacy| it.has_changed(now, index);
                if self.candidacy.as_mut().is_some_and(is_news) && !self.watch.is_polling() {
                    // A snapshot may have been restored, with a lower index.
                    self.watch.restart();
                }
            }
        }
        self.settle(now);
    }
}
