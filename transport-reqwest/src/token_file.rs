//! Tokens that are replaced while the process runs.

use std::env;
use std::path::PathBuf;

use semaphore_core::BuildError;
use semaphore_core::adapter::{Files as _, TokenFile, TokenProvider};

use crate::disk::Disk;
use crate::token_from_env;

/// The token in this file, for [`Builder::token_source`](semaphore_core::Builder::token_source).
/// The file is read again when it has changed, and when Consul has refused its token; see
/// [`TokenFile`].
///
/// # Errors
/// [`BuildError::File`] if the file can't be read or holds no token.
pub fn token_file(path: impl Into<PathBuf>) -> Result<TokenFile, BuildError> {
    let path = path.into();
    let (shown, stamped) = (path.display().to_string(), path.clone());
    TokenFile::new(
        shown,
        move || Disk.stamp(&stamped),
        move || Disk.read(&path),
    )
}

/// The token that the environment names, see [`token_from_env`]. It follows changes of the file in
/// `CONSUL_HTTP_TOKEN_FILE`. `None` if the environment names no token.
///
/// # Errors
/// As [`token_from_env`].
pub fn token_source_from_env() -> Result<Option<TokenProvider>, BuildError> {
    let Some(token) = token_from_env()? else {
        return Ok(None);
    };
    let path = env::var_os("CONSUL_HTTP_TOKEN_FILE").filter(|path| !path.is_empty());
    // If the file is empty, `CONSUL_HTTP_TOKEN` is used.
    let file = path.and_then(|path| token_file(path).ok());
    Ok(Some(match file {
        Some(file) => TokenProvider::new(file),
        None => TokenProvider::new(token),
    }))
}
