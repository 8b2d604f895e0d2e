//! Access control: policies, tokens, and what each token allows.

use std::collections::BTreeMap;
use std::sync::Arc;

use semaphore_core::adapter::Response;

use super::answer;
use super::profile::Release;

/// What a rule allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Nothing.
    Deny,
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
}

/// The rules of one token. Everything without a rule is denied.
///
/// An exact rule takes precedence over a prefix rule, and a longer prefix over a shorter one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    keys: Rules,
    sessions: Rules,
    nodes: Rules,
    agents: Rules,
}

impl Policy {
    /// A policy that allows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A policy that allows everything, like a management token's.
    pub fn management() -> Self {
        Self::new()
            .with_key_prefix("", Access::Write)
            .with_session_prefix("", Access::Write)
            .with_node_prefix("", Access::Write)
            .with_agent_prefix("", Access::Write)
    }

    /// The same policy with a rule for one key (`key "…"`).
    #[must_use]
    pub fn with_key(mut self, key: &str, access: Access) -> Self {
        self.keys.exact.insert(key.into(), access);
        self
    }

    /// The same policy with a rule for all keys of a prefix (`key_prefix "…"`).
    #[must_use]
    pub fn with_key_prefix(mut self, prefix: &str, access: Access) -> Self {
        self.keys.prefixes.insert(prefix.into(), access);
        self
    }

    /// The same policy with a rule for the sessions of one node (`session "…"`).
    #[must_use]
    pub fn with_session(mut self, node: &str, access: Access) -> Self {
        self.sessions.exact.insert(node.into(), access);
        self
    }

    /// The same policy with a rule for the sessions of all nodes of a prefix
    /// (`session_prefix "…"`).
    #[must_use]
    pub fn with_session_prefix(mut self, prefix: &str, access: Access) -> Self {
        self.sessions.prefixes.insert(prefix.into(), access);
        self
    }

    /// The same policy with a rule for one node of the catalog (`node "…"`).
    #[must_use]
    pub fn with_node(mut self, node: &str, access: Access) -> Self {
        self.nodes.exact.insert(node.into(), access);
        self
    }

    /// The same policy with a rule for all nodes of a prefix (`node_prefix "…"`).
    #[must_use]
    pub fn with_node_prefix(mut self, prefix: &str, access: Access) -> Self {
        self.nodes.prefixes.insert(prefix.into(), access);
        self
    }

    /// The same policy with a rule for the agents of all nodes of a prefix (`agent_prefix "…"`).
    #[must_use]
    pub fn with_agent_prefix(mut self, prefix: &str, access: Access) -> Self {
        self.agents.prefixes.insert(prefix.into(), access);
        self
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rules {
    exact: BTreeMap<Vec<u8>, Access>,
    prefixes: BTreeMap<Vec<u8>, Access>,
}

impl Rules {
    fn access(&self, name: &[u8]) -> Access {
        if let Some(access) = self.exact.get(name) {
            return *access;
        }
        self.longest_prefix_of(name).unwrap_or(Access::Deny)
    }

    /// Whether everything below `prefix` may be written: the prefix is writable, and no rule below
    /// it denies writing.
    fn writes_below(&self, prefix: &[u8]) -> bool {
        let below = |rules: &BTreeMap<Vec<u8>, Access>| {
            rules
                .iter()
                .filter(|(name, _)| name.starts_with(prefix))
                .all(|(_, access)| *access == Access::Write)
        };
        self.longest_prefix_of(prefix) == Some(Access::Write)
            && below(&self.prefixes)
            && below(&self.exact)
    }

    fn longest_prefix_of(&self, name: &[u8]) -> Option<Access> {
        self.prefixes
            .iter()
            .filter(|(prefix, _)| name.starts_with(prefix))
            .max_by_key(|(prefix, _)| prefix.len())
            .map(|(_, access)| *access)
    }
}

/// Whether access control is on, and what each token allows.
#[derive(Clone)]
pub(super) struct Acl {
    pub(super) default_deny: bool,
    pub(super) reports_filtering: bool,
    tokens: BTreeMap<String, Arc<Policy>>,
}

impl Acl {
    pub(super) fn new(release: &Release) -> Self {
        Self {
            default_deny: false,
            reports_filtering: release.reports_filtering,
            tokens: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, token: &str, policy: Policy) {
        let policy = Arc::new(policy);
        self.tokens.insert(token.into(), policy);
    }

    pub(super) fn remove(&mut self, token: &str) {
        self.tokens.remove(token);
    }

    /// What `token` allows, or `None` if there is no such token.
    pub(super) fn authorize(&self, token: Option<&str>) -> Option<Authority> {
        if !self.default_deny {
            return Some(Authority::Everything);
        }
        match token {
            None => Some(Authority::Rules {
                policy: Arc::default(),
                told_of_filtering: false,
            }),
            Some(token) => self.tokens.get(token).map(|policy| Authority::Rules {
                policy: Arc::clone(policy),
                told_of_filtering: self.reports_filtering,
            }),
        }
    }

    /// What requests without a rule may do: `allow` or `deny`.
    pub(super) fn default_policy(&self) -> &'static str {
        if self.default_deny { "deny" } else { "allow" }
    }
}

/// What one request may do.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Authority {
    /// Access control is off.
    Everything,
    /// Only what the policy allows.
    Rules {
        policy: Arc<Policy>,
        /// The agent never tells an anonymous client that something was left out.
        told_of_filtering: bool,
    },
}

/// The text of a denial that misses a permission, such as `key:write`, on this name.
pub(super) fn denial(permission: &str, name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    format!("Permission denied: token lacks permission '{permission}' on {name:?}")
}

/// 403 with [that text](denial).
pub(super) fn denied(permission: &str, name: impl AsRef<[u8]>) -> Response {
    answer::text(403, denial(permission, name.as_ref()))
}

impl Authority {
    pub(super) fn is_enforced(&self) -> bool {
        matches!(self, Self::Rules { .. })
    }

    pub(super) fn is_told_of_filtering(&self) -> bool {
        matches!(
            self,
            Self::Rules {
                told_of_filtering: true,
                ..
            }
        )
    }

    pub(super) fn reads_key(&self, key: &[u8]) -> bool {
        self.allows(|policy| policy.keys.access(key) >= Access::Read)
    }

    pub(super) fn writes_key(&self, key: &[u8]) -> bool {
        self.allows(|policy| policy.keys.access(key) >= Access::Write)
    }

    pub(super) fn writes_tree(&self, prefix: &[u8]) -> bool {
        self.allows(|policy| policy.keys.writes_below(prefix))
    }

    pub(super) fn reads_sessions_of(&self, node: &str) -> bool {
        self.allows(|policy| policy.sessions.access(node.as_bytes()) >= Access::Read)
    }

    pub(super) fn writes_sessions_of(&self, node: &str) -> bool {
        self.allows(|policy| policy.sessions.access(node.as_bytes()) >= Access::Write)
    }

    pub(super) fn reads_node(&self, node: &str) -> bool {
        self.allows(|policy| policy.nodes.access(node.as_bytes()) >= Access::Read)
    }

    pub(super) fn writes_node(&self, node: &str) -> bool {
        self.allows(|policy| policy.nodes.access(node.as_bytes()) >= Access::Write)
    }

    pub(super) fn reads_agent(&self, node: &str) -> bool {
        self.allows(|policy| policy.agents.access(node.as_bytes()) >= Access::Read)
    }

    fn allows(&self, rule: impl FnOnce(&Policy) -> bool) -> bool {
        match self {
            Self::Everything => true,
            Self::Rules { policy, .. } => rule(policy),
        }
    }
}
