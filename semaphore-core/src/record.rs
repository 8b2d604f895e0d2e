//! The record under `<prefix>/.lock`: the limit and the holders.
//!
//! | dialect | on the wire | flags |
//! |---|---|---|
//! | [`Dialect::Map`], HashiCorp's Go client | `{"Limit":3,"Holders":{"<session>":true}}` | [`SEMAPHORE_FLAGS`] |
//! | [`Dialect::Array`], the guide | `{"Limit":3,"Holders":["<session>"]}` | 0 |
//! | [`Dialect::LowerCaseArray`], Java clients | `{"limit":3,"holders":["<session>"]}` | 0 |
//!
//! A record is written back in its dialect and with its flags, including fields that this crate
//! does not know. Anything else is a [`Conflict`], and is never overwritten (S4).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value as Json};

use crate::api::{SEMAPHORE_FLAGS, excerpt};
use crate::error::Conflict;
use crate::work;

/// The format of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// `Holders` is an object whose names are the sessions.
    Map,
    /// `Holders` is an array of sessions.
    Array,
    /// `holders` is an array of sessions, and the limit is named `limit`.
    LowerCaseArray,
}

/// A semaphore's limit and holders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    dialect: Dialect,
    flags: u64,
    limit: u32,
    /// Shared: every decision copies a record, and few copies are changed.
    holders: Arc<Holders>,
    /// Unknown fields, kept as they are.
    extra: BTreeMap<String, Kept>,
    /// Whether white space follows the value. No reader cares about it.
    padded: bool,
}

/// A value with its original text: a parsed number could lose digits.
#[derive(Clone, Debug)]
struct Kept(Box<RawValue>);

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Eq for Kept {}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Holder {
    session: String,
    /// What the map dialect stores beside the session: a boolean or `null`.
    mark: Option<bool>,
}

/// The holders, with an index by session: a view looks each of them up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Holders {
    /// In the order of the record.
    list: Vec<Holder>,
    /// Their places in the list, in the order of their sessions.
    sorted: Vec<usize>,
}

impl Holders {
    fn new(list: Vec<Holder>) -> Self {
        let mut sorted: Vec<usize> = (0..list.len()).collect();
        sorted.sort_by(|a, b| list[*a].session.cmp(&list[*b].session));
        Self { list, sorted }
    }

    /// The place of this session in that order, or where it would be.
    fn find(&self, session: &str) -> Result<usize, usize> {
        self.sorted
            .binary_search_by(|at| self.list[*at].session.as_str().cmp(session))
    }

    /// Each place of this session in the list.
    fn places_of(&self, session: &str) -> impl Iterator<Item = usize> {
        let of = |at: &usize| self.list[*at].session.as_str();
        let first = self.sorted.partition_point(|at| of(at) < session);
        let from = self.sorted[first..].iter().copied();
        from.take_while(move |at| of(at) == session)
    }

    /// The places of those that the other does not have.
    fn beyond(&self, other: &Self) -> Vec<usize> {
        let mut theirs = other.in_order().peekable();
        let mut beyond = Vec::new();
        for (at, session) in self.in_order() {
            while theirs.next_if(|(_, it)| *it < session).is_some() {}
            if theirs.peek().is_none_or(|(_, it)| *it != session) {
                beyond.push(at);
            }
        }
        beyond.sort_unstable();
        beyond
    }

    /// All of them in the order of their sessions, each with its place in the list.
    fn in_order(&self) -> impl Iterator<Item = (usize, &str)> {
        let sorted = self.sorted.iter().inspect(|_| work::passed(1));
        sorted.map(|at| (*at, self.list[*at].session.as_str()))
    }

    /// Those of the list that are marked as kept.
    fn only(&self, kept: &[bool]) -> Self {
        work::passed(kept.len());
        let of_list = self.list.iter().zip(kept);
        let list = of_list.filter(|(_, is_kept)| **is_kept);
        let moved: Vec<usize> = kept
            .iter()
            .scan(0, |next, is_kept| {
                let at = *next;
                *next += usize::from(*is_kept);
                Some(at)
            })
            .collect();
        let sorted = self.sorted.iter().filter(|at| kept[**at]);
        Self {
            list: list.map(|(holder, _)| holder.clone()).collect(),
            sorted: sorted.map(|at| moved[*at]).collect(),
        }
    }

    fn add(&mut self, session: &str) {
        if let Err(place) = self.find(session) {
            self.sorted.insert(place, self.list.len());
            self.list.push(Holder {
                session: session.to_owned(),
                mark: Some(true),
            });
        }
    }
}

impl Record {
    /// A record without holders, in the dialect of HashiCorp's clients.
    pub fn new(limit: u32) -> Self {
        Self {
            dialect: Dialect::Map,
            flags: SEMAPHORE_FLAGS,
            limit,
            holders: Arc::default(),
            extra: BTreeMap::new(),
            padded: false,
        }
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`Conflict`] if the flags or the value are not a semaphore's.
    pub fn decode(value: &[u8], flags: u64) -> Result<Self, Conflict> {
        if flags != 0 && flags != SEMAPHORE_FLAGS {
            return Err(Conflict::Flags { flags });
        }
        let mut fields: Map<String, Json> = serde_json::from_slice(value).map_err(refuse)?;
        let spelled_lower = ["limit", "holders"].map(|name| fields.contains_key(name));
        let spelled_upper = ["Limit", "Holders"].map(|name| fields.contains_key(name));
        let lower = spelled_lower.contains(&true);
        if lower && spelled_upper.contains(&true) {
            return Err(refuse("it is spelled in two dialects at once"));
        }
        let (limit, holders) = if lower {
            (fields.remove("limit"), fields.remove("holders"))
        } else {
            (fields.remove("Limit"), fields.remove("Holders"))
        };
        let limit = limit
            .as_ref()
            .and_then(Json::as_u64)
            .and_then(|limit| u32::try_from(limit).ok())
            .filter(|limit| *limit > 0)
            .ok_or_else(|| refuse("its limit is no positive number"))?;
        let (dialect, holders) = match holders {
            Some(Json::Object(map)) if !lower => (Dialect::Map, marked_holders(map)?),
            Some(Json::Array(sessions)) => (
                if lower {
                    Dialect::LowerCaseArray
                } else {
                    Dialect::Array
                },
                listed_holders(sessions)?,
            ),
            None | Some(Json::Null) if lower => (Dialect::LowerCaseArray, Vec::new()),
            // Go writes `null` for a nil map, and fails to read it. A map is written instead.
            None | Some(Json::Null) => (Dialect::Map, Vec::new()),
            Some(_) => return Err(refuse("its holders are neither a map nor an array")),
        };
        Ok(Self {
            dialect,
            flags,
            limit,
            holders: Arc::new(Holders::new(holders)),
            extra: kept(value, &fields)?,
            padded: value.last().is_some_and(u8::is_ascii_whitespace),
        })
    }

    /// The value to store, together with [`Self::flags`].
    pub fn encode(&self) -> Vec<u8> {
        let (limit, holders) = match self.dialect {
            Dialect::Map | Dialect::Array => ("Limit", "Holders"),
            Dialect::LowerCaseArray => ("limit", "holders"),
        };
        // Numbers, texts and what is made of them always serialize.
        let listed = match self.dialect {
            Dialect::Map => {
                let sorted = self.holders.sorted.iter().map(|at| &self.holders.list[*at]);
                let marked = sorted.map(|holder| (holder.session.as_str(), holder.mark));
                to_raw_value(&Marked(marked.collect()))
            }
            Dialect::Array | Dialect::LowerCaseArray => {
                to_raw_value(&self.holders().collect::<Vec<_>>())
            }
        };
        let mut fields: BTreeMap<&str, Box<RawValue>> = BTreeMap::from([
            (limit, to_raw_value(&self.limit).unwrap_or_default()),
            (holders, listed.unwrap_or_default()),
        ]);
        let extra = self.extra.iter();
        fields.extend(extra.map(|(name, kept)| (name.as_str(), kept.0.clone())));
        // An object with text for names always serializes.
        let mut value = serde_json::to_vec(&fields).unwrap_or_default();
        if self.padded {
            value.push(b'\n');
        }
        value
    }

    /// Its format.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The flags of its key.
    pub fn flags(&self) -> u64 {
        self.flags
    }

    /// The number of slots.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Changes the limit. Extra holders stay until they release.
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// The sessions that hold a slot. A session that is listed twice takes two.
    pub fn holders(&self) -> impl ExactSizeIterator<Item = &str> {
        self.holders
            .list
            .iter()
            .inspect(|_| work::passed(1))
            .map(|holder| holder.session.as_str())
    }

    /// Whether this session holds a slot.
    pub fn holds(&self, session: &str) -> bool {
        self.holders.find(session).is_ok()
    }

    /// Adds a holder, unless it is one already.
    pub fn add(&mut self, session: &str) {
        if !self.holds(session) {
            if Arc::strong_count(&self.holders) > 1 {
                work::passed(self.holders.list.len());
            }
            Arc::make_mut(&mut self.holders).add(session);
        }
    }

    /// The length of its encoding at most, if its holders are sessions.
    pub(crate) fn bytes_at_most(&self) -> usize {
        let extra = self.extra.iter();
        let extra = extra.map(|(name, kept)| name.len() + kept.0.get().len());
        let fields = self.extra.len() + 2;
        extra.sum::<usize>() + (fields + self.holders.list.len()) * BYTES_AT_MOST
    }

    /// Whether a writer would find the same in both: some write holders in another order, or blanks.
    pub(crate) fn says_the_same_as(&self, other: &Self) -> bool {
        fn names(it: &Record) -> impl Iterator<Item = &str> {
            it.in_order().map(|(_, session)| session)
        }
        (self.dialect, self.flags, self.limit) == (other.dialect, other.flags, other.limit)
            && self.extra == other.extra
            && names(self).eq(names(other))
    }

    /// All holders in the order of their sessions, each with its place in the record.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = (usize, &str)> {
        self.holders.in_order()
    }

    /// The holders that the other record does not have, in the order of this one.
    pub(crate) fn beyond<'a>(&'a self, other: &Self) -> impl Iterator<Item = &'a str> {
        let beyond = if self.has_holders_of(other) {
            Vec::new()
        } else {
            self.holders.beyond(&other.holders)
        };
        let list = &self.holders.list;
        beyond.into_iter().map(|at| list[at].session.as_str())
    }

    /// Whether both share their holders. It does not compare them.
    pub(crate) fn has_holders_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.holders, &other.holders)
    }

    /// Removes these holders.
    pub(crate) fn remove<'a>(&mut self, sessions: impl IntoIterator<Item = &'a str>) {
        let mut kept = Vec::new();
        for session in sessions {
            for at in self.holders.places_of(session) {
                kept.resize(self.holders.list.len(), true);
                kept[at] = false;
            }
        }
        if !kept.is_empty() {
            self.holders = Arc::new(self.holders.only(&kept));
        }
    }

    /// Keeps only the holders for which `keep` is true.
    pub fn retain(&mut self, keep: impl FnMut(&str) -> bool) {
        let kept: Vec<bool> = self.holders().map(keep).collect();
        if kept.contains(&false) {
            self.holders = Arc::new(self.holders.only(&kept));
        }
    }
}

/// The holders with their marks, in the order of their sessions.
struct Marked<'a>(Vec<(&'a str, Option<bool>)>);

impl Serialize for Marked<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let next = self.0.iter().skip(1).map(Some).chain([None]);
        let once = self.0.iter().zip(next);
        // An object has each name once.
        let once = once.filter(|(it, next)| next.is_none_or(|next| next.0 != it.0));
        serializer.collect_map(once.map(|(it, _)| *it))
    }
}

/// These fields of the value, with their original text.
fn kept(value: &[u8], fields: &Map<String, Json>) -> Result<BTreeMap<String, Kept>, Conflict> {
    if fields.is_empty() {
        return Ok(BTreeMap::new());
    }
    let spelled: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(value).map_err(refuse)?;
    Ok(spelled
        .into_iter()
        .filter(|(name, _)| fields.contains_key(name))
        .map(|(name, text)| (name, Kept(text)))
        .collect())
}

fn marked_holders(map: Map<String, Json>) -> Result<Vec<Holder>, Conflict> {
    map.into_iter()
        .map(|(session, mark)| match mark {
            Json::Bool(_) | Json::Null => Ok(Holder {
                session,
                mark: mark.as_bool(),
            }),
            _ => Err(refuse("a holder's mark is not a boolean")),
        })
        .collect()
}

fn listed_holders(sessions: Vec<Json>) -> Result<Vec<Holder>, Conflict> {
    sessions
        .into_iter()
        .map(|session| match session {
            Json::String(session) => Ok(Holder {
                session,
                mark: Some(true),
            }),
            _ => Err(refuse("a holder is not a session's id")),
        })
        .collect()
}

fn refuse(reason: impl core::fmt::Display) -> Conflict {
    Conflict::Record {
        // A parser may quote the whole value.
        reason: excerpt(reason.to_string().as_bytes()),
    }
}

/// The bytes of a holder's session, or of a field without its value, with all punctuation.
const BYTES_AT_MOST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(value: &str) -> Result<Record, Conflict> {
        Record::decode(value.as_bytes(), SEMAPHORE_FLAGS)
    }

    #[test]
    fn each_dialect_is_written_back_as_it_was_found() {
        for (value, dialect, added) in [
            (
                r#"{"Limit":3,"Holders":{"a":true}}"#,
                Dialect::Map,
                r#"{"Holders":{"a":true,"b":true},"Limit":3}"#,
            ),
            (
                r#"{"Limit":3,"Holders":["a"]}"#,
                Dialect::Array,
                r#"{"Holders":["a","b"],"Limit":3}"#,
            ),
            (
                r#"{"limit":3,"holders":["a"]}"#,
                Dialect::LowerCaseArray,
                r#"{"holders":["a","b"],"limit":3}"#,
            ),
        ] {
            let mut record = decode(value).unwrap();
            assert_eq!(record.dialect(), dialect);
            assert_eq!(record.limit(), 3);
            assert!(record.holds("a"));
            record.add("b");
            assert_eq!(String::from_utf8(record.encode()).unwrap(), added);
        }
    }

    #[test]
    fn the_flags_found_are_kept_and_foreign_ones_refused() {
        let value = br#"{"Limit":1,"Holders":{}}"#;
        for flags in [0, SEMAPHORE_FLAGS] {
            assert_eq!(Record::decode(value, flags).unwrap().flags(), flags);
        }
        for flags in [1, 3_304_740_253_564_472_344, u64::MAX] {
            assert_eq!(Record::decode(value, flags), Err(Conflict::Flags { flags }));
        }
    }

    #[test]
    fn numbers_of_others_keep_all_their_digits() {
        let others = r#""a":7.290302514918642e-304,"b":123456789012345678901234567890,"c":1.0e+2"#;
        let value = format!(r#"{{"Holders":{{}},"Limit":3,{others}}}"#);
        assert_eq!(decode(&value).unwrap().encode(), value.as_bytes());
    }

    #[test]
    fn records_differ_in_the_fields_of_others_too() {
        let of = |owner| decode(&format!(r#"{{"Limit":1,"Holders":{{}},"Owner":{owner}}}"#));
        assert_eq!(of(1).unwrap(), of(1).unwrap());
        assert_ne!(of(1).unwrap(), of(2).unwrap());
    }

    #[test]
    fn fields_of_others_survive_a_change() {
        let mut record = decode(r#"{"Limit":1,"Holders":{},"Owner":{"team":"db"}}"#).unwrap();
        record.add("a");
        record.set_limit(2);
        let written = String::from_utf8(record.encode()).unwrap();
        assert_eq!(
            written,
            r#"{"Holders":{"a":true},"Limit":2,"Owner":{"team":"db"}}"#
        );
    }

    #[test]
    fn missing_or_null_holders_are_nobody() {
        for value in [r#"{"Limit":2}"#, r#"{"Limit":2,"Holders":null}"#] {
            let record = decode(value).unwrap();
            assert_eq!(record.holders().len(), 0);
            assert_eq!(record.encode(), br#"{"Holders":{},"Limit":2}"#);
        }
        let record = decode(r#"{"limit":2}"#).unwrap();
        assert_eq!(record.encode(), br#"{"holders":[],"limit":2}"#);
    }

    #[test]
    fn what_is_no_record_is_a_conflict() {
        for value in [
            "",
            "null",
            "3",
            "[]",
            "<html>",
            "{}",
            r#"{"Holders":{}}"#,
            r#"{"Limit":0,"Holders":{}}"#,
            r#"{"Limit":-1,"Holders":{}}"#,
            r#"{"Limit":1.5,"Holders":{}}"#,
            r#"{"Limit":"3","Holders":{}}"#,
            r#"{"Limit":4294967296,"Holders":{}}"#,
            r#"{"Limit":3,"Holders":"a"}"#,
            r#"{"Limit":3,"Holders":[1]}"#,
            r#"{"Limit":3,"Holders":{"a":1}}"#,
            r#"{"Limit":3,"limit":3,"Holders":{}}"#,
            r#"{"limit":3,"holders":{"a":true}}"#,
            r#"{"Limit":3,"Holders":{}"#,
        ] {
            assert!(
                matches!(decode(value), Err(Conflict::Record { .. })),
                "{value}"
            );
        }
    }

    #[test]
    fn marks_are_written_back_as_they_were_found() {
        let value = r#"{"Holders":{"a":true,"b":false,"c":null},"Limit":3}"#;
        assert_eq!(decode(value).unwrap().encode(), value.as_bytes());
    }

    #[test]
    fn holders_are_found_in_whatever_order_they_stand_and_keep_it() {
        let mut record = decode(r#"{"Limit":9,"Holders":["c","a","d","a","b"]}"#).unwrap();
        record.add("a");
        record.add("aa");
        let copy = record.clone();
        record.retain(|session| session != "d");
        assert_eq!(
            record.holders().collect::<Vec<_>>(),
            ["c", "a", "a", "b", "aa"]
        );
        for session in ["a", "aa", "b", "c"] {
            assert!(record.holds(session), "{session}");
        }
        for session in ["", "ab", "d", "e"] {
            assert!(!record.holds(session), "{session}");
        }
        assert!(copy.holds("d"), "a copy is not changed");
        assert_ne!(copy, record);
    }

    #[test]
    fn those_that_another_record_has_not_are_told_in_order() {
        let of = |holders: &str| decode(&format!(r#"{{"Limit":9,"Holders":{holders}}}"#)).unwrap();
        let record = of(r#"["d","a","c","a","b"]"#);
        for (other, beyond) in [
            (r"[]", &["d", "a", "c", "a", "b"][..]),
            (r#"["c","aa","b"]"#, &["d", "a", "a"]),
            (r#"["e","d","c","b","a"]"#, &[]),
        ] {
            assert_eq!(record.beyond(&of(other)).collect::<Vec<_>>(), beyond);
        }
        assert_eq!(record.beyond(&record.clone()).count(), 0);
        let places: Vec<_> = record.in_order().collect();
        assert_eq!(places, [(1, "a"), (3, "a"), (4, "b"), (2, "c"), (0, "d")]);
    }

    #[test]
    fn who_is_taken_out_leaves_each_of_its_slots() {
        let found = decode(r#"{"Limit":9,"Holders":["d","a","c","a","b"]}"#).unwrap();
        let mut record = found.clone();
        record.remove(["e", "aa"]);
        assert!(record.has_holders_of(&found));
        record.remove(["a", "e", "d"]);
        assert_eq!(record.holders().collect::<Vec<_>>(), ["c", "b"]);
        assert!(["b", "c"].iter().all(|it| record.holds(it)));
        assert!(!record.has_holders_of(&found));
    }

    #[test]
    fn a_session_listed_twice_takes_two_slots_and_leaves_at_once() {
        let mut record = decode(r#"{"Limit":3,"Holders":["a","a","b"]}"#).unwrap();
        assert_eq!(record.holders().len(), 3);
        record.retain(|session| session != "a");
        assert_eq!(record.holders().collect::<Vec<_>>(), ["b"]);
    }
}
