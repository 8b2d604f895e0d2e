//! Which Consul it is, a release and an edition, and one table of their differences.
//!
//! [`RELEASES`] has each release's changes since the one before. Code that behaves differently
//! reads them there; versions are compared nowhere else. 1.8 and 1.22 were run side by side with
//! this Consul in memory, and 1.23 was recorded (`tests/behaviour/conformance/recorded`). 1.15
//! follows Consul's source code. Nothing of Enterprise was run.

use core::fmt;
use core::ops::RangeInclusive;
use core::time::Duration;

/// A release and an edition of Consul. The default is 1.8, Community.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Profile {
    /// The release.
    pub version: Version,
    /// The edition.
    pub edition: Edition,
}

/// A release of Consul.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Version {
    /// 1.8.7, on which every conformance script is run.
    #[default]
    V1_8,
    /// 1.15, which has rate limits.
    V1_15,
    /// 1.22, which checks keys on `/v1/kv` and cleans them.
    V1_22,
    /// 1.23-dev, which also checks keys in transactions.
    V1_23,
}

/// An edition of Consul.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Edition {
    /// Without namespaces and partitions: requests that name one are refused, except to `/v1/txn`.
    #[default]
    Community,
    /// With namespaces and, from 1.11, partitions. Each has separate keys and sessions, and all of
    /// them exist. They share one catalog of nodes. A token's own namespace is always `default`.
    Enterprise,
}

impl Profile {
    /// All profiles.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let editions = [Edition::Community, Edition::Enterprise];
        Version::ALL.into_iter().flat_map(move |version| {
            editions
                .into_iter()
                .map(move |edition| Self { version, edition })
        })
    }

    /// The profile closest to a release, given by its major and minor number: the newest that is
    /// not newer, or else the oldest.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn nearest(release: (u32, u32)) -> Self {
        let mut versions = Version::ALL.into_iter().rev();
        let version = versions.find(|it| it.release() <= release);
        Self {
            version: version.unwrap_or_default(),
            edition: Edition::Community,
        }
    }

    /// Its name, such as `1.22 Enterprise`.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) const fn name(self) -> &'static str {
        match (self.version, self.edition) {
            (Version::V1_8, Edition::Community) => "1.8",
            (Version::V1_15, Edition::Community) => "1.15",
            (Version::V1_22, Edition::Community) => "1.22",
            (Version::V1_23, Edition::Community) => "1.23",
            (Version::V1_8, Edition::Enterprise) => "1.8 Enterprise",
            (Version::V1_15, Edition::Enterprise) => "1.15 Enterprise",
            (Version::V1_22, Edition::Enterprise) => "1.22 Enterprise",
            (Version::V1_23, Edition::Enterprise) => "1.23 Enterprise",
        }
    }

    /// The arguments for
    /// [`MockConsul::hold_without_leader`](crate::MockConsul::hold_without_leader): the shortest
    /// and longest time for which agents hold a request while there is no leader, and how long
    /// after a later read they were seen to apply a write that its client had given up.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn without_leader(self) -> (RangeInclusive<Duration>, Duration) {
        let (least, most) = self.rules().held_for;
        (least..=most, self.rules().late)
    }

    pub(super) fn rules(self) -> &'static Release {
        match self.version {
            Version::V1_8 => &RELEASES[0],
            Version::V1_15 => &RELEASES[1],
            Version::V1_22 => &RELEASES[2],
            Version::V1_23 => &RELEASES[3],
        }
    }
}

impl From<Version> for Profile {
    fn from(version: Version) -> Self {
        Self {
            version,
            edition: Edition::Community,
        }
    }
}

impl Version {
    /// All releases that have a profile, oldest first.
    pub const ALL: [Self; 4] = [Self::V1_8, Self::V1_15, Self::V1_22, Self::V1_23];

    /// Its major and minor number.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) const fn release(self) -> (u32, u32) {
        match self {
            Self::V1_8 => (1, 8),
            Self::V1_15 => (1, 15),
            Self::V1_22 => (1, 22),
            Self::V1_23 => (1, 23),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Profile::from(*self).name())
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The behaviour that differs between releases.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a separate difference"
)]
pub(super) struct Release {
    /// What `/v1/agent/self` says.
    pub(super) version: &'static str,

    // Texts.
    /// The prefix of the log's errors about a session's creation.
    pub(super) before_session_fault: &'static str,
    /// The prefix of the log's errors about a write of a key.
    pub(super) before_key_fault: &'static str,

    // Paths and keys.
    pub(super) redirect: Redirect,
    pub(super) unclean: Unclean,
    /// Whether a semicolon separates parameters. Otherwise it makes the query malformed.
    pub(super) semicolon_parts: bool,
    pub(super) keys: KeyRule,
    /// The same in transactions.
    pub(super) keys_of_transactions: KeyRule,

    // Sessions.
    pub(super) session_ids: SessionIds,

    // Transactions.
    pub(super) most_operations: usize,
    pub(super) get_or_empty: bool,
    pub(super) unknown_verb: UnknownVerb,
    /// Whether a transaction that only reads reports the index 1, and what newer answers add.
    pub(super) tells_reads_more: bool,

    // Headers and reads.
    pub(super) default_policy_header: bool,
    pub(super) query_backend_header: bool,
    pub(super) raw_content_type: &'static str,
    /// Whether requests with a token get `X-Consul-Results-Filtered-By-ACLs`.
    pub(super) reports_filtering: bool,
    /// Whether a change near a missing key ends a poll on it.
    pub(super) neighbours_wake: bool,

    // Limits, and no leader.
    pub(super) has_request_limits: bool,
    /// Whether partitions are known. Community then refuses them.
    pub(super) knows_partitions: bool,
    pub(super) held_for: (Duration, Duration),
    pub(super) late: Duration,
}

/// The status of a redirect. It depends on the version of Go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// 301, after which many clients send a `GET`.
    Moved,
    /// 307, after which clients repeat the request.
    Temporary,
}

/// How a path with empty or dot segments is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unclean {
    /// It is redirected, also if the segments are percent-encoded.
    Redirected,
    /// It is redirected if they are not percent-encoded. Encoded ones are cleaned without a
    /// redirect, and an encoded slash does not separate an endpoint from its key.
    EncodedCleaned,
}

/// Which keys are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyRule {
    /// All.
    Any,
    /// Keys without a space at either end and without a segment `..`. If the percent-decoded key
    /// differs, it must have no space and no `..`.
    Tidy,
    /// As `Tidy`, and not empty or with a slash at the beginning.
    TidyAndRelative,
}

/// How session ids are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionIds {
    /// As UUIDs: other texts are an error.
    Uuids,
    /// As texts: one that is not a UUID is merely unknown.
    Texts,
}

/// How an unknown verb is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnknownVerb {
    /// The write permission is checked first, then the log refuses the verb.
    FoundWhenApplied,
    /// It is refused before anything else is checked.
    FoundAtOnce,
}

const V1_8: Release = Release {
    version: "1.8.7",
    before_session_fault: "",
    before_key_fault: "",
    redirect: Redirect::Moved,
    unclean: Unclean::Redirected,
    semicolon_parts: true,
    keys: KeyRule::Any,
    keys_of_transactions: KeyRule::Any,
    session_ids: SessionIds::Uuids,
    most_operations: 64,
    get_or_empty: false,
    unknown_verb: UnknownVerb::FoundWhenApplied,
    tells_reads_more: false,
    default_policy_header: false,
    query_backend_header: false,
    raw_content_type: "text/plain",
    reports_filtering: false,
    neighbours_wake: true,
    has_request_limits: false,
    knows_partitions: false,
    held_for: (Duration::from_millis(7_100), Duration::from_millis(7_100)),
    late: Duration::from_millis(300),
};

/// No source dates what was seen on 1.23, so 1.15 and 1.22 do it, too.
const V1_15: Release = Release {
    version: "1.15.0",
    before_session_fault: "apply failed: ",
    before_key_fault: "raft apply failed: ",
    semicolon_parts: false,
    session_ids: SessionIds::Texts,
    most_operations: 128,
    get_or_empty: true,
    unknown_verb: UnknownVerb::FoundAtOnce,
    tells_reads_more: true,
    default_policy_header: true,
    query_backend_header: true,
    raw_content_type: "text/plain; charset=utf-8",
    reports_filtering: true,
    neighbours_wake: false,
    has_request_limits: true,
    knows_partitions: true,
    held_for: (Duration::from_millis(8_600), Duration::from_secs(18)),
    late: Duration::from_millis(4_700),
    ..V1_8
};

const V1_22: Release = Release {
    version: "1.22.0",
    unclean: Unclean::EncodedCleaned,
    keys: KeyRule::Tidy,
    ..V1_15
};

const V1_23: Release = Release {
    version: "1.23.0-dev",
    redirect: Redirect::Temporary,
    keys: KeyRule::TidyAndRelative,
    keys_of_transactions: KeyRule::TidyAndRelative,
    ..V1_22
};

/// The behaviour of each release, in the order of [`Version::ALL`].
static RELEASES: [Release; 4] = [V1_8, V1_15, V1_22, V1_23];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_profile_has_the_rules_of_its_own_release() {
        for version in Version::ALL {
            let (major, minor) = version.release();
            let found = Profile::from(version).rules().version;
            assert!(found.starts_with(&format!("{major}.{minor}.")), "{found}");
            assert_eq!(version.to_string(), format!("{major}.{minor}"));
        }
    }

    #[test]
    fn a_release_in_between_is_as_the_one_before() {
        let nearest = |release| Profile::nearest(release).version;
        assert_eq!(nearest((1, 4)), Version::V1_8);
        assert_eq!(nearest((1, 14)), Version::V1_8);
        assert_eq!(nearest((1, 15)), Version::V1_15);
        assert_eq!(nearest((1, 22)), Version::V1_22);
        assert_eq!(nearest((2, 0)), Version::V1_23);
    }
}
