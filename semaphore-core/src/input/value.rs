//! The value of a contender key.

use crate::input::InvalidInput;

/// Bytes that a contender shows to everyone who reads the semaphore, such as its node's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Value(Vec<u8>);

impl Value {
    /// The most that a leader may show, in bytes. It is sent as base64 in a transaction, which may
    /// have 512 KiB in all.
    pub const MAX_LEN: usize = 320 * 1024;

    /// The most that a semaphore's contender may show, in bytes. Everybody who waits reads the
    /// values of all contenders.
    pub const MAX_OF_CONTENDER: usize = 4 * 1024;

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

    /// The same value, checked for a contender of a semaphore.
    pub(crate) fn of_contender(self) -> Result<Self, InvalidInput> {
        let (len, max) = (self.0.len(), Self::MAX_OF_CONTENDER);
        if len > max {
            return Err(InvalidInput::ValueTooLarge { len, max });
        }
        Ok(self)
    }

    /// Consul does not store larger values, so there is no check.
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
    fn a_value_may_be_as_large_as_a_transaction_takes_and_no_larger() {
        assert_eq!(Value::MAX_LEN, 327_680);
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
