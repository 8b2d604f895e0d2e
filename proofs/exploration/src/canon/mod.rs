//! Two states are the same if no possible continuation can tell them apart.
//!
//! Each part of a state is shown completely as text, and split into [`Token`]s. Some tokens only
//! have a meaning relative to others. They are replaced by their position among those:
//! - indexes of Consul by their rank among the indexes that they are compared with, in the whole
//!   state: those of the record, those of other keys, those of the prefix, those of acquisitions,
//! - sessions by their first occurrence, with a participant's own part first; the holders of a record in the order in
//!   which they came, since it lists them by name,
//! - requests by their sender, and other ids of a participant by their rank among those of their
//!   kind,
//! - times at which a participant learned something by which of its reads under way were sent
//!   before,
//! - future times by their distance, in ticks: time stops only there,
//! - past times that something is measured from by their distance, up to the longest that matters.
//!
//! What has no further effect is left out, as each kind of token says.
//!
//! Participants are interchangeable, so their parts are sorted, each with its own view of what is
//! shared. The result is hashed to 128 bits.

mod meaning;
mod text;
mod tree;

use core::time::Duration;
use std::collections::VecDeque;

use semaphore_core::sans_io::Instant;
use xxhash_rust::xxh3::xxh3_128;

pub(crate) use self::meaning::{fingerprinted, nanos_of};
pub(crate) use self::text::untouched;
pub(crate) use self::text::{IdOf, IndexOf};
pub(crate) use self::text::{Token, read, session, timer, tokens};
pub(crate) use self::tree::{Item, Tree};
use crate::clock::Clock;

/// The tokens of one state, participant by participant.
#[derive(Debug, Default)]
pub(crate) struct Parts<'a> {
    pub(crate) is_semaphore: bool,
    /// The contenders of a semaphore, in the order in which they came.
    pub(crate) line: Vec<Token>,
    /// Whether a semaphore has its record. From then on it always has.
    pub(crate) has_record: bool,
    /// Tokens that belong to no participant.
    pub(crate) common: Vec<&'a [Token]>,
    /// More common tokens, whose order does not matter.
    pub(crate) loose: Vec<[&'a [Token]; 1]>,
    pub(crate) nodes: Vec<NodeParts<'a>>,
}

/// The tokens of one participant.
#[derive(Debug, Default)]
pub(crate) struct NodeParts<'a> {
    pub(crate) own: Vec<&'a [Token]>,
    /// Its messages, in no order. Each has the request that it belongs to, and its deadline if that
    /// can come nearer.
    pub(crate) messages: Vec<[&'a [Token]; 3]>,
}

/// The fingerprint of a state.
pub(crate) fn fingerprint(parts: &Parts<'_>, now: Instant, tick: Duration) -> u128 {
    let ranks = Ranks::new(parts);
    let scale = Scale {
        clock: Clock::new(now, tick),
        ranks: &ranks,
        line: &parts.line,
    };
    let mut nodes: Vec<_> = {
        let name = |node: &NodeParts<'_>| node.name(parts, &scale);
        parts.nodes.iter().map(name).collect()
    };
    nodes.sort_unstable();
    let mut written = Written::default();
    let mut names = Names::default();
    for (hash, sessions) in nodes {
        written.named(hash, &sessions, &mut names);
    }
    written.unordered(&parts.loose, &scale, &Local::default(), &mut names);
    xxh3_128(&written.0)
}

impl NodeParts<'_> {
    fn all(&self) -> impl Iterator<Item = &Token> {
        let own = self.own.iter().copied().flatten();
        own.chain(self.messages.iter().flatten().copied().flatten())
    }

    /// The participant's fingerprint, with its sessions numbered in the order in which it mentions
    /// them. Also returns that order.
    fn name(&self, parts: &Parts<'_>, scale: &Scale<'_>) -> (u128, Vec<u64>) {
        let local = Local::new(self);
        let mut names = Names::default();
        let mut written = Written::default();
        for part in &self.own {
            written.part(part, scale, &local, |session| names.name(session));
        }
        written.unordered(&self.messages, scale, &local, &mut names);
        // To two participants the common part only looks the same if both have the same place in
        // it.
        for part in &parts.common {
            written.part(part, scale, &Local::default(), |session| {
                names.name(session)
            });
        }
        // Sessions that only these tokens mention have no place in any order.
        let mut passing = Names(names.0.clone());
        written.unordered(&parts.loose, scale, &Local::default(), &mut passing);
        (xxh3_128(&written.0), names.0)
    }
}

/// Sessions in the order in which they were met.
#[derive(Default)]
struct Names(Vec<u64>);

impl Names {
    fn find(&self, session: u64) -> Option<u64> {
        let at = self.0.iter().position(|known| *known == session)?;
        Some(at as u64)
    }

    fn name(&mut self, session: u64) -> u64 {
        self.find(session).unwrap_or_else(|| {
            self.0.push(session);
            self.0.len() as u64 - 1
        })
    }
}

/// Tokens that are ranked in the whole state.
struct Ranks {
    is_semaphore: bool,
    has_record: bool,
    locks: Vec<u64>,
    keys: Vec<u64>,
    prefixes: Vec<u64>,
    terms: Vec<u64>,
}

impl Ranks {
    fn new(parts: &Parts<'_>) -> Self {
        // Zero stands for no index, and stays zero.
        let mut ranks = Self {
            is_semaphore: parts.is_semaphore,
            has_record: parts.has_record,
            locks: vec![0],
            keys: vec![0],
            prefixes: vec![0],
            terms: vec![0],
        };
        let common = parts.common.iter().copied().flatten();
        for token in common.chain(parts.nodes.iter().flat_map(NodeParts::all)) {
            if let Token::Index(of, index) = *token {
                for (kind, indexes) in ranks.indexes_mut() {
                    if kind.holds(of) {
                        indexes.push(index);
                    }
                }
            }
        }
        for (_, indexes) in ranks.indexes_mut() {
            settle(indexes);
        }
        ranks
    }

    fn indexes_mut(&mut self) -> [(IndexOf, &mut Vec<u64>); 4] {
        [
            (IndexOf::Lock, &mut self.locks),
            (IndexOf::Key, &mut self.keys),
            (IndexOf::Prefix, &mut self.prefixes),
            (IndexOf::Term, &mut self.terms),
        ]
    }

    fn indexes(&self) -> [(IndexOf, &[u64]); 4] {
        [
            (IndexOf::Lock, &self.locks),
            (IndexOf::Key, &self.keys),
            (IndexOf::Prefix, &self.prefixes),
            (IndexOf::Term, &self.terms),
        ]
    }
}

struct Scale<'a> {
    clock: Clock,
    ranks: &'a Ranks,
    line: &'a [Token],
}

impl Scale<'_> {
    /// The holders that these tokens name, list by list, each in the order in which they came.
    fn holders(&self, tokens: &[Token]) -> VecDeque<u64> {
        let came = |session: &u64| {
            let mut line = self.line.iter();
            let place = line.position(|it| *it == Token::Session(*session));
            place.unwrap_or(usize::MAX)
        };
        let (mut holders, mut list) = (VecDeque::new(), Vec::new());
        let mut before = 0;
        for (at, token) in tokens.iter().enumerate() {
            let Token::Holder(session) = *token else {
                continue;
            };
            // Only one text is between two of a list.
            if at > before + 2 {
                list.sort_by_key(came);
                holders.extend(list.drain(..));
            }
            list.push(session);
            before = at;
        }
        list.sort_by_key(came);
        holders.extend(list);
        holders
    }
}

/// Tokens that are ranked within one participant.
#[derive(Default)]
struct Local {
    ids: Vec<(IdOf, u64)>,
    /// When its reads under way were sent, and by which part.
    reads: Vec<(u64, u64)>,
}

impl Local {
    fn new(node: &NodeParts<'_>) -> Self {
        let mut local = Self::default();
        for token in node.all() {
            match *token {
                Token::Id(of, id) => local.ids.push((of, id)),
                Token::Read(from, sent) => local.reads.push((from, sent)),
                _ => {}
            }
        }
        settle(&mut local.ids);
        settle(&mut local.reads);
        local
    }
}

/// The leases of the scenes' sessions have this length.
const LONGEST_LEASE: Duration = Duration::from_secs(15);
/// What a transaction shows is enough for a shorter time.
const LONGEST_RECENT: Duration = Duration::from_secs(1);
/// From then on, a poll that may be dead is given up.
const LEAST_POLL: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Written(Vec<u8>);

impl Written {
    fn part(
        &mut self,
        tokens: &[Token],
        scale: &Scale<'_>,
        local: &Local,
        mut name: impl FnMut(u64) -> u64,
    ) {
        self.word(0, tokens.len() as u64);
        let mut holders = scale.holders(tokens);
        for token in tokens {
            match *token {
                Token::Text(hash) => self.word(1, hash),
                Token::Index(of, index) => {
                    let ranks = scale.ranks;
                    for (kind, indexes) in ranks.indexes() {
                        if kind.holds(of) {
                            self.word(2, rank(indexes, &index));
                        }
                    }
                    // A list has the record and the keys.
                    if of == IndexOf::Prefix && ranks.is_semaphore {
                        self.word(11, position(&ranks.locks, index));
                        self.word(11, position(&ranks.keys, index));
                    }
                }
                Token::Position(of, index) => {
                    let ranks = scale.ranks;
                    for (kind, indexes) in ranks.indexes() {
                        if kind == of {
                            self.word(11, position(indexes, index));
                        }
                    }
                    // While there is no record, all writes move the index of its absence.
                    if of == IndexOf::Lock && !ranks.has_record {
                        self.word(11, position(&ranks.prefixes, index));
                    }
                }
                Token::Session(session) => self.word(3, name(session)),
                Token::Holder(session) => {
                    let session = holders.pop_front().unwrap_or(session);
                    self.word(3, name(session));
                }
                Token::Id(of, id) => {
                    let first = rank(&local.ids, &(of, 0));
                    self.word(4, rank(&local.ids, &(of, id)) - first);
                }
                Token::Origin(at) | Token::Timer(at) if !scale.clock.is_past(at) => {
                    self.word(5, scale.clock.until(at));
                }
                Token::Moment(moment) => {
                    let reads = local.reads.iter();
                    self.word(
                        6,
                        reads.fold(0, |all, (_, sent)| all << 1 | u64::from(*sent > moment)),
                    );
                }
                Token::Read(from, sent) => {
                    self.word(10, from);
                    self.word(10, rank(&local.reads, &(from, sent)));
                }
                Token::Origin(at) => self.word(7, scale.clock.since(at, LONGEST_LEASE)),
                Token::Since(at, longest) => {
                    let longest = Duration::from_nanos(longest);
                    self.word(7, scale.clock.since(at, longest));
                }
                Token::Recent(at) => self.word(7, scale.clock.since(at, LONGEST_RECENT)),
                Token::Poll(at) => self.word(7, scale.clock.since(at, LEAST_POLL)),
                Token::Timer(_) => self.word(8, 0),
            }
        }
    }

    /// Parts in no order. Each consists of several token lists.
    fn unordered<const N: usize>(
        &mut self,
        all: &[[&[Token]; N]],
        scale: &Scale<'_>,
        local: &Local,
        names: &mut Names,
    ) {
        let mut hashes: Vec<_> = all
            .iter()
            .map(|parts| {
                let (mut written, mut strangers) = (Self::default(), Names::default());
                for part in parts {
                    written.part(part, scale, local, |session| {
                        let known = names.find(session);
                        known.unwrap_or_else(|| names.0.len() as u64 + strangers.name(session))
                    });
                }
                (xxh3_128(&written.0), strangers.0)
            })
            .collect();
        hashes.sort_unstable();
        for (hash, strangers) in hashes {
            self.named(hash, &strangers, names);
        }
    }

    /// Adds something that numbers its sessions itself, and the numbers that they have here.
    fn named(&mut self, hash: u128, sessions: &[u64], names: &mut Names) {
        self.0.extend(hash.to_le_bytes());
        for session in sessions {
            self.word(9, names.name(*session));
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

/// How many of them are not after this one. Zero stands for no index.
fn position(numbers: &[u64], number: u64) -> u64 {
    if number == 0 {
        return 0;
    }
    numbers.partition_point(|other| *other <= number) as u64
}

fn rank<T: Ord>(numbers: &[T], number: &T) -> u64 {
    numbers.partition_point(|other| other < number) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_list_of_holders_has_the_order_in_which_they_came() {
        let parts = Parts::default();
        let scale = Scale {
            clock: Clock::new(Instant::ORIGIN, Duration::from_secs(1)),
            ranks: &Ranks::new(&parts),
            line: &[Token::Session(7), Token::Session(2), Token::Session(5)],
        };
        let text = Token::Text(0);
        let holder = Token::Holder;
        let first = [holder(2), text, holder(9), text, holder(7)];
        let second = [text, Token::Session(1), holder(5), text, holder(2)];
        let holders = scale.holders(&[&first[..], &second].concat());
        assert_eq!(holders, [7, 2, 9, 2, 5]);
    }

    #[test]
    fn a_position_tells_which_indexes_are_not_after_it() {
        let at = |number| position(&[0, 4, 8], number);
        assert_eq!([0, 3, 4, 7, 8, 9].map(at), [0, 1, 2, 2, 3, 3]);
    }
}
