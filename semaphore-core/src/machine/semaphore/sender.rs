//! Which room of a participant a request is of, and so whose its answer is.

use crate::machine::process::requests::Sender;
use crate::machine::process::service::Service;
use crate::machine::semaphore::admission::ContenderNo;
use crate::machine::semaphore::contender::Part;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    Watch,
    Refresh,
    /// A read of the record before it is written.
    Record,
    /// With its number.
    Glance(u32),
    Ledger,
    Vanished,
    Contender(ContenderNo, Part),
}

impl Sender for From {
    fn polls(&self) -> bool {
        *self == Self::Watch
    }

    fn is_step(&self) -> bool {
        !matches!(self, Self::Contender(_, Part::Session(_)))
    }
}

impl From {
    /// What permission the request needs, so that a refusal of one says nothing of another (L4). A watch may look at somebody
    /// else's key alone. Who may write a session may read it (Consul's documentation of ACL rules).
    pub(super) fn service(self, looks_ahead: bool) -> Service {
        match self {
            Self::Watch if looks_ahead => Service::Inquiries,
            Self::Watch | Self::Refresh | Self::Record | Self::Glance(_) => Service::Reads,
            Self::Vanished => Service::Inquiries,
            Self::Ledger => Service::Records,
            Self::Contender(_, Part::Key) => Service::Keys,
            Self::Contender(_, Part::Session(_)) => Service::Sessions,
        }
    }
}
