//! `PUT /v1/kv/<key>?cas=<index>`: writes a key if it has not changed.

use super::answer;
use super::target::Target;
use crate::defect::{Defect, is_on};
use crate::error::RequestError;
use crate::http::{Method, Request, Response};
use crate::id::Index;
use crate::input::Scope;

/// Writes a key by check-and-set.
#[derive(Clone, Copy, Debug)]
pub struct CasKey<'a> {
    /// The key.
    pub key: &'a str,
    /// The `ModifyIndex` that the key must still have; zero when it must not exist.
    pub index: Index,
    /// The value to store.
    pub value: &'a [u8],
    /// Its flags.
    pub flags: u64,
}

/// The index upon which a check-and-set writes.
pub(super) fn upon(index: Index) -> Option<Index> {
    (!is_on(Defect::WriteWithoutCas)).then_some(index)
}

impl CasKey<'_> {
    /// The request.
    pub fn request(&self, scope: &Scope) -> Request {
        let target = Target::key(self.key);
        let target = match upon(self.index) {
            Some(index) => target.with("cas", index),
            None => target,
        };
        target
            .with("flags", self.flags)
            .request(Method::Put, scope)
            .with_body(self.value)
    }

    /// Whether it was written. The answer does not have the new index.
    ///
    /// # Errors
    /// [`RequestError`] for anything but `true` or `false`.
    pub fn parse(response: &Response) -> Result<bool, RequestError> {
        answer::flag(response)
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::line;
    use super::*;

    #[test]
    fn it_carries_the_index_that_the_decision_was_made_from() {
        let request = CasKey {
            key: "service/db/.lock",
            index: Index(901),
            value: br#"{"Limit":2,"Holders":[]}"#,
            flags: 0,
        }
        .request(&Scope::new());
        assert_eq!(
            line(&request),
            "PUT /v1/kv/service/db/.lock?cas=901&flags=0"
        );
        assert_eq!(request.body(), br#"{"Limit":2,"Holders":[]}"#);
    }

    #[test]
    fn true_and_false_are_the_only_answers() {
        assert!(CasKey::parse(&Response::new(200, "true")).unwrap());
        assert!(!CasKey::parse(&Response::new(200, "false\n")).unwrap());
        let proxy = CasKey::parse(&Response::new(200, "<html>")).unwrap_err();
        assert!(!proxy.was_not_applied());
    }
}
