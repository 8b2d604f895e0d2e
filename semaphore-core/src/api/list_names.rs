//! `GET /v1/kv/<path>?keys&separator=/`: the names that begin with the path, without values and
//! deeper levels.

use core::time::Duration;

use super::answer::{self, WITHOUT_INDEX, garbled};
use super::target::Target;
use crate::error::RequestError;
use crate::http::{Method, Request, Response};
use crate::id::Index;
use crate::input::{Scope, go_duration};

/// Lists names.
#[derive(Clone, Copy, Debug)]
pub struct ListNames<'a> {
    /// The beginning of the names: a prefix with its slash, or one key, whose value is then not
    /// sent.
    pub path: &'a str,
    /// For a blocking query: it is answered when the index has passed this one, or after this time.
    pub wait: Option<(Index, Duration)>,
    /// Whether the leader confirms the read, even if the scope does not ask for that.
    pub consistent: bool,
}

/// The names that were found.
#[derive(Clone, Debug)]
pub struct NameList {
    /// `X-Consul-Index`: the highest index below the path. [`Index::ZERO`] without that header.
    pub index: Index,
    /// Whether the server says that it left names out because of missing permissions.
    pub filtered: bool,
    /// The whole keys. Everything below a deeper level is one name that ends in a slash.
    pub names: Vec<String>,
}

impl ListNames<'_> {
    /// The request.
    pub fn request(&self, scope: &Scope) -> Request {
        let target = Target::key(self.path)
            .with_flag("keys")
            .with("separator", "/");
        let target = match self.wait {
            Some((index, wait)) => target.with("index", index).with("wait", go_duration(wait)),
            None => target,
        };
        let request = Request::new(Method::Get, target.scoped_read(scope, self.consistent))
            .with_token(scope.token().cloned());
        match self.wait {
            Some(_) => request.as_long_poll().outlasting_its_wait(),
            None => request,
        }
    }

    /// The names. An empty list is not an error.
    ///
    /// # Errors
    /// [`RequestError`] for anything but a list. [`RequestError::Garbled`] for an empty one without
    /// its index, which anybody may have sent.
    pub fn parse(response: &Response) -> Result<NameList, RequestError> {
        let index = answer::index(response, WITHOUT_INDEX);
        let filtered = answer::is_filtered(response);
        if response.status() == 404 {
            return Ok(NameList {
                index: index?,
                filtered,
                names: Vec::new(),
            });
        }
        let body = answer::served(response)?;
        let index = index?;
        let names: Vec<String> = serde_json::from_slice(body)
            .map_err(|error| garbled("not a list of names", error).of(response))?;
        if index == Index::ZERO && names.is_empty() {
            return Err(RequestError::garbled(WITHOUT_INDEX).of(response));
        }
        Ok(NameList {
            index,
            filtered,
            names,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::line;
    use super::*;

    #[test]
    fn it_asks_for_the_names_up_to_the_next_slash() {
        let names = |path, wait, consistent| {
            ListNames {
                path,
                wait,
                consistent,
            }
            .request(&Scope::new())
        };
        let request = names("service/db/", None, true);
        assert_eq!(
            line(&request),
            "GET /v1/kv/service/db/?keys&separator=%2F&consistent"
        );
        assert!(!request.is_long_poll());
        let wait = Some((Index(7), Duration::from_secs(2)));
        let request = names("service/db/a", wait, false);
        assert_eq!(
            line(&request),
            "GET /v1/kv/service/db/a?keys&separator=%2F&index=7&wait=2s"
        );
        assert!(request.is_long_poll());
    }

    /// The answers are those of Consul 1.8.7.
    #[test]
    fn names_are_read_with_their_index() {
        let body = r#"["p/.lock","p/711f3fa9-5828-b27b-fcd6-aa3ab698c8c2","p/deep/","p/x"]"#;
        let response = Response::new(200, body).with_header("X-Consul-Index", "17");
        let list = ListNames::parse(&response).unwrap();
        assert_eq!((list.index, list.filtered), (Index(17), false));
        assert_eq!(list.names.len(), 4);
        assert_eq!(list.names[2], "p/deep/");
    }

    #[test]
    fn names_without_an_index_are_read_and_can_not_be_waited_on() {
        let list = ListNames::parse(&Response::new(200, r#"["p/.lock"]"#)).unwrap();
        assert_eq!((list.index, list.names.len()), (Index::ZERO, 1));
    }

    #[test]
    fn nothing_below_the_prefix_is_no_error_and_garbage_is() {
        let index = |response: Response| response.with_header("X-Consul-Index", "7");
        let none = ListNames::parse(&index(Response::new(404, ""))).unwrap();
        assert!(none.names.is_empty());
        for response in [
            Response::new(404, "<html>"),
            Response::new(200, "[]"),
            index(Response::new(200, "{}")),
            index(Response::new(200, r#"["p/.lock""#)),
            index(Response::new(200, "[1]")),
        ] {
            let error = ListNames::parse(&response).unwrap_err();
            assert!(matches!(error, RequestError::Garbled { .. }), "{error}");
        }
        let denied = ListNames::parse(&Response::new(403, "Permission denied")).unwrap_err();
        assert!(denied.is_permanent(), "{denied}");
    }
}
