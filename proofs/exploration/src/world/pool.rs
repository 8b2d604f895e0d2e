//! The sessions of a process.

use super::participant::{backoff, requests};
use crate::canon::{IdOf, IndexOf, Token, Tree, fingerprinted};

/// Leaves only what decides. Returns who waits for the answer to each request.
pub(super) fn simplify(pool: &mut Tree<'_>) -> Vec<(u64, Vec<Token>)> {
    pool.cut(&["settings", "rng", "timed_at", "agenda", "next"]);
    let waiting = requests(pool);
    if let Some(proofs) = pool.field_mut("proofs") {
        proofs.cut(&["last"]);
        numbers_of_proofs(proofs);
    }
    pool.each("Shared", &mut session);
    pool.each("Pause", &mut backoff);
    // How often a key was acquired. It only matters which number is greater.
    pool.each("TermIndexes", &mut |term| {
        let times = term.field("lock_index").and_then(Tree::number).unwrap_or(0);
        term.put(
            "lock_index",
            Tree::Token(Token::Index(IndexOf::Term, times)),
        );
    });
    let waiting = waiting.into_iter().map(|(id, mut entry)| {
        if let Some(from) = entry.field_mut("from") {
            sender(from);
        }
        (id, fingerprinted(&entry))
    });
    waiting.collect()
}

/// The requests of its own pool have two numbers: the machine's, and the pool's.
pub(super) fn own(lone: &mut Tree<'_>) -> Vec<(u64, Vec<Token>)> {
    let ids = lone.take(&["ids"]);
    lone.cut(&["place"]);
    let Some(pool) = lone.field_mut("pool") else {
        return Vec::new();
    };
    let waiting = simplify(pool);
    let ids = ids.items().iter();
    let ids = ids.filter_map(|it| Some((it.key.as_ref()?.number()?, it.value.number()?)));
    ids.filter_map(|(ours, theirs)| {
        let (_, tokens) = waiting.iter().find(|(id, _)| *id == theirs)?;
        Some((ours, tokens.clone()))
    })
    .collect()
}

/// A request's number at its session, or a proof's.
fn sender(from: &mut Tree<'_>) {
    let of = match from.name() {
        "Session" => IdOf::Asked,
        _ => IdOf::Proof,
    };
    if let Some(last) = from.items_mut().and_then(|it| it.last_mut()) {
        let number = last.value.number().unwrap_or(0);
        last.value = Tree::Token(Token::Id(of, number));
    }
}

fn numbers_of_proofs(proofs: &mut Tree<'_>) {
    let under_way = proofs.field_mut("under_way").and_then(Tree::items_mut);
    for item in under_way.into_iter().flatten() {
        let number = item.key.as_ref().and_then(Tree::number).unwrap_or(0);
        item.key = Some(Tree::Token(Token::Id(IdOf::Proof, number)));
    }
}

fn session(shared: &mut Tree<'_>) {
    shared.each("Asked", &mut |asked| {
        let number = asked.field("no").and_then(Tree::number).unwrap_or(0);
        asked.put("no", Tree::Token(Token::Id(IdOf::Asked, number)));
    });
    // Each grant brings a newer proof.
    let users = shared.field("users").map_or(&[][..], Tree::items);
    if !users.iter().any(|it| it.value.name() == "Holds") {
        shared.each("Lease", &mut |lease| lease.cut(&["proved_at"]));
    }
    // What its users know of the lease is what there is, or comes with the next news.
    if let Some(told) = shared.field_mut("told") {
        told.each("Lease", &mut |lease| *lease = Tree::NOTHING);
    }
}
