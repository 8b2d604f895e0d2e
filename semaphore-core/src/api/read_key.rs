//! `GET /v1/kv/<key>`: one entry, now or when it changes.

use core::time::Duration;

use super::answer::{self, WITHOUT_INDEX, garbled};
use super::entry::Entry;
use super::target::Target;
use crate::error::RequestError;
use crate::http::{Request, Response};
use crate::id::Index;
use crate::input::Scope;

/// Reads one key.
#[derive(Clone, Copy, Debug)]
pub struct ReadKey<'a> {
    /// The key.
    pub key: &'a str,
    /// For a blocking query: it is answered when the index has passed this one, or after this time.
    /// The server adds up to a sixteenth.
    pub wait: Option<(Index, Duration)>,
    /// Whether the leader confirms the read, even if the scope does not ask for that. Use it if you
    /// act on the answer.
    pub consistent: bool,
}

impl ReadKey<'_> {
    /// The request.
    pub fn request(&self, scope: &Scope) -> Request {
        Target::key(self.key).watch(self.wait, scope, self.consistent)
    }

    /// The entry, or `None` if there is no such key.
    ///
    /// # Errors
    /// [`RequestError`] for anything but an entry or its absence. [`RequestError::Denied`] if the
    /// answer says that the key was left out.
    pub fn parse(response: &Response) -> Result<Option<Entry<'_>>, RequestError> {
        if response.status() == 404 && response.header("X-Consul-Index").is_some() {
            return absent(response);
        }
        let text = core::str::from_utf8(answer::served(response)?)
            .map_err(|error| garbled("an entry that is not UTF-8", error))?;
        let entries: Vec<Entry<'_>> =
            serde_json::from_str(text).map_err(|error| garbled("not an entry", error))?;
        match entries.into_iter().next() {
            None => absent(response),
            found => Ok(found),
        }
    }

    /// Like [`Self::parse`], with the `X-Consul-Index` where a blocking query continues.
    /// [`Index::ZERO`] if an entry comes without that header.
    ///
    /// # Errors
    /// As [`Self::parse`], and [`RequestError::Garbled`] for an absence without its index, which
    /// anybody may have sent.
    pub fn parse_at(response: &Response) -> Result<(Index, Option<Entry<'_>>), RequestError> {
        let index = answer::index(response, WITHOUT_INDEX);
        if response.status() == 404 {
            return Ok((index?, absent(response)?));
        }
        let found = Self::parse(response)?;
        match (index?, found) {
            (Index::ZERO, None) => Err(RequestError::garbled(WITHOUT_INDEX).of(response)),
            read => Ok(read),
        }
    }
}

/// There is no such key, unless the answer says that a key was left out.
fn absent(response: &Response) -> Result<Option<Entry<'_>>, RequestError> {
    if answer::is_filtered(response) {
        Err(answer::hidden("key").of(response))
    } else {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::line;
    use super::*;

    fn read(wait: Option<(Index, Duration)>, consistent: bool) -> Request {
        ReadKey {
            key: "a/b",
            wait,
            consistent,
        }
        .request(&Scope::new())
    }

    #[test]
    fn the_leader_confirms_what_is_read_where_that_is_asked_for() {
        assert_eq!(line(&read(None, false)), "GET /v1/kv/a/b");
        let consistent = read(None, true);
        assert_eq!(line(&consistent), "GET /v1/kv/a/b?consistent");
        assert!(!consistent.is_long_poll());
    }

    #[test]
    fn it_waits_for_a_change() {
        let wait = Some((Index(42), Duration::from_secs(15)));
        let blocking = read(wait, false);
        assert_eq!(line(&blocking), "GET /v1/kv/a/b?index=42&wait=15s");
        assert!(blocking.is_long_poll());
        assert_eq!(
            line(&read(wait, true)),
            "GET /v1/kv/a/b?index=42&wait=15s&consistent"
        );
    }

    #[test]
    fn a_key_and_its_absence_are_read_with_the_index_to_wait_on() {
        let at =
            |status, body: &str| Response::new(status, body).with_header("X-Consul-Index", "7");
        let found = at(200, r#"[{"Key":"a/b","ModifyIndex":5}]"#);
        let (index, entry) = ReadKey::parse_at(&found).unwrap();
        assert_eq!(index, Index(7));
        assert_eq!(entry.unwrap().modify_index(), Index(5));
        let (index, entry) = ReadKey::parse_at(&at(404, ""))
            .map(|(i, e)| (i, e.is_some()))
            .unwrap();
        assert_eq!((index, entry), (Index(7), false));
    }

    #[test]
    fn an_answer_without_an_index_can_not_be_waited_on() {
        let entry = r#"[{"Key":"a/b"}]"#;
        let bare = Response::new(200, entry);
        let (index, found) = ReadKey::parse_at(&bare).unwrap();
        assert_eq!((index, found.is_some()), (Index::ZERO, true));
        for response in [
            Response::new(200, "[]"),
            Response::new(200, entry).with_header("X-Consul-Index", "soon"),
            Response::new(404, "<html>"),
            Response::new(404, "").with_header("X-Consul-Index", "-1"),
            Response::new(200, r#"[{"Key""#).with_header("X-Consul-Index", "7"),
            Response::new(200, "<html>").with_header("X-Consul-Index", "7"),
        ] {
            let error = ReadKey::parse_at(&response).unwrap_err();
            assert!(matches!(error, RequestError::Garbled { .. }), "{error}");
        }
        let denied = ReadKey::parse_at(&Response::new(403, "Permission denied")).unwrap_err();
        assert!(denied.is_permanent(), "{denied}");
    }

    #[test]
    fn a_missing_key_is_none_and_a_proxys_404_an_error() {
        let missing = Response::new(404, "").with_header("X-Consul-Index", "7");
        assert!(ReadKey::parse(&missing).unwrap().is_none());
        assert!(ReadKey::parse(&Response::new(404, "<html>")).is_err());
    }

    #[test]
    fn a_key_that_is_left_out_is_denied_and_not_missing() {
        let at = |status, body: &str, filtered: &str| {
            Response::new(status, body)
                .with_header("X-Consul-Index", "7")
                .with_header("X-Consul-Results-Filtered-By-ACLs", filtered)
        };
        for (status, body) in [(404, ""), (200, "[]")] {
            let hidden = at(status, body, "true");
            let denied = |error: RequestError| matches!(error, RequestError::Denied { .. });
            assert!(ReadKey::parse(&hidden).is_err_and(denied));
            assert!(ReadKey::parse_at(&hidden).is_err_and(denied));
            let missing = at(status, body, "false");
            assert!(ReadKey::parse(&missing).unwrap().is_none());
            assert!(ReadKey::parse_at(&missing).unwrap().1.is_none());
        }
    }
}
