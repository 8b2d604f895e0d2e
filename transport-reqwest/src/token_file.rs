//! Tokens that are replaced while the process lives.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use std::{env, fs};

use semaphore_core::BuildError;
use semaphore_core::adapter::{TokenFile, TokenProvider};

use crate::token_from_env;

/// The token in this file, for [`Builder::token_source`](semaphore_core::Builder::token_source). The file is read again when
/// it has changed, and when Consul has refused its token; see [`TokenFile`].
///
/// # Errors
/// [`BuildError::File`] when it can't be read, or holds no token.
pub fn token_file(path: impl Into<PathBuf>) -> Result<TokenFile, BuildError> {
    let path = path.into();
    let (shown, stamped) = (path.display().to_string(), path.clone());
    TokenFile::new(shown, move || stamp(&stamped), move || fs::read(&path))
}

/// The token of the process's environment, see [`token_from_env`], which is replaced when `CONSUL_HTTP_TOKEN_FILE` gets another
/// content. None where the environment names no token.
///
/// # Errors
/// As [`token_from_env`].
pub fn token_source_from_env() -> Result<Option<TokenProvider>, BuildError> {
    let Some(token) = token_from_env()? else {
        return Ok(None);
    };
    let path = env::var_os("CONSUL_HTTP_TOKEN_FILE").filter(|path| !path.is_empty());
    // An empty file leaves the word to `CONSUL_HTTP_TOKEN`.
    let file = path.and_then(|path| token_file(path).ok());
    Ok(Some(match file {
        Some(file) => TokenProvider::new(file),
        None => TokenProvider::new(token),
    }))
}

/// When the file was changed last, since 1970, and its length.
fn stamp(path: &Path) -> Option<(Duration, u64)> {
    let metadata = fs::metadata(path).ok()?;
    let changed = metadata.modified().ok()?;
    Some((changed.duration_since(UNIX_EPOCH).ok()?, metadata.len()))
}
