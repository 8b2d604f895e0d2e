//! Paths and queries, percent-encoded.

use core::fmt::Display;
use core::fmt::Write as _;
use core::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::http::{Method, Priority, Request};
use crate::id::Index;
use crate::input::{Scope, go_duration};

/// The path and query of a request, under construction.
pub(super) struct Target {
    text: String,
    has_query: bool,
}

impl Target {
    /// Starts from a fixed path such as `/v1/session/create`.
    pub(super) fn new(path: &str) -> Self {
        Self {
            text: path.to_owned(),
            has_query: false,
        }
    }

    /// Starts from a key of the KV store.
    pub(super) fn key(key: &str) -> Self {
        Self::new(&format!("/v1/kv/{}", utf8_percent_encode(key, KEY)))
    }

    /// The target so far.
    pub(super) fn into_path(self) -> String {
        self.text
    }

    /// Adds `name=value`.
    pub(super) fn with(mut self, name: &str, value: impl Display) -> Self {
        self.separate();
        let value = value.to_string();
        // Writing to a `String` can't fail.
        let _ = write!(
            self.text,
            "{name}={}",
            utf8_percent_encode(&value, QUERY_VALUE)
        );
        self
    }

    /// Adds a parameter without a value.
    pub(super) fn with_flag(mut self, name: &str) -> Self {
        self.separate();
        self.text.push_str(name);
        self
    }

    /// The request, with datacenter, namespace, partition and token.
    pub(super) fn request(self, method: Method, scope: &Scope) -> Request {
        let target = scope
            .parameters()
            .fold(self, |target, (name, value)| target.with(name, value));
        Request::new(method, target.text).with_token(scope.token().cloned())
    }

    /// A write that is sent before others, since it ends something.
    pub(super) fn ending(self, method: Method, scope: &Scope) -> Request {
        self.request(method, scope).with_priority(Priority::Urgent)
    }

    /// A read. The leader confirms it if the scope or the caller wants that.
    pub(super) fn read(self, scope: &Scope, consistent: bool) -> Request {
        self.confirmed(scope, consistent)
            .request(Method::Get, scope)
    }

    pub(super) fn confirmed(self, scope: &Scope, consistent: bool) -> Self {
        if consistent || scope.consistent() {
            self.with_flag("consistent")
        } else {
            self
        }
    }

    /// A read, or a blocking query: it is answered when the index has passed this one, or after
    /// this time.
    pub(super) fn watch(
        self,
        wait: Option<(Index, Duration)>,
        scope: &Scope,
        consistent: bool,
    ) -> Request {
        let Some((index, wait)) = wait else {
            return self.read(scope, consistent);
        };
        self.with("index", index)
            .with("wait", go_duration(wait))
            .read(scope, consistent)
            .as_long_poll()
            .outlasting_its_wait()
    }

    fn separate(&mut self) {
        self.text.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
    }
}

/// The characters that stay unencoded in a query's value.
const QUERY_VALUE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// A key keeps its slashes.
const KEY: &AsciiSet = &QUERY_VALUE.remove(b'/');

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_a_url_reads_otherwise_is_encoded() {
        let scope = Scope::new()
            .with_datacenter("dc 1")
            .and_then(|scope| scope.with_namespace("n/s"))
            .and_then(|scope| scope.with_partition("p&q"))
            .unwrap();
        let target = Target::key("a b/ü?#%&=+").with("x", "1&y=2 3");
        assert_eq!(
            target.request(Method::Put, &scope).target(),
            "/v1/kv/a%20b/%C3%BC%3F%23%25%26%3D%2B?x=1%26y%3D2%203&dc=dc%201&ns=n%2Fs&partition=p%26q"
        );
    }

    #[test]
    fn consistency_is_asked_of_reads_only() {
        let scope = Scope::new().with_consistent_reads(true);
        let key = || Target::key("k");
        assert_eq!(key().request(Method::Put, &scope).target(), "/v1/kv/k");
        let consistent = "/v1/kv/k?consistent";
        assert_eq!(key().read(&scope, false).target(), consistent);
        assert_eq!(key().read(&Scope::new(), true).target(), consistent);
    }
}
