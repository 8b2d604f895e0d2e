//! The value of a contender key.

use crate::input::InvalidInput;

/// Any bytes that a contender shows to whoever looks at the semaphore, such as its node's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Value(Vec<u8>);

impl Value {
    /// What Consul stores under one key at most, in bytes.
    pub const MAX_LEN: usize = 512 * 1024;

    /// Takes a value over.
    ///
    /// # Errors
    /// [`InvalidInput::ValueTooLarge`] over [`Value::MAX_LEN`].
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, InvalidInput> {
        let bytes = bytes.into();
        if bytes.len() > Self::MAX_LEN {
            return Err(InvalidInput::ValueTooLarge {
                len: bytes.len(),
                max: Self::MAX_LEN,
            });
        }
        Ok(Self(bytes))
    }

    /// What Consul has stored is no larger than what it stores.
    pub(crate) fn of_consul(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_be_as_large_as_consul_stores_and_no_larger() {
        assert_eq!(Value::MAX_LEN, 524_288);
        assert!(Value::new(vec![0; Value::MAX_LEN]).is_ok());
        assert_eq!(
            Value::new(vec![0; Value::MAX_LEN + 1]),
            Err(InvalidInput::ValueTooLarge {
                len: Value::MAX_LEN + 1,
                max: Value::MAX_LEN,
            })
        );
    }
}
