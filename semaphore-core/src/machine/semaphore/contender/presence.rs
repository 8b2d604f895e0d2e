//! What the record says about a contender.

use crate::defect::{Defect, is_on};
use crate::id::Index;
use crate::view::View;

/// Whether the record names this contender as a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) enum Presence {
    No,
    /// A write that names it was sent, made from the record at this index.
    Maybe(Index),
    /// The record named it after a write from this index.
    Yes(Index),
}

impl Presence {
    /// The base of the write in question, if `view` shows its outcome. If the record has moved
    /// beyond the base, a write from there can't change it any more. If it has not, it still may,
    /// unless that write is known to have been applied.
    ///
    /// Sources: Consul's documentation of the KV endpoint (`cas` applies only at that
    /// `ModifyIndex`); docs/CONSUL.md, "Limits and timeouts": a given-up write may be applied
    /// seconds after a read that did not show it. So no read settles it, only an index that has
    /// moved.
    pub(super) fn settled_by(self, view: &View, confirmed: bool) -> Option<Index> {
        match self {
            Self::No => None,
            Self::Maybe(base) => {
                (view.record_index() != base || is_on(Defect::ReadSettles)).then_some(base)
            }
            Self::Yes(base) => (view.record_index() != base || confirmed).then_some(base),
        }
    }
}
