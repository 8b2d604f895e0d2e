//! Decoding JSON as Go does: field names without regard to case, `null` as absent, whatever
//! follows the first value ignored, and Go's own words for what is wrong.

use serde::Deserialize;
use serde_json::{Deserializer, Map, Value};

/// The first JSON value of `body`.
///
/// The error is Go's text where the fault is a common one.
pub(super) fn decode(body: &[u8]) -> Result<Value, String> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err("EOF".into());
    }
    let mut deserializer = Deserializer::from_slice(body);
    Value::deserialize(&mut deserializer).map_err(|fault| {
        if fault.is_eof() {
            return "unexpected EOF".into();
        }
        let at = offset(body, fault.line(), fault.column());
        let found = String::from_utf8_lossy(&body[at..]).chars().next();
        let found = found.unwrap_or_default();
        let context = match fault.to_string() {
            text if text.starts_with("key must be") || text.starts_with("trailing comma") => {
                "looking for beginning of object key string"
            }
            text if text.starts_with("expected `:`") => "after object key",
            text if text.starts_with("expected `,` or `}`") => "after object key:value pair",
            text if text.starts_with("expected `,` or `]`") => "after array element",
            _ => "looking for beginning of value",
        };
        format!("invalid character '{found}' {context}")
    })
}

/// What Go calls this kind of value.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The member of this name; the last one where several differ in case only.
pub(super) fn member<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields
        .iter()
        .rfind(|(found, _)| found.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

/// A member that must be of one type.
pub(super) struct Field<'a> {
    value: Option<&'a Value>,
    parent: &'a str,
    name: &'a str,
}

impl<'a> Field<'a> {
    /// The member `name`; `parent` is what Go calls the struct it belongs to.
    pub(super) fn new(fields: &'a Map<String, Value>, parent: &'a str, name: &'a str) -> Self {
        Self {
            value: member(fields, name).filter(|value| !value.is_null()),
            parent,
            name,
        }
    }

    pub(super) fn text(&self) -> Result<Option<String>, String> {
        self.text_of("string")
    }

    /// A text whose type has a name of its own.
    pub(super) fn text_of(&self, wanted: &str) -> Result<Option<String>, String> {
        match self.value {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(self.mismatch(kind(other), wanted)),
        }
    }

    /// Texts whose type has this name.
    pub(super) fn texts_of(&self, wanted: &str) -> Result<Vec<String>, String> {
        let items = match self.value {
            None => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(other) => return Err(self.mismatch(kind(other), &format!("[]{wanted}"))),
        };
        items
            .iter()
            .map(|item| match item {
                Value::String(text) => Ok(text.clone()),
                Value::Null => Ok(String::new()),
                other => Err(self.mismatch(kind(other), wanted)),
            })
            .collect()
    }

    pub(super) fn number(&self) -> Result<Option<u64>, String> {
        match self.value {
            None => Ok(None),
            Some(Value::Number(number)) => match number.as_u64() {
                Some(number) => Ok(Some(number)),
                None => Err(self.mismatch(&format!("number {number}"), "uint64")),
            },
            Some(other) => Err(self.mismatch(kind(other), "uint64")),
        }
    }

    pub(super) fn mismatch(&self, found: &str, wanted: &str) -> String {
        format!(
            "json: cannot unmarshal {found} into Go struct field {}.{} of type {wanted}",
            self.parent, self.name
        )
    }
}

fn offset(body: &[u8], line: usize, column: usize) -> usize {
    let before: usize = body
        .split_inclusive(|byte| *byte == b'\n')
        .take(line.saturating_sub(1))
        .map(<[u8]>::len)
        .sum();
    (before + column.saturating_sub(1)).min(body.len())
}
