//! What flags have in common.

use semaphore_core::sans_io::SessionOptions;
use semaphore_core::{InvalidInput, Prefix};

/// Parses `--prefix`.
///
/// # Errors
/// [`InvalidInput`], with what is wrong.
pub fn prefix(text: &str) -> Result<Prefix, InvalidInput> {
    Prefix::new(text)
}

/// Parses `--own-node`.
///
/// # Errors
/// [`InvalidInput`], with what is wrong.
pub fn own_node(text: &str) -> Result<String, InvalidInput> {
    SessionOptions::new().with_own_node(text)?;
    Ok(text.to_owned())
}
