//! `PUT /v1/kv/<key>?release=<session>`: unties a key from its session.

use super::answer;
use super::target::Target;
use crate::error::RequestError;
use crate::http::{Method, Request, Response};
use crate::id::SessionId;
use crate::input::Scope;

/// Releases a key. Repeating it is harmless: a key that is no longer tied to the session stays as
/// it is.
#[derive(Clone, Copy, Debug)]
pub struct ReleaseKey<'a> {
    /// The key.
    pub key: &'a str,
    /// The session that it is tied to.
    pub session: &'a SessionId,
    /// The value to keep. Consul stores whatever is sent.
    pub value: &'a [u8],
    /// Its flags.
    pub flags: u64,
}

impl ReleaseKey<'_> {
    /// The request.
    pub fn request(&self, scope: &Scope) -> Request {
        Target::key(self.key)
            .with("release", self.session)
            .with("flags", self.flags)
            .ending(Method::Put, scope)
            .with_body(self.value)
    }

    /// Whether this released it; false if the key was not tied to the session.
    ///
    /// # Errors
    /// [`RequestError`] for anything but `true` or `false`.
    pub fn parse(response: &Response) -> Result<bool, RequestError> {
        answer::flag(response)
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::{SESSION, line, session};
    use super::*;
    use crate::api::LOCK_FLAGS;

    #[test]
    fn it_carries_session_flags_and_the_value_that_stays() {
        let request = ReleaseKey {
            key: "service/db/leader",
            session: &session(),
            value: b"node-1",
            flags: LOCK_FLAGS,
        }
        .request(&Scope::new());
        assert_eq!(
            line(&request),
            format!("PUT /v1/kv/service/db/leader?release={SESSION}&flags=3304740253564472344")
        );
        assert_eq!(request.body(), b"node-1");
    }

    #[test]
    fn a_key_that_was_not_the_sessions_is_told() {
        assert!(ReleaseKey::parse(&Response::new(200, "true")).unwrap());
        assert!(!ReleaseKey::parse(&Response::new(200, "false")).unwrap());
        assert!(ReleaseKey::parse(&Response::new(200, "")).is_err());
    }
}
