//! `DELETE /v1/kv/<key>`: removes a key. With an index, only if it has not changed.

use super::answer;
use super::target::Target;
use crate::error::RequestError;
use crate::http::{Method, Request, Response};
use crate::id::Index;
use crate::input::Scope;

/// Deletes a key.
#[derive(Clone, Copy, Debug)]
pub struct DeleteKey<'a> {
    /// The key.
    pub key: &'a str,
    /// The `ModifyIndex` that the key must still have. `None` deletes it in any state.
    pub index: Option<Index>,
}

impl DeleteKey<'_> {
    /// The request.
    pub fn request(&self, scope: &Scope) -> Request {
        let target = Target::key(self.key);
        let target = match self.index {
            Some(index) => target.with("cas", index),
            None => target,
        };
        target.ending(Method::Delete, scope)
    }

    /// Whether it is gone; false if it has changed since the given index.
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
    fn it_is_plain_or_fenced_by_an_index() {
        let delete = |index| {
            let key = "a/b";
            line(&DeleteKey { key, index }.request(&Scope::new()))
        };
        assert_eq!(delete(None), "DELETE /v1/kv/a/b");
        assert_eq!(delete(Some(Index(7))), "DELETE /v1/kv/a/b?cas=7");
    }
}
