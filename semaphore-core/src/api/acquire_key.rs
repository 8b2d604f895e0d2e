//! `PUT /v1/kv/<key>?acquire=<session>`: ties a key to a session.

use super::answer;
use super::target::Target;
use crate::error::RequestError;
use crate::http::{Method, Request, Response};
use crate::id::SessionId;
use crate::input::Scope;

/// Acquires a key. Repeating it with the same session is harmless.
#[derive(Clone, Copy, Debug)]
pub struct AcquireKey<'a> {
    /// The key.
    pub key: &'a str,
    /// The session to tie it to.
    pub session: &'a SessionId,
    /// The value to store under it.
    pub value: &'a [u8],
    /// Its flags.
    pub flags: u64,
}

impl AcquireKey<'_> {
    /// The request.
    pub fn request(&self, scope: &Scope) -> Request {
        Target::key(self.key)
            .with("acquire", self.session)
            .with("flags", self.flags)
            .request(Method::Put, scope)
            .with_body(self.value)
    }

    /// Whether the key is tied to this session now; false if another session has it.
    ///
    /// # Errors
    /// [`RequestError::InvalidSession`] if the session is gone, or another error of the answer.
    pub fn parse(response: &Response) -> Result<bool, RequestError> {
        answer::flag(response)
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::{SESSION, line, session};
    use super::*;
    use crate::api::SEMAPHORE_FLAGS;

    #[test]
    fn it_carries_session_flags_and_value() {
        let request = AcquireKey {
            key: "service/db/x",
            session: &session(),
            value: b"node-1",
            flags: SEMAPHORE_FLAGS,
        }
        .request(&Scope::new());
        assert_eq!(
            line(&request),
            format!("PUT /v1/kv/service/db/x?acquire={SESSION}&flags=16210313421097356768")
        );
        assert_eq!(request.body(), b"node-1");
    }

    #[test]
    fn a_dead_session_is_told_apart_from_a_held_key() {
        assert!(!AcquireKey::parse(&Response::new(200, "false")).unwrap());
        let dead = Response::new(500, format!("invalid session \"{SESSION}\""));
        assert!(matches!(
            AcquireKey::parse(&dead),
            Err(RequestError::InvalidSession { .. })
        ));
    }
}
