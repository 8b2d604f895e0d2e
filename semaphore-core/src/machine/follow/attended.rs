//! A follower of a client: the household sends its requests, and looks at its key.
//!
//! A few followers poll. The others are checked together, with the candidates that wait
//! (`process::reader::checks`). Such a check only says that the key is as it was, or that it is
//! not. Then the follower reads it. It also reads if it has not been checked for two thirds of its
//! greatest age, and says when its knowledge is too old.

use core::time::Duration;

use crate::error::RequestError;
use crate::id::Index;
use crate::machine::follow::Follow;
use crate::machine::household::{Member, News, Report};
use crate::machine::process::reader::check::{Check, CheckNews, Reads, Stance};
use crate::time::Instant;
use crate::transport::{TransportError, TransportErrorKind};

/// What the household may check for a follower.
#[derive(Debug, Default)]
pub(super) struct Watched {
    reads: Reads,
    /// When the key last changed, zero if it is missing. `None` if it is not an election's, or in
    /// doubt.
    index: Option<Index>,
    /// Whether it has changed since.
    is_outdated: bool,
}

impl Watched {
    /// An answer has shown the key.
    pub(super) fn saw(&mut self, changed_at: Option<Index>) {
        self.index = Some(changed_at.unwrap_or(Index::ZERO));
        self.is_outdated = false;
    }

    /// What the key is must be read.
    pub(super) fn forget(&mut self) {
        self.index = None;
    }
}

/// A follower in a household.
pub(crate) struct Attended<'a> {
    pub(crate) follow: &'a mut Follow,
    pub(crate) interest: Interest,
}

/// Whether somebody waits for news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    Present,
    /// Somebody has just been told something, and probably comes back. It sends nothing until then.
    Expected,
    None,
}

impl Member for Attended<'_> {
    fn attend(&mut self, now: Instant) -> Report {
        match self.interest {
            Interest::Present => {}
            Interest::Expected => return Report::of_reader(None, self.follow.wanted_check(), None),
            Interest::None => return Report::default(),
        }
        self.follow.grow_old(now);
        let transmit = self.follow.transmit(now);
        let too_old_at = self.follow.left(now).map(|left| now + left);
        let timeout = self.follow.due().into_iter().chain(too_old_at).min();
        Report::of_reader(transmit, self.follow.wanted_check(), timeout)
    }

    fn handle(&mut self, now: Instant, news: News<'_>) {
        match news {
            News::Response(id, result) => self.follow.handle_response(now, id, &result),
            News::Check(news) => self.follow.take_check(now, news),
            News::Loan(_) => {}
        }
    }
}

impl Follow {
    /// For a household. It says who may poll: many may begin at once.
    pub(crate) fn looked_after(mut self) -> Self {
        self.watched.reads = Reads::Shared;
        self
    }

    /// Until when no poll is needed, since the household looks at the key.
    pub(super) fn watched_until(&self) -> Option<Instant> {
        let is_watched = self.watched.reads == Reads::Shared && !self.watched.is_outdated;
        self.wanted_check().filter(|_| is_watched)?;
        Some(self.known.asked_at()? + self.max_age / 3 * 2)
    }

    /// What the household may check.
    fn wanted_check(&self) -> Option<Check> {
        let index = self.watched.index.filter(|_| !self.is_interrupted())?;
        Some(Check {
            // The candidates of the process go first.
            stance: Stance::Waits { ahead: 1 },
            record: self.key.as_str().to_owned(),
            index,
            keys: Vec::new(),
            seen_at: self.known.answered_at()?,
        })
    }

    /// Says that its knowledge is too old, if it has become so.
    fn grow_old(&mut self, now: Instant) {
        if self.left(now) == Some(Duration::ZERO) {
            let timeout = TransportError::new(TransportErrorKind::Timeout);
            self.known.fails(&RequestError::Transport(timeout));
        }
    }

    fn take_check(&mut self, now: Instant, news: CheckNews) {
        match news {
            CheckNews::WaitingReads(reads) => self.watched.reads = reads,
            CheckNews::AsBefore { index, sent_at } => {
                let is_current = !self.is_interrupted() && !self.watched.is_outdated;
                if self.watched.index == Some(index) && is_current {
                    self.known.confirm(sent_at, now);
                }
            }
            CheckNews::Changed(index) => {
                if self.watched.index == Some(index) && !self.watched.is_outdated {
                    self.watched.is_outdated = true;
                    if !self.poller.is_polling() {
                        // A snapshot may have been restored, with a lower index.
                        self.poller.restart();
                    }
                }
            }
            CheckNews::Reads(_) => {}
        }
    }
}
