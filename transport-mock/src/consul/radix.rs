//! The node of the agent's radix tree that a lookup watches.
//!
//! The agent keeps its tables in immutable radix trees. A blocking query on something missing
//! watches the deepest node that the lookup reached. It wakes when anything below that node
//! changes, or when the node is split or merged. So an unrelated write can wake a query on a
//! missing key, and which write does depends on the other keys.

use core::ops::Bound;
use std::collections::{BTreeMap, btree_map};

/// A node: the path to its end, and the length of its parent's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    path: Vec<u8>,
    parent: usize,
}

impl Node {
    /// The node where a lookup of `search` ends. No key of `table` may be a prefix of another.
    pub(super) fn reached<V>(table: &BTreeMap<Vec<u8>, V>, search: &[u8]) -> Self {
        let after = table.range(search.to_vec()..).next();
        let before = table.range(..search.to_vec()).next_back();
        let shared = [after, before]
            .into_iter()
            .flatten()
            .map(|(key, _)| common(key, search))
            .max()
            .unwrap_or(0);
        if shared == 0 {
            return Self {
                path: Vec::new(),
                parent: 0,
            };
        }
        let stem = &search[..shared];
        let mut subtree = below(table, stem).map(|(key, _)| key.as_slice());
        let first = subtree.next().unwrap_or(stem);
        let last = subtree.next_back().unwrap_or(first);
        let path = first[..common(first, last)].to_vec();
        let outside = [
            table.range(..first.to_vec()).next_back(),
            table.range(successor(last)..).next(),
        ];
        let parent = outside
            .into_iter()
            .flatten()
            .map(|(key, _)| common(key, first))
            .max()
            .unwrap_or(0);
        Self { path, parent }
    }

    /// The path to its end.
    pub(super) fn into_path(self) -> Vec<u8> {
        self.path
    }

    /// Whether it is one of the nodes at these ends.
    pub(super) fn is_one_of(&self, paths: &[Vec<u8>]) -> bool {
        paths.contains(&self.path)
    }

    /// Whether a change of `key` is a change below this node.
    pub(super) fn covers(&self, key: &[u8]) -> bool {
        key.starts_with(&self.path)
    }
}

/// The entries whose keys begin with `prefix`, in order.
pub(super) fn below<'a, V>(
    table: &'a BTreeMap<Vec<u8>, V>,
    prefix: &[u8],
) -> btree_map::Range<'a, Vec<u8>, V> {
    let mut end = prefix.to_vec();
    while end.last() == Some(&u8::MAX) {
        end.pop();
    }
    let end = match end.last_mut() {
        Some(last) => {
            *last += 1;
            Bound::Excluded(end)
        }
        None => Bound::Unbounded,
    };
    table.range((Bound::Included(prefix.to_vec()), end))
}

fn successor(key: &[u8]) -> Vec<u8> {
    let mut successor = key.to_vec();
    successor.push(0);
    successor
}

fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
