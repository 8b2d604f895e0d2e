//! `GET /v1/kv/<prefix>/?recurse`: everything below a prefix at one moment, now or when it changes.

use core::time::Duration;

use super::answer::{self, WITHOUT_INDEX, garbled};
use super::entry::Entry;
use super::target::Target;
use crate::error::RequestError;
use crate::http::{Request, Response};
use crate::id::Index;
use crate::input::{Prefix, Scope};

/// Lists the keys below a prefix.
#[derive(Clone, Copy, Debug)]
pub struct ListKeys<'a> {
    /// The prefix.
    pub prefix: &'a Prefix,
    /// For a blocking query: it is answered when the index has passed this one, or after this time.
    pub wait: Option<(Index, Duration)>,
    /// Whether the leader confirms the read, even if the scope does not ask for that.
    pub consistent: bool,
}

/// The content of a prefix.
#[derive(Clone, Debug)]
pub struct KeyList<'a> {
    /// `X-Consul-Index`: where a blocking query continues. [`Index::ZERO`] without that header.
    pub index: Index,
    /// Whether the server says that it left keys out because of missing permissions. Consul says so
    /// from 1.11 on; older servers don't.
    pub filtered: bool,
    /// The entries, by key.
    pub entries: Vec<Entry<'a>>,
}

impl ListKeys<'_> {
    /// The request.
    pub fn request(&self, scope: &Scope) -> Request {
        Target::key(&self.prefix.directory())
            .with_flag("recurse")
            .watch(self.wait, scope, self.consistent)
    }

    /// The list. A prefix without keys is an empty list, not an error.
    ///
    /// # Errors
    /// [`RequestError`] for anything but a list. [`RequestError::Garbled`] for an empty one without
    /// its index, which anybody may have sent.
    pub fn parse(response: &Response) -> Result<KeyList<'_>, RequestError> {
        let index = answer::index(response, WITHOUT_INDEX);
        let filtered = answer::is_filtered(response);
        if response.status() == 404 {
            return Ok(KeyList {
                index: index?,
                filtered,
                entries: Vec::new(),
            });
        }
        let body = answer::served(response)?;
        let index = index?;
        let text = core::str::from_utf8(body)
            .map_err(|error| garbled("a list that is not UTF-8", error))?;
        let entries: Vec<Entry<'_>> =
            serde_json::from_str(text).map_err(|error| garbled("not a list of entries", error))?;
        if index == Index::ZERO && entries.is_empty() {
            return Err(RequestError::garbled(WITHOUT_INDEX).of(response));
        }
        Ok(KeyList {
            index,
            filtered,
            entries,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::line;
    use super::*;
    use crate::http::Method;

    fn list(wait: Option<(Index, Duration)>, consistent: bool) -> Request {
        ListKeys {
            prefix: &Prefix::new("service/db").unwrap(),
            wait,
            consistent,
        }
        .request(&Scope::new())
    }

    #[test]
    fn it_asks_for_the_prefix_with_its_slash() {
        let plain = list(None, false);
        assert_eq!(line(&plain), "GET /v1/kv/service/db/?recurse");
        assert!(!plain.is_long_poll());
        assert_eq!(
            line(&list(None, true)),
            "GET /v1/kv/service/db/?recurse&consistent"
        );
        let blocking = list(Some((Index(42), Duration::from_secs(15))), false);
        assert_eq!(
            line(&blocking),
            "GET /v1/kv/service/db/?recurse&index=42&wait=15s"
        );
        assert!(blocking.is_long_poll());
    }

    #[test]
    fn a_blocking_query_is_not_given_up_while_consul_may_hold_it_open() {
        let wait = Some((Index(42), Duration::from_secs(30)));
        let consistent = false;
        let key = super::super::ReadKey {
            key: "service/db/.lock",
            wait,
            consistent,
        };
        let scope = Scope::new();
        for poll in [list(wait, consistent), key.request(&scope)] {
            let usual = Request::new(Method::Get, "/v1/kv/a").timeout();
            let held_open = poll.longest_wait().unwrap();
            assert_eq!(poll.timeout(), held_open + usual, "{poll:?}");
        }
    }

    #[test]
    fn the_guides_example_is_read() {
        let body = r#"[{"LockIndex":0,"Key":"p/.lock","Flags":0,
            "Value":"eyJMaW1pdCI6IDIsIkhvbGRlcnMiOlsiPHNlc3Npb24+Il19","Session":"",
            "CreateIndex":898,"ModifyIndex":901},
            {"LockIndex":1,"Key":"p/\u0026x","Flags":18446744073709551615,"Value":null,
            "Session":"s","CreateIndex":897,"ModifyIndex":897}]"#;
        let response = Response::new(200, body).with_header("X-Consul-Index", "901");
        let list = ListKeys::parse(&response).unwrap();
        assert_eq!(list.index, Index(901));
        assert!(!list.filtered);
        let [lock, contender] = list.entries.as_slice() else {
            unreachable!("two entries");
        };
        assert_eq!(lock.session(), None);
        assert_eq!(
            lock.value().unwrap(),
            br#"{"Limit": 2,"Holders":["<session>"]}"#
        );
        assert_eq!(contender.key(), "p/&x");
        assert_eq!(contender.session(), Some("s"));
        assert_eq!(contender.flags(), u64::MAX);
        assert_eq!(contender.value().unwrap(), b"");
    }

    #[test]
    fn nothing_below_the_prefix_is_an_empty_list_that_can_be_waited_on() {
        let response = Response::new(404, "").with_header("x-consul-index", "7");
        let list = ListKeys::parse(&response).unwrap();
        assert_eq!(list.index, Index(7));
        assert!(list.entries.is_empty());
    }

    #[test]
    fn entries_without_an_index_are_read_and_can_not_be_waited_on() {
        let response = Response::new(200, r#"[{"Key":"p/.lock","ModifyIndex":5}]"#);
        let list = ListKeys::parse(&response).unwrap();
        assert_eq!((list.index, list.entries.len()), (Index::ZERO, 1));
    }

    #[test]
    fn nothing_without_an_index_is_no_answer_of_consul() {
        let index = |response: Response| response.with_header("X-Consul-Index", "7");
        for response in [
            Response::new(404, "<html>not found</html>"),
            Response::new(200, "[]"),
            index(Response::new(200, "")),
            index(Response::new(200, "{}")),
            index(Response::new(200, "<html>")),
            index(Response::new(200, b"[{\"Key\":\"\xff\"}]".as_slice())),
            index(Response::new(200, r#"[{"Key":"p/.lock""#)),
        ] {
            let error = ListKeys::parse(&response).unwrap_err();
            assert!(matches!(error, RequestError::Garbled { .. }), "{error}");
        }
    }

    #[test]
    fn fields_come_in_any_order_and_unknown_ones_are_skipped() {
        let body = r#"[{"Namespace":{"a":["b"]},"Session":null,"ModifyIndex":3,"Key":"p/x"}]"#;
        let response = Response::new(200, body).with_header("X-Consul-Index", "7");
        let list = ListKeys::parse(&response).unwrap();
        let [entry] = list.entries.as_slice() else {
            unreachable!("one entry");
        };
        assert_eq!((entry.key(), entry.session()), ("p/x", None));
        assert_eq!((entry.modify_index(), entry.flags()), (Index(3), 0));
        assert_eq!(entry.value().unwrap(), b"");
    }

    #[test]
    fn a_field_that_is_missing_or_of_another_kind_or_there_twice_is_garbled() {
        for entry in [
            r"{}",
            r#"{"Session":"s"}"#,
            r#"{"Key":3}"#,
            r#"{"Key":"p/x","Flags":"0"}"#,
            r#"{"Key":"p/x","Flags":-1}"#,
            r#"{"Key":"p/x","Flags":18446744073709551616}"#,
            r#"{"Key":"p/x","ModifyIndex":null}"#,
            r#"{"Key":"p/x","Session":true}"#,
            r#"{"Key":"p/x","Key":"p/x"}"#,
            r#"{"Key":"p/x","ModifyIndex":1,"Flags":0,"ModifyIndex":2}"#,
            r#"["p/x",1]"#,
            "null",
        ] {
            let response =
                Response::new(200, format!("[{entry}]")).with_header("X-Consul-Index", "7");
            let error = ListKeys::parse(&response).expect_err(entry);
            assert!(matches!(error, RequestError::Garbled { .. }), "{error}");
        }
    }

    #[test]
    fn what_is_not_base64_is_an_error_of_the_one_who_reads_the_value() {
        for value in [r#""eyJMaW1""#, "[]", "3"] {
            let body = format!(r#"[{{"Key":"p/.lock","Value":{value},"ModifyIndex":1}}]"#);
            let response = Response::new(200, body).with_header("X-Consul-Index", "1");
            let list = ListKeys::parse(&response).unwrap();
            assert!(list.entries[0].value().is_err());
        }
    }
}
