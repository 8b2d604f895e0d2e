//! Which part of a participant sent a request, and so gets its answer.

use crate::machine::process::requests::Sender;
use crate::machine::process::service::Service;
use crate::machine::process::tenancy::confirmations::QuestionNo;
use crate::machine::semaphore::admission::ContenderNo;
use crate::machine::semaphore::contender::Part;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    Watch,
    Refresh,
    /// A read of the record before a write.
    Record,
    Ledger,
    Vanished,
    Confirmation(QuestionNo),
    Contender(ContenderNo, Part),
}

impl Sender for From {
    fn polls(&self) -> bool {
        *self == Self::Watch
    }

    fn is_step(&self) -> bool {
        !matches!(
            self,
            Self::Contender(_, Part::Session(_)) | Self::Confirmation(_)
        )
    }
}

impl From {
    /// The permission that the request needs, so that a refusal of one says nothing about another
    /// (L4). A watch may read only somebody else's key. The permission to write a session includes
    /// reading it (Consul's documentation of ACL rules).
    pub(super) fn service(self, looks_ahead: bool) -> Service {
        match self {
            Self::Watch if looks_ahead => Service::Inquiries,
            Self::Watch | Self::Refresh | Self::Record | Self::Confirmation(_) => Service::Reads,
            Self::Vanished => Service::Inquiries,
            Self::Ledger => Service::Records,
            Self::Contender(_, Part::Key) => Service::Keys,
            Self::Contender(_, Part::Session(_)) => Service::Sessions,
        }
    }
}
