//! The parts of a household's text that decide what it does next. The texts of its members are shown
//! separately.

use super::client::NEIGHBOURS;
use super::shown::{Shown, cut, without_requests};
use crate::canon::tokens;

/// Adds the household to its contender.
pub(super) fn shown(text: &str, contender: Shown) -> Shown {
    let owners = owners(text);
    let text = without_former_neighbours(&without_readers(text));
    // The list of what was sent is in the owners.
    let (text, _) = cut(&text, "traffic: Traffic {", "}, rng: ");
    let (text, pool) = without_requests(&text);
    let text = without_random_states(&text);
    let mut shown = Shown {
        tokens: contender.tokens,
        waiting: Vec::new(),
    };
    shown.tokens.extend(tokens(&text));
    for (id, owner, own) in owners {
        let tokens = match owner {
            Owner::Contender => {
                let mut waiting = contender.waiting.iter();
                let found = waiting.find(|(known, _)| *known == own);
                found.map(|(_, tokens)| tokens.clone())
            }
            Owner::Pool => {
                let mut waiting = pool.iter();
                let found = waiting.find(|(known, _)| *known == own);
                found.map(|(_, entry)| tokens(entry))
            }
            Owner::Another => None,
        };
        shown.waiting.extend(tokens.map(|tokens| (id, tokens)));
    }
    shown
}

/// The sender of a request.
enum Owner {
    Contender,
    Pool,
    Another,
}

/// The requests under way, with their senders and the numbers that they have there.
fn owners(text: &str) -> Vec<(u64, Owner, u64)> {
    let (_, sent) = cut(text, "sent: {", "}, ids: {");
    // Each entry has two ids: the household's, and the sender's.
    let mut entries = sent.split("RequestId(").skip(1);
    let mut owners = Vec::new();
    while let (Some(first), Some(second)) = (entries.next(), entries.next()) {
        let Some((id, from)) = first.split_once("): (") else {
            break;
        };
        let owner = if from.starts_with("Member(MemberNo(0))") {
            Owner::Contender
        } else if from.starts_with("Sessions(") {
            Owner::Pool
        } else {
            Owner::Another
        };
        let own = second.split_once(')').and_then(|(own, _)| own.parse().ok());
        owners.extend(id.parse().ok().zip(own).map(|(id, own)| (id, owner, own)));
    }
    owners
}

/// So few members poll for themselves. It only matters which of them were told so.
fn without_readers(text: &str) -> String {
    let (mut kept, readers) = cut(text, "checks: Checks {", "}], most_polls: ");
    let told = readers.split("told: {").skip(1);
    for told in told.filter_map(|it| it.split('}').next()) {
        kept.push_str(told);
        kept.push(';');
    }
    kept
}

/// What a session had at a neighbour's place has no effect: no neighbour comes twice.
fn without_former_neighbours(text: &str) -> String {
    let mut parts = text.split(NEIGHBOURS);
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let after = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_former = after.starts_with("\": (") || after.starts_with("\": Last(");
        let after = part.split_once("))").filter(|_| is_former);
        kept.push_str(after.map_or(part, |(_, after)| after));
    }
    kept
}

/// Each step draws from the same seed.
fn without_random_states(text: &str) -> String {
    let mut parts = text.split("rng: Rng(");
    let first = parts.next().unwrap_or_default().to_owned();
    let after = parts.map(|it| it.split_once(')').map_or(it, |(_, after)| after));
    after.fold(first, |all, after| all + after)
}

#[cfg(test)]
mod tests {
    use semaphore_core::sans_io::{Candidate, Instant, Machine as _};

    use super::*;
    use crate::scene::Scene;
    use crate::world::Client;
    use crate::world::actor::Actor as _;

    #[test]
    fn the_parts_without_an_effect_are_left_out_and_each_request_has_its_sender() {
        let scene = Scene::election(&[1]).in_clients();
        let mut client = Client::<Candidate>::new(&scene, 0, 1).expect("a client");
        let now = Instant::default();
        client.ask(now);
        assert!(client.poll_transmit(now).is_none(), "the neighbour comes");
        let [contender, household] = &client.texts()[..] else {
            panic!("two texts");
        };
        assert!(contender.starts_with("Candidate { "), "{contender}");
        let sent: Vec<_> = owners(household).iter().map(|(id, ..)| *id).collect();
        assert!(!sent.is_empty(), "{household}");
        for id in sent {
            assert!(household.contains(&format!("RequestId({id}): (")), "{id}");
        }
        let kept = without_random_states(&without_readers(household));
        for gone in ["whom: Holders", "whom: Waiters", "rng: Rng("] {
            assert!(household.contains(gone) && !kept.contains(gone), "{gone}");
        }
    }

    #[test]
    fn what_was_at_the_neighbours_place_is_left_out_and_who_is_there_stays() {
        let text = r#"tenants: {"neighbour-0": T, "p": T}, former_keys: {"neighbour-0": (Key(Index(3)), Instant(1s)), "p": (Key(Index(4)), Instant(2s))}"#;
        let kept = without_former_neighbours(text);
        assert!(kept.contains(r#"": T, "p": T}"#), "{kept}");
        assert!(
            !kept.contains("Index(3)") && kept.contains("Index(4)"),
            "{kept}"
        );
    }
}
