//! One entry of the KV store, as reads return it.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::answer::garbled;
use crate::error::RequestError;
use crate::id::Index;

/// An entry that borrows from the answer's body. Its value stays encoded until it is used.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Entry<'a> {
    #[serde(default)]
    lock_index: u64,
    #[serde(borrow, deserialize_with = "text")]
    key: Cow<'a, str>,
    #[serde(default)]
    flags: u64,
    /// The value as the answer has it.
    #[serde(borrow, default)]
    value: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "text")]
    session: Cow<'a, str>,
    #[serde(default)]
    create_index: u64,
    #[serde(default)]
    modify_index: u64,
}

impl Entry<'_> {
    /// Its key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The index of its creation: the order in which contenders queue.
    pub fn create_index(&self) -> Index {
        Index(self.create_index)
    }

    /// The index of its last change: what a check-and-set compares.
    pub fn modify_index(&self) -> Index {
        Index(self.modify_index)
    }

    /// How often it was acquired.
    pub fn lock_index(&self) -> u64 {
        self.lock_index
    }

    /// Its flags.
    pub fn flags(&self) -> u64 {
        self.flags
    }

    /// The session it is tied to. In the guide's examples a key without one has an empty text.
    pub fn session(&self) -> Option<&str> {
        Some(self.session.as_ref()).filter(|session| !session.is_empty())
    }

    /// Its value.
    ///
    /// # Errors
    /// [`RequestError::Garbled`] if it is not a text or not base64.
    pub fn value(&self) -> Result<Vec<u8>, RequestError> {
        let Some(value) = self.value else {
            return Ok(Vec::new());
        };
        let Text(encoded) = serde_json::from_str(value.get())
            .map_err(|error| garbled("a value that is no text", error))?;
        STANDARD
            .decode(encoded.as_bytes())
            .map_err(|error| garbled("a value that is not base64", error))
    }

    /// At least this many bytes of the beginning of its value, or all of it. The rest may stay
    /// encoded, and unchecked.
    pub(crate) fn beginning(&self, bytes: usize) -> Result<Vec<u8>, RequestError> {
        let encoded = self.value.and_then(|value| value.get().strip_prefix('"'));
        // Four characters are three bytes.
        let length = bytes.div_ceil(3) * 4;
        let cut = encoded.and_then(|it| it.as_bytes().get(..length));
        // A short value has its end in there, and another one may have an escape.
        let decoded = cut.and_then(|cut| STANDARD.decode(cut).ok());
        decoded.map_or_else(|| self.value(), Ok)
    }
}

/// A text, borrowed if it has no escapes. `null` is none.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'de, str>, D::Error> {
    let text = Option::<Text<'de>>::deserialize(deserializer)?;
    Ok(text.map(|Text(text)| text).unwrap_or_default())
}
