//! Reads, including blocking queries.
//!
//! A read with `index=N` is answered at once if what it reads has a higher index. Otherwise it is
//! parked on a [`Watch`]. A change that the watch covers makes it read again, and it is answered if
//! the index is then higher than N. When its wait is over, it is answered with what it read last.

use semaphore_core::adapter::{Instant, Response};

use super::acl::Authority;
use super::answer::Freshness;
use super::kv::{self, TreeShape};
use super::radix::Node;
use super::session;
use super::state::{Changes, State, Tables};
use super::tenancy::Tenancy;

/// What a request reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// One key: only its value, with this content type, or the whole entry.
    Key {
        key: Vec<u8>,
        raw: Option<&'static str>,
    },
    /// All keys below a prefix.
    Tree { prefix: Vec<u8> },
    /// The names of the keys below a prefix.
    Keys { prefix: Vec<u8>, separator: Vec<u8> },
    /// One session.
    Session { id: Vec<u8> },
    /// All sessions.
    Sessions,
    /// The sessions of one node.
    NodeSessions { node: String },
}

/// What a read found.
#[derive(Clone)]
pub(super) struct View {
    /// The index of what was read.
    pub(super) index: u64,
    pub(super) watch: Watch,
    pub(super) response: Response,
    /// Whether something was left out because of missing permissions.
    pub(super) filtered: bool,
}

/// Which changes make a parked read look again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// Changes of the key.
    Key,
    /// Changes near a missing key.
    MissingKey(Node),
    /// Changes below or near a prefix.
    Tree(Node),
    /// Changes of the session.
    Session,
    /// Changes near a missing session.
    MissingSession(Node),
    /// Changes of any session.
    Sessions,
}

impl Read {
    /// Reads, or answers that the read is not allowed.
    pub(super) fn view(
        &self,
        tables: &Tables,
        authority: &Authority,
        pretty: bool,
    ) -> Result<View, Response> {
        Ok(match self {
            Self::Key { key, raw } => return kv::view_key(tables, authority, key, *raw, pretty),
            Self::Tree { prefix } => {
                kv::view_tree(tables, authority, prefix, TreeShape::Entries, pretty)
            }
            Self::Keys { prefix, separator } => {
                let shape = TreeShape::Names { separator };
                kv::view_tree(tables, authority, prefix, shape, pretty)
            }
            Self::Session { id } => session::view_one(tables, authority, id, pretty),
            Self::Sessions => session::view_all(tables, authority, None, pretty),
            Self::NodeSessions { node } => session::view_all(tables, authority, Some(node), pretty),
        })
    }
}

/// A blocking query that waits.
#[derive(Clone)]
pub(super) struct Parked {
    pub(super) tenancy: Tenancy,
    pub(super) read: Read,
    pub(super) authority: Authority,
    pub(super) pretty: bool,
    pub(super) min_index: u64,
    pub(super) freshness: Freshness,
    /// When its wait is over.
    pub(super) deadline: Instant,
    pub(super) watch: Watch,
    /// The answer when its wait is over.
    pub(super) last: Response,
}

impl Parked {
    /// What it reads now.
    fn look(&self, state: &State) -> Result<View, Response> {
        let tables = state.tables(&self.tenancy);
        self.read.view(tables, &self.authority, self.pretty)
    }

    /// Whether it waits for a key that was missing, and still is.
    pub(super) fn is_still_missing(&self, now: &Watch) -> bool {
        let is_missing = |watch: &Watch| matches!(watch, Watch::MissingKey(_));
        is_missing(&self.watch) && is_missing(now)
    }

    /// Whether one of these changes makes it look again.
    pub(super) fn is_woken_by(&self, state: &State, changes: &Changes) -> bool {
        if self.tenancy != changes.tenancy {
            return false;
        }
        let tables = state.tables(&self.tenancy);
        let (touched, sessions) = (&changes.touched, &changes.sessions);
        let keys = &touched.keys;
        let is_reshaped = |node: &Node| node.is_one_of(&touched.reshaped);
        match (&self.watch, &self.read) {
            (Watch::Key, Read::Key { key, .. }) => keys
                .iter()
                .any(|changed| changed.strip_suffix(&[0]) == Some(key)),
            (Watch::MissingKey(node), Read::Key { key, .. }) => {
                !keys.is_empty()
                    && (covers_any(node, keys)
                        || is_reshaped(node)
                        || tables.store.node_of_key(key) != *node)
            }
            (Watch::Tree(node), Read::Tree { prefix } | Read::Keys { prefix, .. }) => {
                !keys.is_empty()
                    && (covers_any(node, keys)
                        || is_reshaped(node)
                        || tables.store.node_of_prefix(prefix) != *node)
            }
            (Watch::Session, Read::Session { id }) => sessions.contains(id),
            (Watch::MissingSession(node), Read::Session { id }) => {
                !sessions.is_empty()
                    && (covers_any(node, sessions) || tables.sessions.node_of_id(id) != *node)
            }
            _ => !sessions.is_empty(),
        }
    }
}

/// What was read of one state, so that many queries for the same thing read it once.
#[derive(Default)]
pub(super) struct Views {
    seen: Vec<(Tenancy, Read, Authority, bool, View)>,
}

impl Views {
    /// What `parked` reads now, or the answer that the read is not allowed.
    pub(super) fn view(&mut self, state: &State, parked: &Parked) -> Result<View, Response> {
        let same = self
            .seen
            .iter()
            .find(|(tenancy, read, authority, pretty, _)| {
                *pretty == parked.pretty
                    && *read == parked.read
                    && *authority == parked.authority
                    && *tenancy == parked.tenancy
            });
        if let Some((.., view)) = same {
            return Ok(view.clone());
        }
        let view = parked.look(state)?;
        self.seen.push((
            parked.tenancy.clone(),
            parked.read.clone(),
            parked.authority.clone(),
            parked.pretty,
            view.clone(),
        ));
        Ok(view)
    }
}

fn covers_any(node: &Node, keys: &[Vec<u8>]) -> bool {
    keys.iter().any(|key| node.covers(key))
}
