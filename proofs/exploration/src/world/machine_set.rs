//! The parts of a machine set that decide what it does next. Its contender is shown separately.

use super::client::NEIGHBOURS;
use super::pool;
use super::shown::Shown;
use crate::canon::{Token, Tree, fingerprinted};

/// Adds the set to its contender.
pub(super) fn shown(text: &str, contender: Shown) -> Shown {
    let mut tree = Tree::read(text);
    // The timers are those of the members.
    tree.cut(&["rng", "timed_at", "timers"]);
    let sent = tree
        .field_mut("traffic")
        .map_or(Tree::NOTHING, |it| it.take(&["sent"]));
    tree.cut(&["traffic"]);
    let mut pools = Vec::new();
    if let Some(commons) = tree.field_mut("commons").and_then(Tree::items_mut) {
        for common in commons {
            pools.push(simplify(&mut common.value));
        }
    }
    let mut shown = Shown {
        tokens: contender.tokens,
        waiting: Vec::new(),
    };
    shown.tokens.extend(fingerprinted(&tree));
    for item in sent.items() {
        let [from, number] = item.value.items() else {
            continue;
        };
        let own = number.value.number();
        let place = from.value.number();
        let waiting = match from.value.name() {
            "Member" if place == Some(0) => Some(&contender.waiting),
            "Sessions" => place
                .and_then(|it| usize::try_from(it).ok())
                .and_then(|it| pools.get(it)),
            _ => None,
        };
        let mut waiting = waiting.into_iter().flatten();
        let found = waiting.find(|(known, _)| Some(*known) == own);
        let id = item.key.as_ref().and_then(Tree::number);
        shown
            .waiting
            .extend(id.zip(found.map(|(_, tokens)| tokens.clone())));
    }
    shown
}

fn simplify(common: &mut Tree<'_>) -> Vec<(u64, Vec<Token>)> {
    for checks in ["checks", "waits"] {
        if let Some(checks) = common.field_mut(checks) {
            // So few members poll for themselves. It only matters which of them were told so.
            *checks = checks.take(&["told"]);
        }
    }
    common.each("FormerTerms", &mut without_former_neighbours);
    common
        .field_mut("pool")
        .map(pool::simplify)
        .unwrap_or_default()
}

/// What a session had at a neighbour's place has no effect: no neighbour comes twice.
fn without_former_neighbours(terms: &mut Tree<'_>) {
    let places = terms
        .items_mut()
        .and_then(|it| it.first_mut()?.value.items_mut());
    if let Some(places) = places {
        places.retain(|it| {
            let place = it.key.as_ref().map_or("", Tree::name);
            !place.trim_matches(['"', '/']).starts_with(NEIGHBOURS)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_at_the_neighbours_place_is_left_out_and_what_was_elsewhere_stays() {
        let text = r#"FormerTerms({"/neighbour-0": Last(Term(3)), "/p": Last(Term(4))})"#;
        let mut terms = Tree::read(text);
        without_former_neighbours(&mut terms);
        assert_eq!(terms, Tree::read(r#"FormerTerms({"/p": Last(Term(4))})"#));
    }
}
