//! A transaction's operations on nodes of the catalog: `get`, `set` and `cas`.

use serde::Serialize;
use serde_json::{Map, Value};

use super::acl::{self, Authority};
use super::catalog::Node;
use super::go_json::{self, Field};
use super::state::State;

/// One operation on a node.
pub(super) struct NodeOperation {
    verb: Verb,
    name: String,
    address: String,
    datacenter: String,
    meta: Option<Map<String, Value>>,
    /// The index to compare with, if the verb compares one.
    index: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Get,
    Set,
    Cas,
}

impl NodeOperation {
    /// Parses an operation; `None` for a verb that is ignored.
    pub(super) fn parse(members: &Map<String, Value>) -> Result<Option<Self>, String> {
        let Some(Value::Object(fields)) = go_json::member(members, "Node") else {
            return Ok(None);
        };
        let verb = Field::new(fields, "Verb").text()?;
        let verb = match verb.as_deref() {
            Some("get") => Verb::Get,
            Some("set") => Verb::Set,
            Some("cas") => Verb::Cas,
            _ => return Ok(None),
        };
        let empty = Map::new();
        let node = match go_json::member(fields, "Node") {
            Some(Value::Object(node)) => node,
            _ => &empty,
        };
        let field = |name| Field::new(node, name);
        let meta = match go_json::member(node, "Meta") {
            Some(Value::Object(meta)) => Some(meta.clone()),
            _ => None,
        };
        Ok(Some(Self {
            verb,
            name: field("Node").text()?.unwrap_or_default(),
            address: field("Address").text()?.unwrap_or_default(),
            datacenter: field("Datacenter").text()?.unwrap_or_default(),
            meta,
            index: field("ModifyIndex").number()?.unwrap_or_default(),
        }))
    }

    pub(super) fn is_write(&self) -> bool {
        self.verb != Verb::Get
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What the leader checks before it enters the log.
    pub(super) fn check(&self, authority: &Authority) -> Option<String> {
        let is_permitted = !self.is_write() || authority.writes_node(&self.name);
        (!is_permitted).then(|| acl::denial("node:write", self.name.as_bytes()))
    }

    /// Applies it. Returns the resulting node, or the agent's text about its failure.
    pub(super) fn apply(&self, state: &mut State, index: u64) -> Result<ShownNode, String> {
        let name = format!("{:?}", self.name);
        let found = state.catalog.get(&self.name).map(|node| node.modify_index);
        let is_current = match found {
            Some(found) => found == self.index,
            None => self.index == 0,
        };
        if self.verb == Verb::Cas && !is_current {
            return Err(format!("failed to set node {name}, index is stale"));
        }
        if self.is_write() {
            let node = Node::new(&self.name, &self.address, self.meta.clone());
            state.catalog.set(node, index);
        }
        let node = state.catalog.get(&self.name);
        let node = node.ok_or_else(|| format!("node {name} doesn't exist"))?;
        Ok(ShownNode::new(node, &self.datacenter))
    }
}

/// A node as a transaction shows it.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ShownNode {
    #[serde(rename = "ID")]
    id: &'static str,
    node: String,
    address: String,
    datacenter: String,
    tagged_addresses: (),
    meta: Option<Map<String, Value>>,
    create_index: u64,
    modify_index: u64,
}

impl ShownNode {
    /// The agent fills in its datacenter if none is named.
    fn new(node: &Node, datacenter: &str) -> Self {
        let named = Some(datacenter).filter(|name| !name.is_empty());
        Self {
            id: "",
            node: node.name.clone(),
            address: node.address.clone(),
            datacenter: named.unwrap_or(super::DATACENTER).to_owned(),
            tagged_addresses: (),
            meta: node.meta.clone(),
            create_index: node.create_index,
            modify_index: node.modify_index,
        }
    }
}
