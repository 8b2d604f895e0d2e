//! A user and a password for a proxy in front of the agent, kept out of logs.

use core::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::input::InvalidInput;

/// A user and a password for HTTP Basic authentication (RFC 7617), sent with each request. Consul
/// doesn't ask for them, but a proxy in front of it may. `Debug` does not show them.
#[derive(Clone, PartialEq, Eq)]
pub struct BasicAuth {
    header: String,
}

impl BasicAuth {
    /// This user with this password. Either may be empty.
    ///
    /// # Errors
    /// [`InvalidInput::BasicAuth`] if the user has a colon, or either has a control character.
    pub fn new(user: &str, password: &str) -> Result<Self, InvalidInput> {
        if user.contains(':') || user.chars().chain(password.chars()).any(char::is_control) {
            return Err(InvalidInput::BasicAuth);
        }
        let credentials = STANDARD.encode(format!("{user}:{password}"));
        Ok(Self {
            header: format!("Basic {credentials}"),
        })
    }

    /// Reads `user:password`. The password follows the first colon; without a colon it is empty.
    ///
    /// # Errors
    /// As [`BasicAuth::new`].
    pub fn parse(text: &str) -> Result<Self, InvalidInput> {
        let (user, password) = text.split_once(':').unwrap_or((text, ""));
        Self::new(user, password)
    }

    /// The value of the header `Authorization`, for the one place that sends it.
    pub fn reveal_header(&self) -> &str {
        &self.header
    }
}

impl fmt::Debug for BasicAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BasicAuth(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_what_follows_the_first_colon() {
        // The example of RFC 7617, section 2.
        let auth = BasicAuth::parse("Aladdin:open sesame").unwrap();
        assert_eq!(auth.reveal_header(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert_eq!(BasicAuth::parse("a:b:c"), BasicAuth::new("a", "b:c"));
        assert_eq!(BasicAuth::parse("a"), BasicAuth::new("a", ""));
        assert_eq!(BasicAuth::parse(":b"), BasicAuth::new("", "b"));
    }

    #[test]
    fn what_can_t_be_sent_is_refused() {
        for (user, password) in [("a:b", "c"), ("a\n", "b"), ("a", "b\0")] {
            assert_eq!(
                BasicAuth::new(user, password),
                Err(InvalidInput::BasicAuth),
                "{user:?}"
            );
        }
    }

    #[test]
    fn debug_says_that_there_are_credentials_and_not_which() {
        let auth = BasicAuth::new("user", "secret").unwrap();
        assert_eq!(format!("{auth:?}"), "BasicAuth(hidden)");
    }
}
