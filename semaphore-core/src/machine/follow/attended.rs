//! A follower of a client: the machine set sends its requests, and looks at its key.
//!
//! A few followers poll. The others are checked together, with the candidates that wait
//! (`process::reader::checks`). Such a check only says that the key is as it was, or that it is
//! not. Then the follower reads it. It also reads if it has not been checked for two thirds of its
//! greatest age, and says when its knowledge is too old.

use crate::machine::follow::Follow;
use crate::machine::machine_set::{Member, News, Report};
use crate::machine::process::outage::RequestEnd;
use crate::time::Instant;

/// A follower in a machine set.
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
            Interest::Expected => {
                return Report::of_reader(None, self.follow.wanted_check(), None);
            }
            Interest::None => return Report::default(),
        }
        self.follow.grow_old(now);
        let transmit = self.follow.transmit(now);
        let too_old_at = self.follow.left(now).map(|left| now + left);
        let timeout = self.follow.due().into_iter().chain(too_old_at).min();
        Report::of_reader(transmit, self.follow.wanted_check(), timeout)
    }

    fn handle(&mut self, now: Instant, news: News<'_>) -> Option<RequestEnd> {
        match news {
            News::Response(id, result) => return self.follow.hear_response(now, id, &result),
            News::Check(news) => self.follow.take_check(now, news),
            News::Loan(_) => {}
        }
        None
    }
}
