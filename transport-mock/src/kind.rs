//! What a request asks for, told from its method and target.

use std::fmt;

use semaphore_core::adapter::{Method, Request};

/// What a request asks of Consul.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RequestKind {
    /// `PUT /v1/session/create`
    SessionCreate,
    /// `PUT /v1/session/renew/<id>`
    SessionRenew,
    /// `PUT /v1/session/destroy/<id>`
    SessionDestroy,
    /// Any other `/v1/session/…`
    SessionRead,
    /// `GET /v1/kv/…` without an index
    KvRead,
    /// `GET /v1/kv/…?index=…`: a blocking query
    KvWatch,
    /// `PUT /v1/kv/…?acquire=…`
    KvAcquire,
    /// `PUT /v1/kv/…?release=…`
    KvRelease,
    /// `PUT` or `DELETE /v1/kv/…?cas=…`
    KvCas,
    /// A plain `PUT /v1/kv/…`
    KvPut,
    /// A plain `DELETE /v1/kv/…`
    KvDelete,
    /// `PUT /v1/txn`
    Txn,
    /// Anything else
    Other,
}

impl RequestKind {
    /// What `request` asks for.
    pub fn of(request: &Request) -> Self {
        let (path, query) = request
            .target()
            .split_once('?')
            .unwrap_or((request.target(), ""));
        let has = |name: &str| {
            query
                .split('&')
                .any(|pair| pair.split('=').next() == Some(name))
        };
        let Some(path) = path.strip_prefix("/v1/") else {
            return Self::Other;
        };
        match path.split_once('/').unwrap_or((path, "")) {
            ("kv", _) => match request.method() {
                Method::Get if has("index") => Self::KvWatch,
                Method::Get => Self::KvRead,
                Method::Put | Method::Delete if has("cas") => Self::KvCas,
                Method::Put if has("acquire") => Self::KvAcquire,
                Method::Put if has("release") => Self::KvRelease,
                Method::Put => Self::KvPut,
                Method::Delete => Self::KvDelete,
            },
            ("session", rest) => match rest.split('/').next() {
                Some("create") => Self::SessionCreate,
                Some("renew") => Self::SessionRenew,
                Some("destroy") => Self::SessionDestroy,
                _ => Self::SessionRead,
            },
            ("txn", _) => Self::Txn,
            _ => Self::Other,
        }
    }

    /// Whether a request of this kind changes something when it is applied.
    pub const fn is_write(self) -> bool {
        !matches!(
            self,
            Self::SessionRead | Self::KvRead | Self::KvWatch | Self::Other
        )
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::SessionCreate => "session create",
            Self::SessionRenew => "session renew",
            Self::SessionDestroy => "session destroy",
            Self::SessionRead => "session read",
            Self::KvRead => "kv read",
            Self::KvWatch => "kv watch",
            Self::KvAcquire => "kv acquire",
            Self::KvRelease => "kv release",
            Self::KvCas => "kv cas",
            Self::KvPut => "kv put",
            Self::KvDelete => "kv delete",
            Self::Txn => "txn",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for RequestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
