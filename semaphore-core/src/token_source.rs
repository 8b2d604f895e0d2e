//! The source of a handle's tokens: tokens expire and are replaced.

use core::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::api;
use crate::build_error::BuildError;
use crate::http::{Request, Response};
use crate::reloaded::{Files, Stamp};
use crate::token::Token;
use crate::transport::TransportError;

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

/// Sends the request with the source's token. If it is refused and the source has another one by
/// then, it is sent once more: a request that is refused for its token was not applied.
pub(crate) async fn authorized<S, A>(
    source: &S,
    request: Request,
    send: impl Fn(Request) -> A,
) -> Result<Response, TransportError>
where
    S: TokenSource + ?Sized,
    A: Future<Output = Result<Response, TransportError>>,
{
    let used = source.token();
    let answer = send(request.clone().with_token(used.clone())).await;
    if !answer.as_ref().is_ok_and(api::is_denied) {
        return answer;
    }
    source.refused(used.as_ref());
    let fresh = source.token();
    if fresh == used {
        return answer;
    }
    tracing::debug!(name: "token-changed", "a refused request is sent again with another token");
    send(request.with_token(fresh)).await
}

/// A token in a file, which is read again when the file has changed, and when a request was
/// refused. If the file is missing or has no token, for example while it is written, the last token
/// stays in use. That is logged once, until the file has changed.
///
/// White space around the token is ignored. `token_file` of an adapter crate makes it, or an
/// adapter that provides the file.
pub struct TokenFile {
    path: PathBuf,
    files: Box<dyn Files>,
    known: Mutex<Known>,
}

struct Known {
    /// `None` if there has been no token yet.
    token: Option<Token>,
    /// The stamp of the last read. `None` if the file must be read again in any case.
    stamp: Option<Stamp>,
    /// The state in which the file could not be used, if that was logged.
    unusable: Option<State>,
}

/// The stamp of a file, or that it is missing.
#[derive(Clone, Copy, PartialEq, Eq)]
struct State(Option<Stamp>);

impl TokenFile {
    /// The token in this file. `named_by` is the option that names the file, for errors.
    ///
    /// # Errors
    /// [`BuildError::File`] if it can't be read, or has no token.
    pub fn new(
        named_by: &'static str,
        path: impl Into<PathBuf>,
        files: impl Files + 'static,
    ) -> Result<Self, BuildError> {
        Self::or_else(named_by, path.into(), files, |path| {
            let empty = invalid(NO_TOKEN);
            Err(unusable(named_by, path, empty))
        })
    }

    /// The token in this file. If the file is empty, the token is that of `otherwise` until the
    /// file has one.
    ///
    /// # Errors
    /// [`BuildError::File`] if it can't be read, or has something else than a token; or the error of
    /// `otherwise`.
    pub(crate) fn or_else(
        named_by: &'static str,
        path: PathBuf,
        files: impl Files + 'static,
        otherwise: impl FnOnce(&Path) -> Result<Option<Token>, BuildError>,
    ) -> Result<Self, BuildError> {
        // Before the read, so that a change during it is seen the next time.
        let stamp = files.stamp(&path);
        let found = read_token(&files, &path);
        let token = match found.map_err(|source| unusable(named_by, &path, source))? {
            Some(token) => Some(token),
            None => otherwise(&path)?,
        };
        Ok(Self {
            path,
            files: Box::new(files),
            known: Mutex::new(Known {
                token,
                stamp,
                unusable: None,
            }),
        })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenSource for TokenFile {
    fn token(&self) -> Option<Token> {
        let stamp = self.files.stamp(&self.path);
        let mut known = self.known();
        if stamp.is_none() || stamp != known.stamp {
            let found = read_token(&*self.files, &self.path);
            let path = self.path.display();
            match found.and_then(|token| token.ok_or_else(|| invalid(NO_TOKEN))) {
                Ok(token) => {
                    let token = Some(token);
                    if token != known.token {
                        tracing::info!(name: "token-replaced", %path, "the token's file has another token");
                    }
                    *known = Known {
                        token,
                        stamp,
                        unusable: None,
                    };
                }
                Err(error) => {
                    if known.unusable.replace(State(stamp)) != Some(State(stamp)) {
                        let instead = match known.token {
                            Some(_) => "the token before it stays in use",
                            None => "requests are sent without a token",
                        };
                        tracing::warn!(name: "token-unreadable", %path, %error, "{instead}");
                    }
                    // It is checked again when it has changed, or at the next refusal.
                    known.stamp = stamp;
                }
            }
        }
        known.token.clone()
    }

    fn refused(&self, token: Option<&Token>) {
        let mut known = self.known();
        if token == known.token.as_ref() {
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

/// The token in the file. `None` if the file is empty.
fn read_token(files: &(impl Files + ?Sized), path: &Path) -> io::Result<Option<Token>> {
    let content = files.read(path)?;
    let text = core::str::from_utf8(&content).map_err(|_| invalid("it is no text"))?;
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let token = Token::new(text).map_err(|_| invalid(NO_TOKEN))?;
    Ok(Some(token))
}

const NO_TOKEN: &str = "there is no token in the file";

fn invalid(error: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn unusable(named_by: &'static str, path: &Path, source: io::Error) -> BuildError {
    BuildError::File {
        variable: named_by,
        path: path.display().to_string(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
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
            TokenFile::new("token_file", "token", self.clone())
        }
    }

    impl Files for File {
        fn stamp(&self, _: &Path) -> Option<Stamp> {
            let at = self.changed_at.load(Ordering::Relaxed);
            Some((Duration::from_secs(at), 7))
        }

        fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            match *self.content.lock().unwrap() {
                "missing" => Err(io::ErrorKind::NotFound.into()),
                content => Ok(content.into()),
            }
        }

        fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
            Ok(vec![path.to_owned()])
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
