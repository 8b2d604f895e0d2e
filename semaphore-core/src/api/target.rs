//! Paths and queries, percent-encoded.

use core::fmt::Display;
use core::fmt::Write as _;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::input::Scope;

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

    /// Adds datacenter, namespace and partition.
    pub(super) fn scoped(self, scope: &Scope) -> String {
        scope
            .parameters()
            .fold(self, |target, (name, value)| target.with(name, value))
            .text
    }

    /// Like [`Self::scoped`], for a read: adds `consistent` if the scope or the caller wants it.
    pub(super) fn scoped_read(self, scope: &Scope, consistent: bool) -> String {
        if consistent || scope.consistent() {
            self.with_flag("consistent").scoped(scope)
        } else {
            self.scoped(scope)
        }
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
        let target = Target::key("a b/ü?#%&=+").with("x", "1&y=2 3").scoped(
            &Scope::new()
                .with_datacenter("dc 1")
                .and_then(|scope| scope.with_namespace("n/s"))
                .and_then(|scope| scope.with_partition("p&q"))
                .unwrap(),
        );
        assert_eq!(
            target,
            "/v1/kv/a%20b/%C3%BC%3F%23%25%26%3D%2B?x=1%26y%3D2%203&dc=dc%201&ns=n%2Fs&partition=p%26q"
        );
    }

    #[test]
    fn consistency_is_asked_of_reads_only() {
        let scope = Scope::new().with_consistent_reads(true);
        assert_eq!(Target::key("k").scoped(&scope), "/v1/kv/k");
        assert_eq!(
            Target::key("k").scoped_read(&scope, false),
            "/v1/kv/k?consistent"
        );
        assert_eq!(
            Target::key("k").scoped_read(&Scope::new(), true),
            "/v1/kv/k?consistent"
        );
    }
}
