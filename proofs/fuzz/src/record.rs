//! Any bytes as a value of `.lock`.
//!
//! Input: flags, a change of the record, and then the value. In half of the cases, the value is
//! built as a record in one of the dialects.

use semaphore_core::sans_io::api::SEMAPHORE_FLAGS;
use semaphore_core::sans_io::{Dialect, Record};
use serde_json::Value as Json;

use crate::choices::Choices;
use crate::mangle;
use crate::oracle::others;

/// Reads the record, changes it, and reads the result again.
pub fn run(input: &[u8]) {
    let mut choices = Choices::new(input);
    let flags = match choices.below(4) {
        0 | 1 => SEMAPHORE_FLAGS,
        2 => 0,
        _ => choices.number(),
    };
    let new_limit = u32::try_from(choices.number() >> 40).unwrap_or_default();
    let kept = choices.below(256);
    let value = if choices.flag() {
        mangle::record(&mut choices)
    } else {
        choices.rest().to_vec()
    };
    let decoded = Record::decode(&value, flags);
    assert_eq!(decoded.is_ok(), is_record(&value, flags), "{decoded:?}");
    match decoded {
        Ok(record) => check(&value, flags, new_limit.max(1), kept, &record),
        Err(conflict) => {
            let text = conflict.to_string();
            assert!(text.len() <= 1_000, "{} bytes of conflict", text.len());
            assert!(!text.chars().any(char::is_control), "{text:?}");
        }
    }
}

/// Whether the module's docs call this a record, implemented in another way.
fn is_record(value: &[u8], flags: u64) -> bool {
    let Ok(Json::Object(fields)) = serde_json::from_slice(value) else {
        return false;
    };
    let has = |name: &str| fields.contains_key(name);
    let upper = has("Limit") || has("Holders");
    let lower = has("limit") || has("holders");
    let (limit, holders) = if lower {
        (fields.get("limit"), fields.get("holders"))
    } else {
        (fields.get("Limit"), fields.get("Holders"))
    };
    let is_holders = match holders {
        None | Some(Json::Null) => true,
        Some(Json::Array(holders)) => holders.iter().all(Json::is_string),
        Some(Json::Object(holders)) => {
            !lower
                && holders
                    .values()
                    .all(|mark| mark.is_boolean() || mark.is_null())
        }
        Some(_) => false,
    };
    let limits = 1..=u64::from(u32::MAX);
    (flags == 0 || flags == SEMAPHORE_FLAGS)
        && !(upper && lower)
        && limit
            .and_then(Json::as_u64)
            .is_some_and(|limit| limits.contains(&limit))
        && is_holders
}

fn check(value: &[u8], flags: u64, new_limit: u32, kept: usize, record: &Record) {
    assert_eq!(record.flags(), flags);
    let written = record.encode();
    assert_eq!(
        Record::decode(&written, flags).as_ref(),
        Ok(record),
        "written back as something else"
    );
    assert_eq!(others(value), others(&written), "a field of others changed");

    let mut changed = record.clone();
    changed.add("a new one");
    changed.add("a new one");
    assert!(changed.holds("a new one"));
    let added = usize::from(!record.holds("a new one"));
    assert_eq!(changed.holders().len(), record.holders().len() + added);
    changed.set_limit(new_limit);
    let mut position = 0;
    changed.retain(|_| {
        position += 1;
        (kept >> (position % 8)) & 1 == 1
    });
    let again = Record::decode(&changed.encode(), flags).expect("a record");
    // A record without holders is written back with some.
    assert_eq!(again.dialect(), record.dialect());
    assert_eq!(again.limit(), new_limit);
    let holders = |record: &Record| {
        let mut holders: Vec<_> = record.holders().map(str::to_owned).collect();
        if record.dialect() == Dialect::Map {
            holders.sort();
        }
        holders
    };
    assert_eq!(holders(&again), holders(&changed));
    assert_eq!(others(value), others(&changed.encode()));
}
