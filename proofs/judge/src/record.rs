//! The record of a semaphore, as the judges read it. This is not the core's reader: a mistake there
//! would hide what it leads to.

use serde_json::{Map, Value as Json};

/// The flags of Go's records (`api/semaphore.go`). The guide's have none.
const GO: u64 = 0xe0f6_9a2b_aa41_4de0;

/// What a record says, if it is one: a limit, and holders in one of three spellings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    limit: u32,
    holders: Vec<String>,
    spelling: Spelling,
}

/// How a record is spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// Go's: `Limit`, and `Holders` as names with marks.
    Map,
    /// The guide's: `Limit`, and `Holders` as a list.
    List,
    /// The Java program's: `limit` and `holders`, as a list.
    LowerList,
}

/// Go marks holders with `true`, and others may do as they like.
fn is_mark(value: &Json) -> bool {
    value.is_boolean() || value.is_null()
}

impl Record {
    /// Go's, with this limit and nobody in it.
    pub fn new(limit: u32) -> Self {
        Self::spelled(limit, Spelling::Map)
    }

    /// One with this limit and nobody in it.
    pub fn spelled(limit: u32, spelling: Spelling) -> Self {
        Self {
            limit,
            holders: Vec::new(),
            spelling,
        }
    }

    /// What this value says. `None` if it is no record.
    pub fn read(value: &[u8], flags: u64) -> Option<Self> {
        let fields: Map<String, Json> = serde_json::from_slice(value).ok()?;
        let spelled = |names: [&str; 2]| names.iter().any(|it| fields.contains_key(*it));
        let is_lower = spelled(["limit", "holders"]);
        if ![0, GO].contains(&flags) || is_lower && spelled(["Limit", "Holders"]) {
            return None;
        }
        let names = if is_lower {
            ["limit", "holders"]
        } else {
            ["Limit", "Holders"]
        };
        let [limit, holders] = names.map(|name| fields.get(name).unwrap_or(&Json::Null));
        let limit = u32::try_from(limit.as_u64()?)
            .ok()
            .filter(|limit| *limit > 0)?;
        let listed = if is_lower {
            Spelling::LowerList
        } else {
            Spelling::List
        };
        let (holders, spelling) = match holders {
            Json::Object(marked) if !is_lower && marked.values().all(is_mark) => {
                (marked.keys().cloned().collect(), Spelling::Map)
            }
            Json::Array(list) => {
                let names = list.iter().map(|it| it.as_str().map(str::to_owned));
                (names.collect::<Option<_>>()?, listed)
            }
            Json::Null if is_lower => (Vec::new(), listed),
            Json::Null => (Vec::new(), Spelling::Map),
            _ => return None,
        };
        Some(Self {
            limit,
            holders,
            spelling,
        })
    }

    /// Its limit.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Its holders, in its order.
    pub fn holders(&self) -> impl ExactSizeIterator<Item = &str> {
        self.holders.iter().map(String::as_str)
    }

    /// Whether it names this session, in either case.
    pub fn holds(&self, session: &str) -> bool {
        self.holders().any(|it| it.eq_ignore_ascii_case(session))
    }

    /// How it is spelled.
    pub fn spelling(&self) -> Spelling {
        self.spelling
    }

    /// Removes the other holders.
    pub fn retain(&mut self, stays: impl Fn(&str) -> bool) {
        self.holders.retain(|it| stays(it));
    }

    /// Adds a holder.
    pub fn add(&mut self, session: &str) {
        self.holders.push(session.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(value: &str) -> Option<(u32, Vec<String>, Spelling)> {
        let record = Record::read(value.as_bytes(), GO)?;
        let holders = record.holders().map(str::to_owned).collect();
        Some((record.limit(), holders, record.spelling()))
    }

    #[test]
    fn each_spelling_is_read() {
        let a = || vec!["a".to_owned()];
        for (value, expected) in [
            (
                r#"{"Limit":3,"Holders":{"a":true}}"#,
                (3, a(), Spelling::Map),
            ),
            (r#"{"Limit":3,"Holders":["a"]}"#, (3, a(), Spelling::List)),
            (
                r#"{"limit":3,"holders":["a"]}"#,
                (3, a(), Spelling::LowerList),
            ),
            (r#"{"Limit":1,"Owner":"b"}"#, (1, Vec::new(), Spelling::Map)),
        ] {
            assert_eq!(said(value), Some(expected), "{value}");
        }
    }

    #[test]
    fn what_is_no_record_is_none() {
        for value in [
            "maintenance",
            "[]",
            r#"{"Holders":{}}"#,
            r#"{"Limit":0,"Holders":{}}"#,
            r#"{"Limit":1,"holders":[]}"#,
            r#"{"Limit":1,"Holders":"a"}"#,
            r#"{"Limit":1,"Holders":[1]}"#,
        ] {
            assert_eq!(said(value), None, "{value}");
        }
        assert_eq!(Record::read(br#"{"Limit":1}"#, 7), None);
    }
}
