//! What a candidate tells.

use crate::error::{Error, Lost};
use crate::id::{CampaignId, ChangeId};
use crate::machine::election::Term;

/// What a caller learns of an election.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ElectionEvent {
    /// The campaign led to a leadership.
    Elected {
        /// Whose.
        campaign: CampaignId,
        /// With what.
        term: Term,
    },
    /// An instant try found another leader, or a lock delay.
    NotAvailable {
        /// Whose.
        campaign: CampaignId,
    },
    /// The campaign ended without a leadership. What it left in Consul is being cleaned up, until
    /// [`Candidate::is_idle`](crate::machine::election::Candidate::is_idle).
    Failed {
        /// Whose.
        campaign: CampaignId,
        /// Why.
        error: Error,
    },
    /// The leadership is over.
    Lost {
        /// Whose.
        campaign: CampaignId,
        /// Why.
        reason: Lost,
    },
    /// The key shows the value, or never will.
    ValueSet {
        /// Which change it was.
        change: ChangeId,
        /// Why it does not, where it does not.
        result: Result<(), Error>,
    },
    /// The leadership was given back. Nothing of it is left in Consul but the key with its value, or
    /// nothing more can be done about it.
    Resigned {
        /// Whose.
        campaign: CampaignId,
        /// The first failure on the way, where there was one that mattered. Then the session's TTL
        /// cleans up.
        result: Result<(), Error>,
    },
}
