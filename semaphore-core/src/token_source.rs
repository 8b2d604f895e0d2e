//! The source of a handle's tokens: tokens expire and are replaced.

use core::fmt;
use core::time::Duration;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::build_error::BuildError;
use crate::token::Token;

/// Gives the ACL token of each request. [`Builder::token_source`](crate::Builder::token_source) takes one.
///
/// A [`Token`] is a source that never changes. A function is one: `|| Some(token)`, with the
/// present `token`. `token_file` of an adapter crate is one that reads a file again when it has
/// changed.
pub trait TokenSource: Send + Sync {
    /// The token to send now. With `None` the request has no token. It is called for each request,
    /// on the thread that sends it, so it must not block.
    fn token(&self) -> Option<Token>;

    /// Called when Consul has refused this token, or what it was used for (403). If
    /// [`token`](Self::token) returns another one afterwards, the request is sent once more with
    /// it.
    fn refused(&self, token: Option<&Token>) {
        let _ = token;
    }
}

impl TokenSource for Token {
    fn token(&self) -> Option<Token> {
        Some(self.clone())
    }
}

impl<F: Fn() -> Option<Token> + Send + Sync> TokenSource for F {
    fn token(&self) -> Option<Token> {
        self()
    }
}

/// Any source. Clones share it. `Debug` shows nothing of it.
#[derive(Clone)]
pub struct TokenProvider(Arc<dyn TokenSource>);

impl TokenProvider {
    /// A provider with this source.
    pub fn new(source: impl TokenSource + 'static) -> Self {
        Self(Arc::new(source))
    }
}

impl TokenSource for TokenProvider {
    fn token(&self) -> Option<Token> {
        self.0.token()
    }

    fn refused(&self, token: Option<&Token>) {
        self.0.refused(token);
    }
}

impl fmt::Debug for TokenProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenProvider(hidden)")
    }
}

/// A token in a file, which is read again when the file has changed, and when a request was
/// refused. If the file is missing or has no token, for example while it is written, the last token
/// stays in use. That is logged.
///
/// White space around the token is ignored. `token_file` of an adapter crate makes it, or an
/// adapter that provides the file.
pub struct TokenFile {
    path: String,
    stamp: Box<dyn Fn() -> Option<Stamp> + Send + Sync>,
    read: Box<dyn Fn() -> io::Result<Vec<u8>> + Send + Sync>,
    known: Mutex<Known>,
}

/// When a file was changed, since 1970, and its length.
type Stamp = (Duration, u64);

struct Known {
    token: Token,
    /// The stamp of the last read. `None` if the file must be read again in any case.
    stamp: Option<Stamp>,
}

impl TokenFile {
    /// A token in a file that `read` reads. `stamp` returns when the file was last changed, and its
    /// length. If that differs, the file is read again.
    ///
    /// # Errors
    /// [`BuildError::File`] if it can't be read, or has no token.
    pub fn new(
        path: impl Into<String>,
        stamp: impl Fn() -> Option<Stamp> + Send + Sync + 'static,
        read: impl Fn() -> io::Result<Vec<u8>> + Send + Sync + 'static,
    ) -> Result<Self, BuildError> {
        let path = path.into();
        // Before the read, so that a change during it is seen the next time.
        let first = stamp();
        let token = read_token(&read).map_err(|source| BuildError::File {
            variable: "CONSUL_HTTP_TOKEN_FILE",
            path: path.clone(),
            source,
        })?;
        Ok(Self {
            path,
            stamp: Box::new(stamp),
            read: Box::new(read),
            known: Mutex::new(Known {
                token,
                stamp: first,
            }),
        })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenSource for TokenFile {
    fn token(&self) -> Option<Token> {
        let stamp = (self.stamp)();
        let mut known = self.known();
        if stamp.is_none() || stamp != known.stamp {
            match read_token(&*self.read) {
                Ok(token) => {
                    if token != known.token {
                        tracing::info!(name: "token-replaced", path = self.path, "the token's file has another token");
                    }
                    *known = Known { token, stamp };
                }
                Err(error) => {
                    tracing::warn!(name: "token-unreadable", path = self.path, %error, "the last token stays in use");
                    // It is checked again when it has changed, or at the next refusal.
                    known.stamp = stamp;
                }
            }
        }
        Some(known.token.clone())
    }

    fn refused(&self, token: Option<&Token>) {
        let mut known = self.known();
        if token == Some(&known.token) {
            known.stamp = None;
        }
    }
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

fn read_token(read: &(impl Fn() -> io::Result<Vec<u8>> + ?Sized)) -> io::Result<Token> {
    let content = read()?;
    let invalid = |error: &'static str| io::Error::new(io::ErrorKind::InvalidData, error);
    let text = core::str::from_utf8(&content).map_err(|_| invalid("it is no text"))?;
    Token::new(text.trim()).map_err(|_| invalid("it holds no token"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A file in memory. It counts how often it is read.
    #[derive(Clone, Default)]
    struct File {
        content: Arc<Mutex<&'static str>>,
        changed_at: Arc<AtomicU64>,
        reads: Arc<AtomicU64>,
    }

    impl File {
        fn write(&self, content: &'static str, at: u64) {
            *self.content.lock().unwrap() = content;
            self.changed_at.store(at, Ordering::Relaxed);
        }

        fn open(&self) -> Result<TokenFile, BuildError> {
            let (stamped, read) = (self.clone(), self.clone());
            let stamp = move || {
                let at = stamped.changed_at.load(Ordering::Relaxed);
                Some((Duration::from_secs(at), 7))
            };
            let read = move || {
                read.reads.fetch_add(1, Ordering::Relaxed);
                match *read.content.lock().unwrap() {
                    "missing" => Err(io::ErrorKind::NotFound.into()),
                    content => Ok(content.into()),
                }
            };
            TokenFile::new("token", stamp, read)
        }
    }

    fn shown(source: &TokenFile) -> String {
        source.token().unwrap().reveal().to_owned()
    }

    #[test]
    fn a_file_is_read_again_when_it_has_changed_and_when_its_token_was_refused() {
        let file = File::default();
        file.write(" first\n", 1);
        let source = file.open().unwrap();
        for _ in 0..10 {
            assert_eq!(shown(&source), "first");
        }
        assert_eq!(file.reads.load(Ordering::Relaxed), 1);
        file.write("second", 2);
        assert_eq!(shown(&source), "second");
        // Within the resolution of the file system's clock.
        file.write("third", 2);
        assert_eq!(shown(&source), "second");
        source.refused(Some(&Token::new("first").unwrap()));
        assert_eq!(shown(&source), "second");
        source.refused(Some(&Token::new("second").unwrap()));
        assert_eq!(shown(&source), "third");
        assert_eq!(file.reads.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_file_that_can_t_be_used_leaves_the_last_token() {
        let file = File::default();
        file.write("first", 1);
        let source = file.open().unwrap();
        for (at, content) in [(2, "missing"), (3, ""), (4, "two words"), (5, "  \n")] {
            file.write(content, at);
            assert_eq!(shown(&source), "first", "{content:?}");
        }
        file.write("second", 6);
        assert_eq!(shown(&source), "second");
    }

    #[test]
    fn without_a_token_there_is_nothing_to_begin_with() {
        for content in ["missing", "", "two words"] {
            let file = File::default();
            file.write(content, 1);
            let error = file.open().unwrap_err();
            assert!(matches!(error, BuildError::File { .. }), "{error:?}");
            assert!(!format!("{error:?}").contains("two words"));
        }
    }

    #[test]
    fn debug_shows_the_path_alone() {
        let file = File::default();
        file.write("secret", 1);
        let shown = format!("{:?}", file.open().unwrap());
        assert_eq!(shown, r#"TokenFile { path: "token", .. }"#);
    }
}
