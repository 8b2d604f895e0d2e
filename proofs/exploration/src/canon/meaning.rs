//! What the times, moments and indexes of a machine mean.
//!
//! A field is named after the struct or the variant that contains it, with its type. What is not
//! listed here is taken as it is, so no two states are the same because of it, and a test complains.

use core::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use super::text::{IdOf, IndexOf, append, nanos, session};
use super::{Token, Tree};

/// What a value means for what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Nothing,
    /// Something is due so long after it. It does not matter how long ago that was.
    Due(Duration),
    /// The same. If there is none, that is as if it were over.
    Over(Duration),
    /// Something is measured from it, up to so long after it.
    Since(Duration),
    /// It only matters which of the reads under way were sent before.
    Moment,
    Index(IndexOf),
    Position(IndexOf),
    /// It is worked out together with others: [`crate::world`] says how.
    Together,
}

const SECOND: Duration = Duration::from_secs(1);
const AT_ONCE: Duration = Duration::ZERO;
/// A session's TTL, which is as long as its lock delay.
const LEASE: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_secs(5);

/// Sorted by name.
pub(super) const MEANINGS: &[(&str, Meaning)] = &[
    // So many reads are allowed at once that no scene gets there.
    ("Budget.full_at: Instant", Meaning::Nothing),
    // A slot stays for less than a second.
    ("Contender.slot_since: Instant", Meaning::Since(SECOND)),
    // Who came later does not fail by it.
    ("Failed.sent_at: Instant", Meaning::Since(LEASE)),
    ("Gone.not_before: Instant", Meaning::Due(AT_ONCE)),
    ("Gone.retry_at: Instant", Meaning::Due(AT_ONCE)),
    ("Gone.taken_at: Index", Meaning::Index(IndexOf::Key)),
    // The key is polled after T/15.
    ("Holding.since: Instant", Meaning::Since(SECOND)),
    ("InFlight.sent_at: Instant", Meaning::Since(LEASE)),
    ("Key.created: Index", Meaning::Index(IndexOf::Key)),
    ("Key.index: Index", Meaning::Index(IndexOf::Key)),
    // Only tries ask for it, and no scene has one.
    ("Known.listed: Moment", Meaning::Nothing),
    ("Known.shown: Moment", Meaning::Together),
    ("KnownRecord.as_of: Index", Meaning::Position(IndexOf::Lock)),
    ("KnownRecord.index: Index", Meaning::Index(IndexOf::Lock)),
    ("KnownRecord.seen: Moment", Meaning::Moment),
    ("KnownRecord.seen_at: Instant", Meaning::Together),
    ("Lease.proved_at: Instant", Meaning::Since(LEASE)),
    ("Lease.sent_at: Instant", Meaning::Since(LEASE)),
    // LATE.
    (
        "Leaving.parked_at: Instant",
        Meaning::Due(Duration::from_secs(25)),
    ),
    (
        "Leaving.refused_since: Instant",
        Meaning::Since(Duration::from_secs(30)),
    ),
    ("Line.listed_at: Instant", Meaning::Together),
    // Alone is who has not seen anybody for as long as a poll takes.
    ("Line.others_at: Instant", Meaning::Over(POLL)),
    ("Line.shown: Index", Meaning::Together),
    ("Listed.creation: Instant", Meaning::Due(AT_ONCE)),
    ("Listed.destruction: Instant", Meaning::Due(AT_ONCE)),
    ("Listed.end: Instant", Meaning::Due(AT_ONCE)),
    ("Listed.request: Instant", Meaning::Due(AT_ONCE)),
    ("Listed.unknown: Instant", Meaning::Since(LEASE)),
    ("MachineSet.timed_at: Instant", Meaning::Nothing),
    ("Orphans.ends: Instant", Meaning::Due(AT_ONCE)),
    ("Orphans.rests_until: Instant", Meaning::Over(AT_ONCE)),
    ("Part.expected: Index", Meaning::Index(IndexOf::Key)),
    // The time of the last look at the timers is only compared with past timers.
    ("Participant.timed_at: Instant", Meaning::Nothing),
    ("Pause.until: Instant", Meaning::Over(AT_ONCE)),
    ("Poll.from: Index", Meaning::Together),
    ("Poll.sent_at: Instant", Meaning::Together),
    ("Pool.timed_at: Instant", Meaning::Nothing),
    ("Proof.sent_at: Instant", Meaning::Since(LEASE)),
    // A round is due after T/15 at the latest.
    ("Proofs.answered: Instant", Meaning::Since(SECOND)),
    ("Proofs.began: Instant", Meaning::Since(SECOND)),
    ("Proofs.sent: Instant", Meaning::Since(SECOND)),
    (
        "Reads.keyless_at: Instant",
        Meaning::Over(Duration::from_millis(500)),
    ),
    ("Reads.read: Instant", Meaning::Since(LEASE)),
    // It is the number of the request.
    ("Reads.read: Moment", Meaning::Nothing),
    ("RefusedSince: Instant", Meaning::Since(LEASE)),
    ("Resident.timer: Instant", Meaning::Due(AT_ONCE)),
    ("Room.since: Instant", Meaning::Together),
    // A waiter's session is renewed after T/3 at the latest.
    ("Session.sent_at: Instant", Meaning::Since(POLL)),
    ("Session.unknown_since: Instant", Meaning::Since(LEASE)),
    ("Step.composed: Moment", Meaning::Together),
    ("Step.record: Index", Meaning::Index(IndexOf::Lock)),
    (
        "TermIndexes.create_index: Index",
        Meaning::Index(IndexOf::Key),
    ),
    // How long somebody has waited only appears in errors.
    ("Ticket.since: Instant", Meaning::Nothing),
    ("Waiter.created: Index", Meaning::Index(IndexOf::Key)),
    ("Waiter.modified: Index", Meaning::Index(IndexOf::Key)),
    // A holder's key is polled T/15 later.
    ("Writes.asked_at: Instant", Meaning::Over(SECOND)),
    ("Writes.ended: Moment", Meaning::Moment),
    // HURRY.
    ("Writes.step: Instant", Meaning::Due(SECOND)),
];

/// What this field means, if that is known.
pub(super) fn meaning_of(field: &str) -> Option<Meaning> {
    let found = MEANINGS.binary_search_by_key(&field, |(name, _)| name);
    found.ok().map(|at| MEANINGS[at].1)
}

/// The nanoseconds of an `Instant` or a duration.
pub(crate) fn nanos_of(tree: &Tree<'_>) -> Option<u64> {
    match tree {
        Tree::Atom(text) => Some(nanos(text)),
        Tree::Group(_) => nanos_of(tree.inner()?),
        Tree::Token(_) => None,
    }
}

/// The tokens of a tree.
pub(crate) fn fingerprinted(tree: &Tree<'_>) -> Vec<Token> {
    let mut writer = Writer::default();
    writer.value(tree, Place::default());
    writer.flush();
    writer.tokens
}

/// What a value is in.
#[derive(Clone, Copy, Default)]
struct Place<'t> {
    group: &'t str,
    field: &'t str,
}

impl Place<'_> {
    fn meaning(self, what: &str) -> Option<Meaning> {
        let Self { group, field } = self;
        meaning_of(&if field.is_empty() {
            format!("{group}: {what}")
        } else {
            format!("{group}.{field}: {what}")
        })
    }
}

#[derive(Default)]
struct Writer {
    text: Vec<u8>,
    tokens: Vec<Token>,
}

impl Writer {
    fn value<'t>(&mut self, tree: &'t Tree<'t>, place: Place<'t>) {
        match tree {
            Tree::Token(token) => self.token(*token),
            Tree::Atom(text) if (place.group, place.field) == ("Holder", "session") => {
                let Token::Session(number) = session(text.trim_matches('"')) else {
                    return;
                };
                self.token(Token::Holder(number));
            }
            // Sessions may be inside of it.
            Tree::Atom(text) if text.starts_with('"') => {
                self.flush();
                append(text, &mut self.tokens);
            }
            Tree::Atom(text) => self.text.extend(text.as_bytes()),
            Tree::Group(group) => {
                if let Some(token) = special(tree, place) {
                    self.token(token);
                    return;
                }
                self.text.extend(group.name.as_bytes());
                self.text.push(b'(');
                let is_named = !matches!(group.name, "" | "Some" | "Ok" | "Err");
                for item in &group.items {
                    let mut within = if is_named {
                        Place {
                            group: group.name,
                            field: "",
                        }
                    } else {
                        place
                    };
                    match &item.key {
                        Some(Tree::Atom(key)) if is_named => {
                            within.field = key;
                            self.text.extend(key.as_bytes());
                        }
                        Some(key) => self.value(key, within),
                        None => {}
                    }
                    self.text.push(b':');
                    if let Some(token) = over(&item.value, within) {
                        self.token(token);
                    } else {
                        self.value(&item.value, within);
                    }
                    self.text.push(b',');
                }
                self.text.push(b')');
            }
        }
    }

    fn token(&mut self, token: Token) {
        self.flush();
        self.tokens.push(token);
    }

    fn flush(&mut self) {
        let text = core::mem::take(&mut self.text);
        self.tokens.push(Token::Text(xxh3_64(&text)));
    }
}

/// What is the same if it is not there and if it is over.
fn over(tree: &Tree<'_>, place: Place<'_>) -> Option<Token> {
    let is_optional = matches!(tree.name(), "None" | "Some");
    let Some(Meaning::Over(later)) = is_optional.then(|| place.meaning("Instant")).flatten() else {
        return None;
    };
    let at = tree.inner().and_then(nanos_of);
    Some(Token::Timer(at.map_or(0, |at| at + as_nanos(later))))
}

/// A time, a moment, an index or a number that is counted up.
fn special(tree: &Tree<'_>, place: Place<'_>) -> Option<Token> {
    let number = || tree.number().unwrap_or(u64::MAX);
    let id = |of| Some(Token::Id(of, number()));
    let (what, number) = match tree.name() {
        "RequestId" => return id(IdOf::Request),
        "CommandId" => return id(IdOf::Command),
        "ContenderNo" => return id(IdOf::Contender),
        "LoanNo" => return id(IdOf::Loan),
        "SessionNo" => return id(IdOf::Session),
        "Instant" => ("Instant", nanos_of(tree).unwrap_or(u64::MAX)),
        "Moment" => ("Moment", number()),
        "Index" => ("Index", number()),
        _ => return None,
    };
    let due = |later: Duration| Token::Timer(number.saturating_add(as_nanos(later)));
    Some(match place.meaning(what) {
        // It is like no other.
        None | Some(Meaning::Together) => Token::Text(number),
        Some(Meaning::Nothing) => Token::Text(0),
        Some(Meaning::Due(later) | Meaning::Over(later)) => due(later),
        Some(Meaning::Since(longest)) => Token::Since(number, as_nanos(longest)),
        Some(Meaning::Moment) => Token::Moment(number),
        Some(Meaning::Index(of)) => Token::Index(of, number),
        Some(Meaning::Position(of)) => Token::Position(of, number),
    })
}

fn as_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet, VecDeque};

    use semaphore_core::sans_io::{Candidate, Participant};

    use super::*;
    use crate::scene::{Contest, Fault, Scene};
    use crate::scenes;
    use crate::world::{Actor, Client, State};

    /// This many states of each scene show all its fields.
    const MOST_STATES: usize = 300;

    /// The first states of the small scenes may not show these fields.
    const RARE: &[(&str, &str)] = &[
        (
            "Gone { not_before: Instant(3ns) }",
            "Gone.not_before: Instant",
        ),
        ("Gone { retry_at: Instant(3ns) }", "Gone.retry_at: Instant"),
        ("Gone { taken_at: Some(Index(3)) }", "Gone.taken_at: Index"),
        (
            "Leaving { parked_at: Some(Instant(3ns)) }",
            "Leaving.parked_at: Instant",
        ),
        (
            "Leaving { refused_since: Some(Instant(3ns)) }",
            "Leaving.refused_since: Instant",
        ),
        (
            "Orphans { rests_until: Some(Instant(3ns)) }",
            "Orphans.rests_until: Instant",
        ),
        (
            "Reads { keyless_at: Some(Instant(3ns)) }",
            "Reads.keyless_at: Instant",
        ),
        (
            "Services { known: {Reads: RefusedSince(Instant(3ns))} }",
            "RefusedSince: Instant",
        ),
    ];

    #[test]
    fn meanings_are_sorted_by_name() {
        assert!(MEANINGS.is_sorted_by_key(|(name, _)| name));
    }

    #[test]
    fn each_time_moment_and_index_of_semaphores_and_of_sessions_has_a_known_meaning() {
        let mut found = BTreeSet::new();
        let paused = Scene::new(1, &[1]).with_faults(1, &[Fault::Pause]);
        let delayed = Scene::new(1, &[1]).with_faults(1, &[Fault::Delay]);
        for scene in scenes::small().into_iter().chain([paused, delayed]) {
            match (scene.contest, scene.is_in_clients()) {
                (Contest::Semaphore, false) => look::<Participant>(&scene, 0, &mut found),
                (Contest::Semaphore, true) => look::<Client<Participant>>(&scene, 0, &mut found),
                // The list of candidates is beside `text`. Their sessions come after them.
                (Contest::Election, true) => look::<Client<Candidate>>(&scene, 1, &mut found),
                (Contest::Election, false) => {}
            }
        }
        let known: BTreeSet<_> = MEANINGS
            .iter()
            .map(|(name, _)| (*name).to_owned())
            .collect();
        for (text, _) in RARE {
            collect(&Tree::read(text), ("", ""), &mut found);
        }
        let unknown: Vec<_> = found.difference(&known).collect();
        let unseen: Vec<_> = known.difference(&found).collect();
        assert!(
            unknown.is_empty() && unseen.is_empty(),
            "{unknown:?}, never: {unseen:?}"
        );
    }

    #[test]
    fn what_is_rare_is_found_in_a_text_that_shows_it() {
        for (text, field) in RARE {
            let mut found = BTreeSet::new();
            collect(&Tree::read(text), ("", ""), &mut found);
            assert!(found.iter().eq([*field]), "{found:?}");
        }
    }

    /// Notes the fields in the texts of this scene's states, from this one on.
    fn look<A: Actor>(scene: &Scene, first_text: usize, found: &mut BTreeSet<String>) {
        let first = State::<A>::new(scene).expect("a scene");
        let mut known = HashSet::from([first.fingerprint(scene)]);
        let mut pending = VecDeque::from([first]);
        while let Some(state) = pending.pop_front() {
            for text in state.texts().iter().skip(first_text) {
                collect(&Tree::read(text), ("", ""), found);
            }
            let next = state.options(scene).into_iter();
            for next in next.filter_map(|action| state.after(scene, action).ok()) {
                if known.len() < MOST_STATES && known.insert(next.fingerprint(scene)) {
                    pending.push_back(next);
                }
            }
        }
    }

    /// What is shown by other fields, or by other lists.
    const CUT: &[&str] = &[
        "settings", "checks", "waits", "agenda", "ends", "timers", "traffic", "told", "places",
    ];

    fn collect(tree: &Tree<'_>, (group, field): (&str, &str), found: &mut BTreeSet<String>) {
        if CUT.contains(&field) && group != "Orphans" {
            return;
        }
        if matches!(tree.name(), "Instant" | "Moment" | "Index") {
            let dot = if field.is_empty() { "" } else { "." };
            found.insert(format!("{group}{dot}{field}: {}", tree.name()));
            return;
        }
        let is_named = !matches!(tree.name(), "" | "Some" | "Ok" | "Err");
        for item in tree.items() {
            let place = match &item.key {
                Some(Tree::Atom(key)) if is_named => (tree.name(), *key),
                _ if is_named => (tree.name(), ""),
                _ => (group, field),
            };
            collect(&item.value, place, found);
        }
    }
}
