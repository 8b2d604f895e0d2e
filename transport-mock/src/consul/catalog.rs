//! The nodes and their health checks, as far as sessions depend on them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The check that every node with an agent has: the agents' judgement whether it is alive.
pub(super) const SERF_HEALTH: &str = "serfHealth";

/// The address of the nodes that have an agent.
const HERE: &str = "127.0.0.1";

/// The nodes. Names are case-insensitive and stored in lower case.
#[derive(Clone, Debug, Default)]
pub(super) struct Catalog {
    nodes: BTreeMap<String, Node>,
}

/// A node, with its checks and whether they pass.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) meta: Option<Map<String, Value>>,
    pub(super) create_index: u64,
    pub(super) modify_index: u64,
    checks: BTreeMap<String, bool>,
}

impl Node {
    /// A node without checks that is not yet in the catalog.
    pub(super) fn new(name: &str, address: &str, meta: Option<Map<String, Value>>) -> Self {
        Self {
            name: name.to_owned(),
            address: address.to_owned(),
            meta,
            create_index: 0,
            modify_index: 0,
            checks: BTreeMap::new(),
        }
    }
}

impl Catalog {
    /// Adds the node of an agent, which passes `serfHealth`.
    pub(super) fn register(&mut self, name: &str, index: u64) {
        if !self.has(name) {
            self.set(Node::new(name, HERE, None), index);
        }
        self.set_check(name, SERF_HEALTH, true);
    }

    /// Adds or changes a node. Its checks stay.
    pub(super) fn set(&mut self, mut node: Node, index: u64) {
        let name = node.name.to_ascii_lowercase();
        node.create_index = index;
        node.modify_index = index;
        if let Some(before) = self.nodes.remove(&name) {
            node.create_index = before.create_index;
            node.checks = before.checks;
        }
        self.nodes.insert(name, node);
    }

    pub(super) fn deregister(&mut self, name: &str) {
        self.nodes.remove(&name.to_ascii_lowercase());
    }

    /// Sets a check. Adds it and its node if they are missing.
    pub(super) fn set_check(&mut self, name: &str, check: &str, is_passing: bool) {
        let node = self.nodes.entry(name.to_ascii_lowercase());
        let node = node.or_insert_with(|| Node::new(name, HERE, None));
        node.checks.insert(check.to_ascii_lowercase(), is_passing);
    }

    pub(super) fn remove_check(&mut self, name: &str, check: &str) {
        if let Some(node) = self.nodes.get_mut(&name.to_ascii_lowercase()) {
            node.checks.remove(&check.to_ascii_lowercase());
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Node> {
        self.nodes.get(&name.to_ascii_lowercase())
    }

    /// Whether a check passes, or `None` when there is none of this name.
    pub(super) fn check(&self, name: &str, check: &str) -> Option<bool> {
        let checks = &self.get(name)?.checks;
        checks.get(&check.to_ascii_lowercase()).copied()
    }

    /// The indexes of all creations and changes.
    pub(super) fn indexes(&self) -> impl Iterator<Item = u64> {
        let of = |node: &Node| [node.create_index, node.modify_index];
        self.nodes.values().flat_map(of)
    }

    pub(super) fn renumber(&mut self, renumber: impl Fn(u64) -> u64) {
        for node in self.nodes.values_mut() {
            node.create_index = renumber(node.create_index);
            node.modify_index = renumber(node.modify_index);
        }
    }
}
