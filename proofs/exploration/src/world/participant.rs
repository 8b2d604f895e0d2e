//! The parts of a participant that decide what it does next.
//!
//! What is left out, and why:
//! - settings, and the state of the random numbers: they are the same in every step,
//! - lists that only repeat what others say, in another order,
//! - numbers that only count up. Whatever the next one is, it is higher than all before. How often a
//!   key was touched only makes its flags differ from those before,
//! - when the majority last saw a session alive, unless somebody holds with it: the next grant brings
//!   a newer proof,
//! - what Consul has served before: no scene's Consul refuses what it has served,
//! - what only tells whose turn it is, if no caller waits any more.

use super::pool;
use super::shown::Shown;
use crate::canon::{IndexOf, Item, Token, Tree, fingerprinted, nanos_of, read, untouched};

/// A participant. `may_wait`: whether a caller of it waits, or will.
pub(super) fn shown(text: &str, may_wait: bool) -> Shown {
    let mut tree = Tree::read(text);
    let waiting = simplify(&mut tree, may_wait);
    Shown {
        tokens: fingerprinted(&tree),
        waiting,
    }
}

/// Leaves only what decides. Returns who waits for the answer to each request.
fn simplify(tree: &mut Tree<'_>, may_wait: bool) -> Vec<(u64, Vec<Token>)> {
    tree.cut(&["settings", "rng", "timed_at"]);
    let mut waiting: Vec<_> = requests(tree)
        .into_iter()
        .map(|(id, entry)| {
            let mut tokens = fingerprinted(&entry);
            // Only of a read it matters when it was sent.
            if entry.field("from").map(Tree::name) == Some("Read") {
                tokens.push(read("Read", id));
            }
            (id, tokens)
        })
        .collect();
    contenders(tree);
    by_first_mention(tree);
    if !may_wait {
        turns(tree);
    }
    knowledge(tree);
    step(tree);
    tree.each("Pause", &mut backoff);
    // It repeats the order of the sessions' names.
    tree.each("Holders", &mut |holders| holders.cut(&["sorted"]));
    if let Some(lone) = tree.at_mut(&["lone"]).and_then(Tree::inner_mut) {
        waiting.extend(pool::own(lone));
    }
    callers(tree);
    waiting
}

/// The requests under way, by their numbers.
pub(super) fn requests<'t>(tree: &mut Tree<'t>) -> Vec<(u64, Tree<'t>)> {
    let Some(requests) = tree.field_mut("requests") else {
        return Vec::new();
    };
    requests.cut(&["next_id", "steps", "polls"]);
    let Tree::Group(in_flight) = requests.take(&["in_flight"]) else {
        return Vec::new();
    };
    if let Some(services) = requests.field_mut("services") {
        served(services);
    }
    let entries = in_flight.items.into_iter();
    let entries = entries.filter_map(|it| Some((it.key?.number()?, it.value)));
    let mut entries: Vec<_> = entries.collect();
    for (_, entry) in &mut entries {
        // The poll itself says when it was sent.
        if entry.field("from").map(Tree::name) == Some("Poll") {
            entry.cut(&["sent_at"]);
        }
    }
    entries
}

/// Only a refusal makes it matter what was served before.
fn served(services: &mut Tree<'_>) {
    let known = services.field("known").map_or(&[][..], Tree::items);
    if known.iter().all(|it| it.value.name() == "Served") {
        services.cut(&["known"]);
    }
}

/// Leaves out what only tells whose turn it is.
fn turns(tree: &mut Tree<'_>) {
    if let Some(record) = tree.at_mut(&["known", "record"]) {
        record.cut(&["room"]);
    }
    if let Some(line) = tree.at_mut(&["known", "line"]) {
        line.cut(&["listed_at", "others_at"]);
    }
}

fn contenders(tree: &mut Tree<'_>) {
    let Some(ours) = tree.field_mut("ours") else {
        return;
    };
    ours.cut(&["by_session", "by_stand", "ends", "named"]);
    ours.each("Contender", &mut |contender| {
        contender.cut(&["touches"]);
        contender.each("Key", &mut |key| key.cut(&["lock_index"]));
        let course = contender.field("course").map(Tree::name);
        let holds = course.is_none_or(|it| it == "Holding");
        contender.each("Lease", &mut |lease| {
            if !holds {
                lease.cut(&["proved_at"]);
            }
        });
    });
}

/// The order of sessions' names has no meaning: those of holders without a key are put into the
/// order in which the rest mentions them.
fn by_first_mention(tree: &mut Tree<'_>) {
    let mut mentioned = Vec::new();
    for part in [&["ours"][..], &["known", "line"], &["known", "record"]] {
        if let Some(part) = tree.at(part) {
            names(part, &mut mentioned);
        }
    }
    let Some(missing) = tree.at_mut(&["known", "missing"]) else {
        return;
    };
    for names in ["seen", "gone", "keyless", "suspects"] {
        let items = missing.field_mut(names).and_then(Tree::items_mut);
        let place = |item: &Item<'_>| {
            let name = item.key.as_ref().unwrap_or(&item.value).name();
            let place = mentioned.iter().position(|it| *it == name);
            place.unwrap_or(usize::MAX)
        };
        if let Some(items) = items {
            items.sort_by_key(place);
        }
    }
}

/// The quoted texts in a part, in their order.
fn names<'t>(tree: &Tree<'t>, found: &mut Vec<&'t str>) {
    if let Tree::Atom(text) = tree
        && text.starts_with('"')
    {
        found.push(text);
    }
    for item in tree.items() {
        if let Some(key) = &item.key {
            names(key, found);
        }
        names(&item.value, found);
    }
}

fn knowledge(tree: &mut Tree<'_>) {
    let round_trip = tree.at(&["reads", "round_trip"]).and_then(nanos_of);
    if let Some(record) = tree.at_mut(&["known", "record"]) {
        // A record is fresh for as long as the last read took.
        let seen_at = record.field("seen_at").and_then(nanos_of);
        let fresh_until = seen_at.unwrap_or(0) + round_trip.unwrap_or(0) + 1;
        record.put("seen_at", Tree::Token(Token::Timer(fresh_until)));
        record.each("Room", &mut |room| {
            let since = room.field("since").and_then(nanos_of);
            let patience = room.field("patience").and_then(nanos_of);
            let until = since.unwrap_or(0) + patience.unwrap_or(0);
            room.cut(&["patience"]);
            room.put("since", Tree::Token(Token::Timer(until)));
        });
    }
    if let Some(line) = tree.at_mut(&["known", "line"]) {
        line.cut(&["places"]);
        let waiters = line.field("waiters").map_or(&[][..], Tree::items);
        // A list is too old after the time of a poll for each who waits ahead, and one more.
        let longest = POLL * (waiters.len() as u64 + 1);
        let is_foreign = |it: &Tree<'_>| it.field("is_foreign").map(Tree::name) == Some("true");
        let has_foreign = waiters.iter().any(|it| is_foreign(&it.value));
        if let Some(shown) = line.field_mut("shown") {
            // Only beside waiters of another program the prefix is polled.
            if let Some(pair) = shown.inner_mut() {
                let index = pair.inner().and_then(Tree::number).unwrap_or(0);
                let index = has_foreign.then_some(Token::Index(IndexOf::Prefix, index));
                *pair = index.map_or(Tree::NOTHING, Tree::Token);
            }
        }
        // If there was none, that is as if it were too old.
        let listed_at = line.at(&["listed_at"]).and_then(Tree::inner);
        let old_at = listed_at.and_then(nanos_of).map_or(0, |at| at + longest);
        line.put("listed_at", Tree::Token(Token::Timer(old_at)));
    }
    tree.each("Poll", &mut |poll| {
        let target = poll.field("target").map(Tree::name);
        let from = poll.field("from").and_then(Tree::number).unwrap_or(0);
        let from = match target {
            Some("Record") => Token::Position(IndexOf::Lock, from),
            Some("Prefix") => Token::Index(IndexOf::Prefix, from),
            _ => Token::Position(IndexOf::Key, from),
        };
        let sent_at = poll.field("sent_at").and_then(nanos_of).unwrap_or(0);
        let sent_at = match target {
            // A holder's poll lasts longer than anything else in a scene.
            Some("Own") => Tree::NOTHING,
            _ => Tree::Token(Token::Since(sent_at, POLL)),
        };
        poll.put("from", Tree::Token(from));
        poll.put("sent_at", sent_at);
    });
}

const POLL: u64 = 5_000_000_000;

fn step(tree: &mut Tree<'_>) {
    let tickets: Vec<u64> = tree
        .at(&["callers", "queue", "tickets"])
        .map_or(&[][..], Tree::items)
        .iter()
        .filter_map(|it| it.key.as_ref()?.number())
        .collect();
    // It shows all that concerns those who had come before.
    if let Some(known) = tree.field_mut("known") {
        let shown = known.field("shown").and_then(Tree::number).unwrap_or(0);
        let before = tickets.iter().filter(|it| **it <= shown).count();
        known.put("shown", count(before as u64, u64::MAX));
    }
    let Some(writes) = tree.field_mut("writes") else {
        return;
    };
    writes.each("Step", &mut |step| {
        // It serves those who had come before.
        let composed = step.field("composed").and_then(Tree::number).unwrap_or(0);
        let served = tickets.iter().filter(|it| **it <= composed).count();
        step.put("composed", count(served as u64, u64::MAX));
        step.each("Part", &mut |part| {
            let flags = part.field("flags").and_then(Tree::number);
            let flags = untouched(flags.unwrap_or(0));
            part.put("flags", count(flags, u64::MAX));
        });
    });
    // More refusals in a row change nothing.
    for (counter, most) in [("refused", 5), ("unfounded", 3)] {
        let times = writes.field(counter).and_then(Tree::number);
        writes.put(counter, count(times.unwrap_or(0), most));
    }
}

/// Pauses grow up to the longest.
pub(super) fn backoff(pause: &mut Tree<'_>) {
    let Some(backoff) = pause.field_mut("backoff") else {
        return;
    };
    let nanos = |field| backoff.field(field).and_then(nanos_of).unwrap_or(0);
    let (base, cap) = (nanos("base"), nanos("cap"));
    let failures = backoff.field("failures").and_then(Tree::number);
    let most = (0..16).find(|it| base << it >= cap).unwrap_or(16);
    *backoff = count(failures.unwrap_or(0), most);
}

fn callers(tree: &mut Tree<'_>) {
    if let Some(callers) = tree.field_mut("callers") {
        callers.cut(&["notices"]);
        // What a holder is told about a loss decides nothing.
        callers.each("LeaseExpired", &mut |lost| lost.cut(&["unsent"]));
    }
}

/// A number that matters up to `most`.
fn count<'t>(number: u64, most: u64) -> Tree<'t> {
    Tree::Token(Token::Text(number.min(most)))
}
