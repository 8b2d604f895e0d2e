//! Which fields of the machines hold times, moments and indexes, and how each is treated.
//!
//! Fields are recognised by their names in the `Debug` text. A new or renamed field would be
//! treated by what its name suggests, and a wrong guess merges states without notice. So every
//! field of the small scenes is listed here with its meaning, and no part of the machines may hide
//! a field.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use semaphore_core::sans_io::Candidate;

use super::{IndexOf, Mark, Token, instant, nanos, number_token};
use crate::scene::{Contest, Scene};
use crate::scenes;
use crate::world::{Actor, Client, State, without_pool};

/// This many states of each scene show all its fields.
const MOST_STATES: usize = 200;

#[test]
fn each_field_that_is_not_text_has_a_known_meaning() {
    let mut found = BTreeMap::new();
    for scene in scenes::small() {
        match (scene.contest, scene.is_in_clients()) {
            // `meaning` has the list of semaphores, and of the sessions that are shared.
            (Contest::Semaphore, _) => {}
            (Contest::Election, false) => look::<Candidate>(&scene, &mut found),
            (Contest::Election, true) => look::<Client<Candidate>>(&scene, &mut found),
        }
    }
    let found: Vec<_> = found
        .into_iter()
        .map(|(field, meanings)| (field, Vec::from_iter(meanings).join(" or ")))
        .collect();
    let found: Vec<_> = found
        .iter()
        .map(|(field, meaning)| (field.as_str(), meaning.as_str()))
        .collect();
    assert_eq!(found, KNOWN, "{found:#?}");
}

/// The fields with their types, and how each one is treated.
const KNOWN: &[(&str, &str)] = &[
    ("Acquisition.base", "index of a key"),
    ("Budget.full_at", "due"),
    ("Candidacy.known_since", "moment"),
    ("Candidacy.unresolved", "moment"),
    ("Candidate.timed_at", "nothing"),
    ("Cursor.index", "index of the prefix"),
    ("Cursor.sent_at", "measured from"),
    ("Departure.until", "due"),
    ("ElectionKey.create_index", "index of a key"),
    ("ElectionKey.modify_index", "index of a key"),
    ("Entered", "recent"),
    ("Failed.sent_at", "measured from"),
    ("Failure.until", "due"),
    ("Free", "recent"),
    ("GivenUp.base", "index of a key"),
    ("GivenUp.latest", "nothing"),
    ("GivenUp.until", "due"),
    ("InFlight.sent_at", "measured from"),
    ("Lease.proved_at", "measured from"),
    ("Lease.sent_at", "measured from"),
    ("LockDelay.until", "due"),
    ("Outdated.wanted_from", "due"),
    ("Pause.until", "due"),
    ("Race.until", "due"),
    ("Seen.at", "moment"),
    ("Seen.checked_at", "nothing"),
    ("Seen.index", "index of the prefix"),
    ("TermIndexes.create_index", "index of a key"),
    ("Ticket.since", "nothing"),
    ("Waiting.until", "due"),
];

/// Notes the fields in the texts of this scene's states.
fn look<A: Actor>(scene: &Scene, found: &mut BTreeMap<String, BTreeSet<String>>) {
    let first = State::<A>::new(scene).expect("a scene");
    let mut known = HashSet::from([first.fingerprint(scene)]);
    let mut pending = VecDeque::from([first]);
    while let Some(state) = pending.pop_front() {
        if let Some(text) = state.texts().first() {
            note(&without_pool(text).0, found);
        }
        let next = state.options(scene).into_iter();
        for next in next.filter_map(|action| state.after(scene, action).ok()) {
            if known.len() < MOST_STATES && known.insert(next.fingerprint(scene)) {
                pending.push_back(next);
            }
        }
    }
}

/// Notes each time, moment and index in a text, with its field.
fn note(text: &str, found: &mut BTreeMap<String, BTreeSet<String>>) {
    let mut walk = Walk::default();
    for (at, c) in text.char_indices() {
        let before = &text[..at];
        walk.step(c);
        if walk.is_quoted || c != '(' {
            continue;
        }
        let after = &text[at + 1..];
        let meaning = match walk.opened() {
            "Instant" => instant(&before[..before.len() - "Instant".len()], nanos(after)).map(kind),
            "Moment" => number(Mark::Moment, before, "Moment", after),
            "Index" => number(Mark::Index, before, "Index", after),
            _ => continue,
        };
        let meaning = meaning.unwrap_or("nothing").to_owned();
        found.entry(walk.field()).or_default().insert(meaning);
    }
}

fn number(mark: Mark, before: &str, name: &str, after: &str) -> Option<&'static str> {
    let before = &before[..before.len() - name.len()];
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    let mut tokens = Vec::new();
    let number = after[..digits].parse().unwrap_or(u64::MAX);
    number_token(mark, before, number, &mut tokens);
    tokens.first().copied().map(kind)
}

fn kind(token: Token) -> &'static str {
    match token {
        Token::Index(IndexOf::Lock, _) => "index of the record",
        Token::Index(IndexOf::Key, _) => "index of a key",
        Token::Index(IndexOf::Prefix, _) => "index of the prefix",
        Token::Index(IndexOf::Term, _) => "term",
        Token::Index(IndexOf::Any, _) => "index of any kind",
        Token::Moment(_) => "moment",
        Token::Origin(_) => "measured from",
        Token::Recent(_) => "recent",
        Token::Poll(_) => "poll",
        Token::Timer(_) => "due",
        _ => "another",
    }
}

/// The position in a text in `Debug` format.
#[derive(Default)]
struct Walk {
    /// Brackets that are still open, each with the current field.
    open: Vec<(String, String)>,
    word: String,
    is_quoted: bool,
    is_escaped: bool,
}

impl Walk {
    fn step(&mut self, c: char) {
        if self.is_quoted {
            self.is_quoted = self.is_escaped || c != '"';
            self.is_escaped = !self.is_escaped && c == '\\';
            return;
        }
        match c {
            '"' => self.is_quoted = true,
            '{' | '(' | '[' => {
                let name = core::mem::take(&mut self.word);
                self.open.push((name, String::new()));
                return;
            }
            '}' | ')' | ']' => drop(self.open.pop()),
            ':' => {
                if let Some((_, field)) = self.open.last_mut() {
                    field.clone_from(&self.word);
                }
            }
            ' ' => return,
            _ if c.is_ascii_alphanumeric() || c == '_' => {
                self.word.push(c);
                return;
            }
            _ => {}
        }
        self.word.clear();
    }

    /// What the last bracket belongs to.
    fn opened(&self) -> &str {
        self.open.last().map_or("", |(name, _)| name)
    }

    /// The field, or the variant, that contains the last bracket.
    fn field(&self) -> String {
        let around = self.open.iter().rev().skip(1);
        let mut named = around.filter(|(name, _)| !matches!(name.as_str(), "" | "Some" | "Ok"));
        named.next().map_or_else(String::new, |(name, field)| {
            if field.is_empty() {
                name.clone()
            } else {
                format!("{name}.{field}")
            }
        })
    }
}

/// The parts of machines show all fields: they derive `Debug`, except for a few types.
#[test]
fn nothing_that_a_machine_is_made_of_hides_a_field() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../semaphore-core/src");
    let mut files = Vec::new();
    collect(&source, &mut files);
    assert!(files.len() > 80, "{files:?}");
    let mut by_hand = Vec::new();
    for file in files {
        let name = file.strip_prefix(&source).expect("below it");
        // These files use machines or make requests for them. They contain no parts of machines.
        let is_around = [
            "handle",
            "manage",
            "agent_environment.rs",
            "agent_url.rs",
            "runtime.rs",
            "http.rs",
            "token_source.rs",
            "reloaded.rs",
            "basic_auth.rs",
            "pem.rs",
        ];
        if is_around.iter().any(|it| name.starts_with(it)) {
            continue;
        }
        let text = fs::read_to_string(&file).expect("a source file");
        let shown = text.split("Debug for ").skip(1);
        by_hand.extend(shown.filter_map(|it| it.split_whitespace().next().map(str::to_owned)));
        assert!(
            !text.contains("finish_non_exhaustive"),
            "{}",
            name.display()
        );
    }
    by_hand.sort_unstable();
    // A session's id is shown whole. Notices don't influence requests. Tokens are secret, and no
    // scene has one.
    let known = ["Notices", "SessionId", "Token"];
    assert_eq!(by_hand, known);
    let id = "aaaaaaaa-0000-0000-0000-000000000000";
    let session = semaphore_core::SessionId::new(id).expect("an id");
    assert!(format!("{session:?}").contains(id));
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|it| it == "rs") {
            files.push(path);
        }
    }
}

#[test]
fn a_field_is_found_in_the_text_that_shows_it() {
    let text = r#"Watch { state: Polling(RequestId(3)), at: Some(Instant(2s)), texts: {"a { b: Instant(1s)": Ended { base: Index(4) }} , until: {S: Until(Instant(3s))} }"#;
    let mut found = BTreeMap::new();
    note(text, &mut found);
    let fields: Vec<_> = found.keys().map(String::as_str).collect();
    assert_eq!(fields, ["Ended.base", "Until", "Watch.at"]);
}
