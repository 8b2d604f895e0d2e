//! The state machines: no I/O, no clock, no thread. The same inputs always lead to the same
//! outputs.
//!
//! ```text
//!            Participant                 Candidate               Follow      machines, by one contract
//!     in `semaphore`: who may hold   in `election`: who leads   who leads,
//!     what the record says           what the key says          seen from outside
//!          │           │                 │           │             │
//!       callers ───────┼─────────────────┘           │             │         who waits, who holds, what they are told
//!                  process ──────────────────────────┴─────────────┘         what one process shares:
//!                     tenancy   what a session is to its users: settings, lease, loan
//!                     reader    what is asked again: from which index, how often, when after a failure
//!                     requests  what is under way
//! ```
//! The sessions are in `sessions`: one pool for a machine, or for all machines of a process. A
//! [`MachineSet`] runs several of them on shared sessions. Lower modules know nothing of those
//! above.

mod callers;
mod contract;
mod election;
#[cfg(test)]
mod fixture;
mod follow;
mod machine_set;
mod notice;
mod process;
mod semaphore;
mod sessions;
mod status;

pub use contract::{Event, Machine, Transmit};
pub use election::{Candidate, ElectionSettings, Term};
pub(crate) use follow::attended::{Attended, Interest};
pub(crate) use follow::known::Told;
pub use follow::{Follow, LeaderEvent};
pub use machine_set::{MachineSet, Member, News, Origin, Reach, Report};
#[cfg(feature = "metrics")]
pub(crate) use notice::NAMES_OF_LOSSES;
pub use notice::Notice;
pub(crate) use notice::name_of_loss;
pub(crate) use process::outage::{Outage, Purpose, RequestEnd};
pub(crate) use process::reader::{Backoff, Budget, READ_BURST, READ_INTERVAL, jitter};

pub use process::reader::check::{Check, CheckNews};
pub use process::tenancy::loan::{LoanNews, LoanNo, LoanWish};
pub use process::tenancy::tenant::MemberNo;
pub use process::tenancy::tenant::Shares;
pub use semaphore::{Availability, Grant, Participant, Settings};
pub use status::{FirstWaiter, Status, Trouble};
