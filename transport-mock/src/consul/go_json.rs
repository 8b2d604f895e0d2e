//! JSON as Go decodes it: field names are case-insensitive, `null` counts as absent, and what
//! follows the first value is ignored.

use serde::Deserialize;
use serde_json::{Deserializer, Map, Value};

/// The first JSON value of `body`, or what is wrong with it.
pub(super) fn decode(body: &[u8]) -> Result<Value, String> {
    let mut deserializer = Deserializer::from_slice(body);
    Value::deserialize(&mut deserializer).map_err(|fault| fault.to_string())
}

/// The member of this name. If several differ only in case, the last one.
pub(super) fn member<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields
        .iter()
        .rfind(|(found, _)| found.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

/// A member that must be of one type.
pub(super) struct Field<'a> {
    value: Option<&'a Value>,
    name: &'a str,
}

impl<'a> Field<'a> {
    pub(super) fn new(fields: &'a Map<String, Value>, name: &'a str) -> Self {
        Self {
            value: member(fields, name).filter(|value| !value.is_null()),
            name,
        }
    }

    pub(super) fn text(&self) -> Result<Option<String>, String> {
        match self.value {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(self.mismatch("a string")),
        }
    }

    pub(super) fn texts(&self) -> Result<Vec<String>, String> {
        let items = match self.value {
            None => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(_) => return Err(self.mismatch("a list")),
        };
        items
            .iter()
            .map(|item| match item {
                Value::String(text) => Ok(text.clone()),
                Value::Null => Ok(String::new()),
                _ => Err(self.mismatch("a list of strings")),
            })
            .collect()
    }

    pub(super) fn number(&self) -> Result<Option<u64>, String> {
        let number = self.value.map(Value::as_u64);
        number
            .map(|number| number.ok_or_else(|| self.mismatch("a whole number")))
            .transpose()
    }

    pub(super) fn mismatch(&self, wanted: &str) -> String {
        format!("{} is not {wanted}", self.name)
    }
}
