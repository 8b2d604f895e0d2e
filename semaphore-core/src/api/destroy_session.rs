//! `PUT /v1/session/destroy/<id>`: ends a session, and releases or deletes its keys.

use super::answer;
use super::target::Target;
use crate::error::RequestError;
use crate::http::{Method, Request, Response};
use crate::id::SessionId;
use crate::input::Scope;

/// Destroys a session. Repeating it is harmless: an unknown session also counts as destroyed.
#[derive(Clone, Copy, Debug)]
pub struct DestroySession<'a> {
    /// The session.
    pub session: &'a SessionId,
}

impl DestroySession<'_> {
    /// The request.
    pub fn request(&self, scope: &Scope) -> Request {
        let path = format!("/v1/session/destroy/{}", self.session);
        Target::new(&path).ending(Method::Put, scope)
    }

    /// Only success is `Ok`.
    ///
    /// # Errors
    /// [`RequestError`] for anything but `true`.
    pub fn parse(response: &Response) -> Result<(), RequestError> {
        if answer::flag(response)? {
            Ok(())
        } else {
            Err(RequestError::garbled("false for a destroyed session"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::{SESSION, line, session};
    use super::*;

    #[test]
    fn it_names_the_session_in_the_path() {
        let session = session();
        let request = DestroySession { session: &session }.request(&Scope::new());
        assert_eq!(line(&request), format!("PUT /v1/session/destroy/{SESSION}"));
    }

    #[test]
    fn the_answer_is_true() {
        assert!(DestroySession::parse(&Response::new(200, "true\n")).is_ok());
        assert!(DestroySession::parse(&Response::new(200, "false")).is_err());
        assert!(DestroySession::parse(&Response::new(200, "")).is_err());
    }
}
