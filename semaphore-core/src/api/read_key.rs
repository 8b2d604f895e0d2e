//! `GET /v1/kv/<key>`: one entry.

use super::answer::{self, garbled};
use super::entry::{Entries, Entry};
use super::target::Target;
use crate::error::RequestError;
use crate::http::{Method, Request, Response};
use crate::input::Scope;

/// Reads one key, confirmed by the leader: the answer is for somebody who acts on it.
#[derive(Clone, Copy, Debug)]
pub struct ReadKey<'a> {
    /// The key.
    pub key: &'a str,
}

impl ReadKey<'_> {
    /// The request.
    pub fn request(&self, scope: &Scope) -> Request {
        Request::new(Method::Get, Target::key(self.key).scoped_read(scope, true))
            .with_token(scope.token().cloned())
    }

    /// The entry, none when there is no such key (or no permission to see it).
    ///
    /// # Errors
    /// [`RequestError`] for anything but an entry or its absence.
    pub fn parse(response: &Response) -> Result<Option<Entry<'_>>, RequestError> {
        if response.status() == 404 && response.header("X-Consul-Index").is_some() {
            return Ok(None);
        }
        let text = core::str::from_utf8(answer::served(response)?)
            .map_err(|error| garbled("an entry that is not UTF-8", error))?;
        let Entries(entries) =
            serde_json::from_str(text).map_err(|error| garbled("not an entry", error))?;
        Ok(entries.into_iter().next())
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::line;
    use super::*;

    #[test]
    fn the_leader_confirms_what_is_read() {
        let request = ReadKey { key: "a/b" }.request(&Scope::new());
        assert_eq!(line(&request), "GET /v1/kv/a/b?consistent");
    }

    #[test]
    fn a_missing_key_is_none_and_a_proxys_404_an_error() {
        let missing = Response::new(404, "").with_header("X-Consul-Index", "7");
        assert!(ReadKey::parse(&missing).unwrap().is_none());
        assert!(ReadKey::parse(&Response::new(404, "<html>")).is_err());
    }
}
