//! The ACL token, kept out of logs.

use core::fmt;

use crate::input::InvalidInput;

/// A Consul ACL token. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Takes a token over.
    ///
    /// # Errors
    /// [`InvalidInput::Token`] if it is empty or has anything but visible ASCII. It is sent as an
    /// HTTP header, where a line break could add other headers.
    pub fn new(secret: impl Into<String>) -> Result<Self, InvalidInput> {
        let secret = secret.into();
        if secret.is_empty() || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(InvalidInput::Token);
        }
        Ok(Self(secret))
    }

    /// The secret itself, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_says_that_there_is_a_token_and_not_which() {
        let token = Token::new("secret").unwrap();
        assert_eq!(format!("{token:?}"), "Token(hidden)");
        assert_eq!(token.reveal(), "secret");
    }
}
