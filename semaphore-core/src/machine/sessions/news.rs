//! News that users of the sessions have not got yet.

use std::collections::{BTreeMap, VecDeque};

use crate::machine::process::tenancy::loan::LoanNews;
use crate::machine::process::tenancy::past::Past;
use crate::machine::process::tenancy::tenant::{MemberNo, Tenant};

/// The oldest first. If a user has not learned of the last renewal when the next is answered, it
/// learns of both at once.
#[derive(Clone, Debug, Default)]
pub(super) struct AllNews {
    order: VecDeque<Tenant>,
    of: BTreeMap<Tenant, LoanNews>,
}

impl AllNews {
    pub(super) fn add(&mut self, tenant: Tenant, mut news: LoanNews) {
        if let Some(before) = self.of.get_mut(&tenant) {
            news.seen = news.seen.or(before.seen.take());
            if news.shown.past == Past::Nothing {
                news.shown.past = before.shown.past;
            }
            *before = news;
        } else {
            self.order.push_back(tenant);
            self.of.insert(tenant, news);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn poll(&mut self) -> Option<(MemberNo, LoanNews)> {
        let tenant = self.order.pop_front()?;
        Some((tenant.member, self.of.remove(&tenant)?))
    }
}
