//! The nodes and their health checks, as far as sessions depend on them.

use std::collections::BTreeMap;

/// The check that every node has: the agents' own judgement of whether it is alive.
pub(super) const SERF_HEALTH: &str = "serfHealth";

/// Nodes, each with its checks and whether they pass. The case of a name does not matter: all are
/// in small letters here.
#[derive(Clone, Debug, Default)]
pub(super) struct Catalog {
    nodes: BTreeMap<String, BTreeMap<String, bool>>,
}

impl Catalog {
    /// Adds a node that passes `serfHealth`.
    pub(super) fn register(&mut self, node: &str) {
        self.nodes
            .entry(node.to_ascii_lowercase())
            .or_default()
            .insert(SERF_HEALTH.to_ascii_lowercase(), true);
    }

    pub(super) fn deregister(&mut self, node: &str) {
        self.nodes.remove(&node.to_ascii_lowercase());
    }

    /// Sets a check, adding it and its node when they are new.
    pub(super) fn set_check(&mut self, node: &str, check: &str, passing: bool) {
        self.nodes
            .entry(node.to_ascii_lowercase())
            .or_default()
            .insert(check.to_ascii_lowercase(), passing);
    }

    pub(super) fn remove_check(&mut self, node: &str, check: &str) {
        if let Some(checks) = self.nodes.get_mut(&node.to_ascii_lowercase()) {
            checks.remove(&check.to_ascii_lowercase());
        }
    }

    pub(super) fn has(&self, node: &str) -> bool {
        self.nodes.contains_key(&node.to_ascii_lowercase())
    }

    /// Whether a check passes, or `None` when there is none of this name.
    pub(super) fn check(&self, node: &str, check: &str) -> Option<bool> {
        self.nodes
            .get(&node.to_ascii_lowercase())?
            .get(&check.to_ascii_lowercase())
            .copied()
    }
}
