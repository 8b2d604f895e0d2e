//! When two states are the same: nothing that can follow tells them apart.
//!
//! Each part of a state is shown as text, all of it, and taken apart into [`Token`]s. What only means
//! something beside others is then put in its place among them:
//! - indexes of Consul's by their rank among those that they are compared with, in the whole state: those
//!   of the record, those of contender keys, those of the prefix,
//! - sessions by their rank in the whole state (they are named in the order in which they were created),
//! - the ids that a participant gives by their rank among its ids of that kind,
//! - when a participant sent its reads and when it learned something by how many changes from the one
//!   to the other came before: only that is asked, [`Order`](text::Order) says why,
//! - times ahead by their distance, in ticks: time stops only there,
//! - times past that something is measured from by their distance, up to the longest that matters.
//!
//! What nothing depends on any more is left out, as each kind of token says.
//!
//! Participants are interchangeable, so their parts are sorted. What is left is hashed to 128 bits: among
//! ten million states the chance that any two are taken for one is below 10⁻²⁴.

mod text;

use core::time::Duration;

use semaphore_core::Instant;
use xxhash_rust::xxh3::xxh3_128;

use self::text::{IdOf, IndexOf, Order};
pub(crate) use self::text::{Token, tokens};
use crate::clock::Clock;

/// The tokens of one state, participant by participant.
#[derive(Debug, Default)]
pub(crate) struct Parts<'a> {
    /// What belongs to no participant.
    pub(crate) common: Vec<&'a [Token]>,
    pub(crate) nodes: Vec<NodeParts<'a>>,
}

/// The tokens of one participant.
#[derive(Debug, Default)]
pub(crate) struct NodeParts<'a> {
    pub(crate) own: Vec<&'a [Token]>,
    /// Its messages, in no order.
    pub(crate) messages: Vec<&'a [Token]>,
}

/// A state's name.
pub(crate) fn fingerprint(parts: &Parts<'_>, now: Instant, tick: Duration) -> u128 {
    let ranks = Ranks::new(parts);
    let scale = Scale {
        clock: Clock::new(now, tick),
        ranks: &ranks,
    };
    let mut hashes: Vec<u128> = parts
        .nodes
        .iter()
        .map(|node| node.fingerprint(&scale))
        .collect();
    hashes.sort_unstable();
    let nobody = Local::default();
    let mut written = Written::default();
    for part in &parts.common {
        written.part(part, &scale, &nobody);
    }
    for hash in hashes {
        written.0.extend(hash.to_le_bytes());
    }
    xxh3_128(&written.0)
}

impl NodeParts<'_> {
    fn all(&self) -> impl Iterator<Item = &Token> {
        self.own.iter().chain(&self.messages).copied().flatten()
    }

    fn fingerprint(&self, scale: &Scale<'_>) -> u128 {
        let local = Local::new(self);
        let mut messages: Vec<u128> = self
            .messages
            .iter()
            .map(|message| {
                let mut written = Written::default();
                written.part(message, scale, &local);
                xxh3_128(&written.0)
            })
            .collect();
        messages.sort_unstable();
        let mut written = Written::default();
        for part in &self.own {
            written.part(part, scale, &local);
        }
        for message in messages {
            written.0.extend(message.to_le_bytes());
        }
        xxh3_128(&written.0)
    }
}

/// What is ranked in the whole state.
struct Ranks {
    locks: Vec<u64>,
    keys: Vec<u64>,
    prefixes: Vec<u64>,
    sessions: Vec<u64>,
}

impl Ranks {
    fn new(parts: &Parts<'_>) -> Self {
        // Zero stands for no index and stays itself.
        let mut ranks = Self {
            locks: vec![0],
            keys: vec![0],
            prefixes: vec![0],
            sessions: Vec::new(),
        };
        let common = parts.common.iter().copied().flatten();
        for token in common.chain(parts.nodes.iter().flat_map(NodeParts::all)) {
            match *token {
                Token::Index(of, index) => {
                    for (kind, indexes) in ranks.indexes_mut() {
                        if of == kind || of == IndexOf::Any {
                            indexes.push(index);
                        }
                    }
                }
                Token::Session(session) => ranks.sessions.push(session),
                _ => {}
            }
        }
        for (_, indexes) in ranks.indexes_mut() {
            settle(indexes);
        }
        settle(&mut ranks.sessions);
        ranks
    }

    fn indexes_mut(&mut self) -> [(IndexOf, &mut Vec<u64>); 3] {
        [
            (IndexOf::Lock, &mut self.locks),
            (IndexOf::Key, &mut self.keys),
            (IndexOf::Prefix, &mut self.prefixes),
        ]
    }

    fn indexes(&self) -> [(IndexOf, &[u64]); 3] {
        [
            (IndexOf::Lock, &self.locks),
            (IndexOf::Key, &self.keys),
            (IndexOf::Prefix, &self.prefixes),
        ]
    }
}

struct Scale<'a> {
    clock: Clock,
    ranks: &'a Ranks,
}

/// What is ranked in one participant.
#[derive(Default)]
struct Local {
    ids: Vec<(IdOf, u64)>,
    /// Where, in the order of what it sends and learns, reads follow on something else or the other
    /// way round.
    turns: Vec<u64>,
}

impl Local {
    fn new(node: &NodeParts<'_>) -> Self {
        let (mut ids, mut orders) = (Vec::new(), Vec::new());
        for token in node.all() {
            match *token {
                Token::Id(of, id) => ids.push((of, id)),
                Token::Order(what, at) => orders.push((at, what == Order::Read)),
                _ => {}
            }
        }
        settle(&mut ids);
        settle(&mut orders);
        let changes = orders.windows(2).filter(|pair| pair[0].1 != pair[1].1);
        let turns = changes.map(|pair| pair[1].0).collect();
        Self { ids, turns }
    }
}

#[derive(Default)]
struct Written(Vec<u8>);

impl Written {
    fn part(&mut self, tokens: &[Token], scale: &Scale<'_>, local: &Local) {
        self.word(0, tokens.len() as u64);
        for token in tokens {
            match *token {
                Token::Text(hash) => self.word(1, hash),
                Token::Index(of, index) => {
                    for (kind, indexes) in scale.ranks.indexes() {
                        if of == kind || of == IndexOf::Any {
                            self.word(2, rank(indexes, &index));
                        }
                    }
                }
                Token::Session(session) => self.word(3, rank(&scale.ranks.sessions, &session)),
                Token::Id(of, id) => {
                    let first = rank(&local.ids, &(of, 0));
                    self.word(4, rank(&local.ids, &(of, id)) - first);
                }
                Token::Origin(at) | Token::Timer(at) if !scale.clock.is_past(at) => {
                    self.word(5, scale.clock.until(at));
                }
                Token::Order(_, at) => {
                    let turns = local.turns.partition_point(|turn| *turn <= at);
                    self.word(6, turns as u64);
                }
                Token::Origin(at) => self.word(7, scale.clock.since(at)),
                Token::Timer(_) => self.word(8, 0),
            }
        }
    }

    fn word(&mut self, kind: u8, value: u64) {
        self.0.push(kind);
        self.0.extend(value.to_le_bytes());
    }
}

fn settle<T: Ord>(numbers: &mut Vec<T>) {
    numbers.sort_unstable();
    numbers.dedup();
}

fn rank<T: Ord>(numbers: &[T], number: &T) -> u64 {
    numbers.partition_point(|other| other < number) as u64
}
