//! How many were served out of order.
//!
//! Of every two acquisitions, one was in the queue first. If the other one was granted first, the
//! pair was served out of order. A contender that overtakes a whole queue counts once for each that
//! it overtook, and a reversed queue counts all pairs. The fencing tokens say who was granted
//! first, since they grow from grant to grant. Of those with the same token, nobody was first.

use crate::contender::{Round, Turn};

/// The share of all pairs that were served out of order. `None` without a pair, or if a turn is
/// unknown.
pub fn out_of_order(rounds: &[Round]) -> Option<f64> {
    let turn = |round: &Round| Some((round.turn?, round.token));
    let mut turns: Vec<(Turn, _)> = rounds.iter().map(turn).collect::<Option<_>>()?;
    // With equal turns, the one that was granted first counts as first.
    turns.sort_unstable();
    let mut served: Vec<_> = turns.into_iter().map(|(_, token)| token).collect();
    let pairs = served.len() * served.len().saturating_sub(1) / 2;
    if pairs == 0 {
        return None;
    }
    let inverted = sort_counting(&mut served);
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    Some(inverted as f64 / pairs as f64)
}

/// Sorts by merging, and returns how many pairs were in the wrong order.
fn sort_counting<T: Copy + Ord>(items: &mut [T]) -> usize {
    if items.len() < 2 {
        return 0;
    }
    let (left, right) = items.split_at_mut(items.len() / 2);
    let mut inverted = sort_counting(left) + sort_counting(right);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (&*left, &*right);
    while let ([first, others @ ..], [second, rest @ ..]) = (left, right) {
        if second < first {
            // It overtakes all that are left of the left half.
            inverted += left.len();
            merged.push(*second);
            right = rest;
        } else {
            merged.push(*first);
            left = others;
        }
    }
    merged.extend_from_slice(left);
    merged.extend_from_slice(right);
    items.copy_from_slice(&merged);
    inverted
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use semaphore_core::FencingToken;

    use super::*;

    /// The first to come was granted the first of these tokens, and so on.
    fn served(tokens: &[u64]) -> Vec<Round> {
        let round = |(index, token): (u64, &u64)| Round {
            turn: Some(Turn::Entered(index)),
            token: FencingToken(*token),
            wait: Duration::ZERO,
            held: Duration::ZERO,
            release: Duration::ZERO,
        };
        (0..).zip(tokens).map(round).collect()
    }

    #[test]
    fn a_queue_served_in_order_has_no_pair_out_of_it() {
        assert_eq!(out_of_order(&served(&[1, 2, 2, 3, 9])), Some(0.0));
    }

    #[test]
    fn a_queue_served_backwards_is_all_out_of_order() {
        assert_eq!(out_of_order(&served(&[5, 4, 3, 2, 1])), Some(1.0));
    }

    #[test]
    fn one_who_overtakes_the_whole_queue_is_counted_for_each() {
        assert_eq!(out_of_order(&served(&[2, 3, 4, 5, 1])), Some(0.4));
    }

    #[test]
    fn those_who_came_together_are_in_order_either_way() {
        let mut rounds = served(&[3, 1]);
        rounds[1].turn = rounds[0].turn;
        assert_eq!(out_of_order(&rounds), Some(0.0));
    }

    #[test]
    fn with_a_turn_that_is_not_known_nothing_is_told() {
        let mut rounds = served(&[1, 2, 3]);
        rounds[1].turn = None;
        assert_eq!(out_of_order(&rounds), None);
    }

    #[test]
    fn fewer_than_two_are_no_pair() {
        assert_eq!(out_of_order(&served(&[1])), None);
        assert_eq!(out_of_order(&[]), None);
    }

    #[test]
    fn merging_counts_what_comparing_each_with_each_counts() {
        let mut random = fastrand::Rng::with_seed(1);
        for length in 0..40 {
            let mut items: Vec<_> = (0..length).map(|_| random.u8(..20)).collect();
            let inverted: usize = (0..length)
                .map(|first| {
                    let later = items[first..].iter();
                    later.filter(|item| **item < items[first]).count()
                })
                .sum();
            assert_eq!(sort_counting(&mut items), inverted);
            assert!(items.is_sorted());
        }
    }
}
