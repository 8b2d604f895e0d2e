//! One entry of the KV store, as reads return it.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer};

use super::answer::garbled;
use crate::error::RequestError;
use crate::id::Index;

/// An entry, borrowed from the answer's body. Its value stays encoded until somebody asks for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Entry<'a> {
    #[serde(borrow, deserialize_with = "text")]
    key: Cow<'a, str>,
    #[serde(default)]
    create_index: u64,
    #[serde(default)]
    modify_index: u64,
    #[serde(default)]
    lock_index: u64,
    #[serde(default)]
    flags: u64,
    #[serde(borrow, default)]
    value: Option<Text<'a>>,
    #[serde(borrow, default)]
    session: Option<Text<'a>>,
}

impl Entry<'_> {
    /// Its key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// When it was created; the order in which contenders queue.
    pub fn create_index(&self) -> Index {
        Index(self.create_index)
    }

    /// When it was last changed; what a check-and-set compares.
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

    /// The session it is tied to. The guide's examples show an empty text where there is none.
    pub fn session(&self) -> Option<&str> {
        self.session
            .as_ref()
            .map(|session| session.0.as_ref())
            .filter(|session| !session.is_empty())
    }

    /// Its value.
    ///
    /// # Errors
    /// [`RequestError::Garbled`] when it is not base64.
    pub fn value(&self) -> Result<Vec<u8>, RequestError> {
        let encoded = self.value.as_ref().map_or("", |value| value.0.as_ref());
        STANDARD
            .decode(encoded)
            .map_err(|error| garbled("a value that is not base64", error))
    }
}

/// A text that is borrowed where it stands unescaped. Behind an `Option`, a bare `Cow` would
/// always be copied.
#[derive(Clone, Debug, Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

fn text<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'a, str>, D::Error> {
    Text::deserialize(deserializer).map(|text| text.0)
}
