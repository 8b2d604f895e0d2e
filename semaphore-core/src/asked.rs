//! The request that an error is about, and the permission that it needs.

use core::fmt;
use std::sync::Arc;

use percent_encoding::percent_decode_str;

use crate::one_line::brief_name;
use crate::subject::Subject;

/// The failed request and its subject, as far as they are known. It has neither token nor body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked(Option<Arc<Known>>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    subject: Subject,
    line: Option<Line>,
}

/// The shown part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    method: &'static str,
    /// Decoded, and without its query.
    path: String,
    is_recursive: bool,
    has_token: bool,
}

impl Asked {
    /// An unknown request.
    pub(crate) const fn unknown() -> Self {
        Self(None)
    }

    /// A request with this target.
    pub(crate) fn of(method: &'static str, target: &str, has_token: bool) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let line = Line {
            method,
            path: percent_decode_str(path).decode_utf8_lossy().into_owned(),
            is_recursive: query.split('&').any(|it| it == "recurse"),
            has_token,
        };
        Self(Some(Arc::new(Known {
            subject: Subject::default(),
            line: Some(line),
        })))
    }

    /// Adds this subject, unless there is one already.
    #[must_use]
    pub(crate) fn or_about(self, subject: &Subject) -> Self {
        if !self.subject().is_unknown() || subject.is_unknown() {
            return self;
        }
        let mut known = self.0.map(Arc::unwrap_or_clone).unwrap_or_default();
        known.subject = subject.clone();
        Self(Some(Arc::new(known)))
    }

    /// The semaphore or election that it was sent for.
    pub fn subject(&self) -> Subject {
        self.0
            .as_ref()
            .map_or_else(Subject::default, |it| it.subject.clone())
    }

    /// Method and path: `PUT /v1/session/create`.
    pub fn request(&self) -> Option<String> {
        let line = self.line()?;
        Some(format!("{} {}", line.method, line.path))
    }

    /// The permission that its ACL token needs, as Consul's policies spell it:
    /// `key "service/db/.lock" write`.
    pub fn permission(&self) -> Option<String> {
        let Line {
            method,
            path,
            is_recursive,
            ..
        } = self.line()?;
        let access = if *method == "GET" { "read" } else { "write" };
        if let Some(key) = path.strip_prefix("/v1/kv/") {
            let kind = if *is_recursive { "key_prefix" } else { "key" };
            let key = brief_name(key);
            return Some(format!("{kind} {key:?} {access}"));
        }
        if path.starts_with("/v1/session/") {
            return Some(format!(
                "session {access} on the node that the session stands on"
            ));
        }
        if path == "/v1/txn" {
            let subject = self.subject();
            let semaphore = subject.semaphore();
            let keys =
                semaphore.map(|prefix| format!("key_prefix {:?} write", brief_name(prefix) + "/"));
            let key = || Some(format!("key {:?} write", brief_name(subject.election()?)));
            return keys.or_else(key);
        }
        None
    }

    /// Whether it had a token, if that is known.
    pub(crate) fn has_token(&self) -> Option<bool> {
        Some(self.line()?.has_token)
    }

    fn line(&self) -> Option<&Line> {
        self.0.as_ref()?.line.as_ref()
    }
}

/// The request, or other words if it is unknown.
impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line() {
            Some(line) => write!(f, "{} {}", line.method, brief_name(&line.path)),
            None => f.write_str("a request"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_which_permission_it_takes() {
        let semaphore = Subject::of_semaphore("a b", 1, None);
        for (method, target, permission) in [
            (
                "GET",
                "/v1/kv/a%20b/?recurse&index=7",
                Some("key_prefix \"a b/\" read"),
            ),
            ("GET", "/v1/kv/a/.lock", Some("key \"a/.lock\" read")),
            ("PUT", "/v1/kv/a/x?cas=0", Some("key \"a/x\" write")),
            ("DELETE", "/v1/kv/a/x", Some("key \"a/x\" write")),
            (
                "PUT",
                "/v1/session/create",
                Some("session write on the node that the session stands on"),
            ),
            ("PUT", "/v1/txn?dc=b", Some("key_prefix \"a b/\" write")),
            ("GET", "/v1/status/leader", None),
        ] {
            let asked = Asked::of(method, target, true).or_about(&semaphore);
            assert_eq!(asked.permission().as_deref(), permission, "{target}");
        }
        let txn = Asked::of("PUT", "/v1/txn", true);
        assert_eq!(txn.permission(), None);
        let txn = txn.or_about(&Subject::of_election("leader", None));
        assert_eq!(txn.permission().as_deref(), Some("key \"leader\" write"));
    }

    #[test]
    fn whose_it_was_is_told_once() {
        let (a, b) = (
            Subject::of_semaphore("a", 1, None),
            Subject::of_semaphore("b", 1, None),
        );
        let asked = Asked::default().or_about(&Subject::default());
        assert_eq!(asked, Asked::default());
        let asked = asked.or_about(&a).or_about(&b);
        assert_eq!(asked.subject(), a);
        assert_eq!(asked.to_string(), "a request");
    }
}
