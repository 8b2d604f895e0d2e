//! One entry of the KV store, as reads return it.

use core::fmt;
use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

use super::SEMAPHORE_FLAGS;
use super::answer::garbled;
use crate::error::RequestError;
use crate::id::Index;

/// An entry that borrows from the answer's body. Its value stays encoded until it is used.
#[derive(Clone, Debug, Default)]
pub struct Entry<'a> {
    pub(super) key: Cow<'a, str>,
    pub(super) create_index: u64,
    pub(super) modify_index: u64,
    pub(super) lock_index: u64,
    pub(super) flags: u64,
    /// The value as the answer has it.
    pub(super) value: Option<&'a str>,
    pub(super) session: Cow<'a, str>,
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
        let Text(encoded) = serde_json::from_str(value)
            .map_err(|error| garbled("a value that is no text", error))?;
        STANDARD
            .decode(encoded.as_bytes())
            .map_err(|error| garbled("a value that is not base64", error))
    }

    /// At least this many bytes of the beginning of its value, or all of it. The rest may stay
    /// encoded, and unchecked.
    pub(crate) fn beginning(&self, bytes: usize) -> Result<Vec<u8>, RequestError> {
        let encoded = self.value.and_then(|value| value.strip_prefix('"'));
        // Four characters are three bytes.
        let length = bytes.div_ceil(3) * 4;
        let cut = encoded.and_then(|it| it.as_bytes().get(..length));
        // A short value has its end in there, and another one may have an escape.
        let decoded = cut.and_then(|cut| STANDARD.decode(cut).ok());
        decoded.map_or_else(|| self.value(), Ok)
    }
}

/// The entries of a list, read by `serde_json`.
pub(super) struct Entries<'a>(pub(super) Vec<Entry<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(EntriesVisitor)
    }
}

/// A single entry.
pub(super) struct OneEntry<'a>(pub(super) Entry<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for OneEntry<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut entries = Vec::with_capacity(1);
        Next(&mut entries).deserialize(deserializer)?;
        entries
            .pop()
            .map(Self)
            .ok_or_else(|| D::Error::custom("no entry"))
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while list.next_element_seed(Next(&mut entries))?.is_some() {}
        Ok(Entries(entries))
    }
}

/// Reads an entry directly into its place. A derived implementation would move it several times,
/// which costs time with thousands of entries.
struct Next<'e, 'a>(&'e mut Vec<Entry<'a>>);

impl<'de: 'a, 'a> DeserializeSeed<'de> for Next<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de: 'a, 'a> Visitor<'de> for Next<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entry")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let place = self.0.len();
        self.0.push(Entry::default());
        let entry = &mut self.0[place];
        let mut seen = 0_u8;
        while let Some(field) = fields.next_key::<Field>()? {
            match field {
                Field::LockIndex => entry.lock_index = fields.next_value()?,
                Field::Key => entry.key = fields.next_value::<Text<'a>>()?.0,
                Field::Flags => {
                    let flags = fields.next_value::<&RawValue>()?;
                    entry.flags = read_flags(flags.get()).map_err(A::Error::custom)?;
                }
                Field::Value => entry.value = Some(fields.next_value::<&RawValue>()?.get()),
                Field::Session => entry.session = fields.next_value::<Text<'a>>()?.0,
                Field::CreateIndex => entry.create_index = fields.next_value()?,
                Field::ModifyIndex => entry.modify_index = fields.next_value()?,
                Field::Other => {
                    fields.next_value::<IgnoredAny>()?;
                    continue;
                }
            }
            let bit = 1 << field as u8;
            if seen & bit != 0 {
                return Err(A::Error::custom("a field is there twice"));
            }
            seen |= bit;
        }
        if seen & 1 << Field::Key as u8 == 0 {
            return Err(A::Error::missing_field("Key"));
        }
        Ok(())
    }
}

/// Nearly every entry has the same flags, which are the longest number in it.
fn read_flags(text: &str) -> Result<u64, core::num::ParseIntError> {
    if text == USUAL_FLAGS {
        Ok(SEMAPHORE_FLAGS)
    } else {
        text.parse()
    }
}

/// [`SEMAPHORE_FLAGS`] in decimal digits.
pub(super) const USUAL_FLAGS: &str = "16210313421097356768";

/// The name of a field.
#[derive(Clone, Copy)]
enum Field {
    LockIndex,
    Key,
    Flags,
    Value,
    Session,
    CreateIndex,
    ModifyIndex,
    Other,
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(FieldVisitor)
    }
}

struct FieldVisitor;

impl Visitor<'_> for FieldVisitor {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<Field, E> {
        Ok(match name {
            "LockIndex" => Field::LockIndex,
            "Key" => Field::Key,
            "Flags" => Field::Flags,
            "Value" => Field::Value,
            "Session" => Field::Session,
            "CreateIndex" => Field::CreateIndex,
            "ModifyIndex" => Field::ModifyIndex,
            _ => Field::Other,
        })
    }
}

/// A text, borrowed if it has no escapes. `null` is none.
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // `deserialize_any` handles both.
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Text<'de>, E> {
        Ok(Text(Cow::default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_numbers_of_64_bits() {
        assert_eq!(SEMAPHORE_FLAGS.to_string(), USUAL_FLAGS);
        for flags in [0, 1, SEMAPHORE_FLAGS - 1, SEMAPHORE_FLAGS, u64::MAX] {
            assert_eq!(read_flags(&flags.to_string()), Ok(flags));
        }
        for bad in ["-1", "1.5", "1e3", "18446744073709551616", "null", "{}"] {
            assert!(read_flags(bad).is_err(), "{bad}");
        }
    }
}
