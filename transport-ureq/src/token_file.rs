//! Tokens that are replaced while the process runs.

use std::env;
use std::path::PathBuf;

use semaphore_core::BuildError;
use semaphore_core::adapter::{AgentEnvironment, TokenFile, TokenProvider};

use crate::disk::Disk;

/// The token in this file, for [`Builder::token_source`](semaphore_core::Builder::token_source). The file is read again when
/// it has changed, and when Consul has refused its token; see [`TokenFile`].
///
/// # Errors
/// [`BuildError::File`] if the file can't be read or holds no token.
pub fn token_file(path: impl Into<PathBuf>) -> Result<TokenFile, BuildError> {
    TokenFile::new("token_file", path, Disk)
}

/// The source of the token that the environment names: the file of `CONSUL_HTTP_TOKEN_FILE`, which
/// is followed, else `CONSUL_HTTP_TOKEN`. `None` if the environment names no token. `from_env` of
/// the transport uses it.
///
/// # Errors
/// As [`AgentEnvironment::tokens`].
pub fn token_source_from_env() -> Result<Option<TokenProvider>, BuildError> {
    AgentEnvironment::tokens(|name| env::var_os(name), Disk)
}
