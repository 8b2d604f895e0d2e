//! When two states are the same: nothing that can follow tells them apart.
//!
//! Each part of a state is shown as text, all of it, and taken apart into [`Token`]s. What only means
//! something beside others is then put in its place among them:
//! - indexes of Consul's and sessions by their rank in the whole state (sessions are named in the order
//!   in which they were created),
//! - the numbers that a participant counts up by their rank in it,
//! - the moments of its reads by their rank, and others by which reads were sent by then,
//! - times ahead by their distance, in ticks: time stops only there,
//! - times past that something is measured from by their distance, up to the longest that matters,
//! - other times past by their rank.
//!
//! Participants are interchangeable, so their parts are sorted. What is left is hashed to 128 bits: among
//! ten million states the chance that any two are taken for one is below 10⁻²⁴.

mod text;

use core::time::Duration;

use semaphore_core::Instant;
use xxhash_rust::xxh3::xxh3_128;

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
        let mut local = Local::default();
        local.past.push(scale.clock.now());
        for token in self.all() {
            match token {
                Token::Id(id) => local.ids.push(*id),
                Token::Sent(moment) => local.sent.push(*moment),
                Token::Order(at) if scale.clock.is_past(*at) => local.past.push(*at),
                _ => {}
            }
        }
        settle(&mut local.ids);
        settle(&mut local.sent);
        settle(&mut local.past);
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
    indexes: Vec<u64>,
    sessions: Vec<u64>,
}

impl Ranks {
    fn new(parts: &Parts<'_>) -> Self {
        // Zero stands for no index and stays itself.
        let (mut indexes, mut sessions) = (vec![0], Vec::new());
        let common = parts.common.iter().copied().flatten();
        for token in common.chain(parts.nodes.iter().flat_map(NodeParts::all)) {
            match token {
                Token::Index(index) => indexes.push(*index),
                Token::Session(session) => sessions.push(*session),
                _ => {}
            }
        }
        settle(&mut indexes);
        settle(&mut sessions);
        Self { indexes, sessions }
    }
}

struct Scale<'a> {
    clock: Clock,
    ranks: &'a Ranks,
}

/// What is ranked in one participant.
#[derive(Default)]
struct Local {
    ids: Vec<u64>,
    sent: Vec<u64>,
    past: Vec<u64>,
}

#[derive(Default)]
struct Written(Vec<u8>);

impl Written {
    fn part(&mut self, tokens: &[Token], scale: &Scale<'_>, local: &Local) {
        self.word(0, tokens.len() as u64);
        for token in tokens {
            match *token {
                Token::Text(hash) => self.word(1, hash),
                Token::Index(index) => self.word(2, rank(&scale.ranks.indexes, index)),
                Token::Session(session) => self.word(3, rank(&scale.ranks.sessions, session)),
                Token::Id(id) => self.word(4, rank(&local.ids, id)),
                Token::Sent(moment) => self.word(9, rank(&local.sent, moment)),
                Token::Moment(moment) => self.word(10, rank(&local.sent, moment + 1)),
                Token::Order(at) | Token::Origin(at) | Token::Timer(at)
                    if !scale.clock.is_past(at) =>
                {
                    self.word(5, scale.clock.until(at));
                }
                Token::Order(at) => self.word(6, rank(&local.past, at)),
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

fn settle(numbers: &mut Vec<u64>) {
    numbers.sort_unstable();
    numbers.dedup();
}

fn rank(numbers: &[u64], number: u64) -> u64 {
    numbers.partition_point(|other| *other < number) as u64
}
