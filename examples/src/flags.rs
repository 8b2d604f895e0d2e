//! What flags have in common.

use semaphore_core::sans_io::SessionOptions;
use semaphore_core::{InvalidInput, Prefix};

/// Reads `--prefix`.
///
/// # Errors
/// [`InvalidInput`] saying what is wrong with it.
pub fn prefix(text: &str) -> Result<Prefix, InvalidInput> {
    Prefix::new(text)
}

/// Reads `--own-node`.
///
/// # Errors
/// [`InvalidInput`] saying what is wrong with it.
pub fn own_node(text: &str) -> Result<String, InvalidInput> {
    SessionOptions::new().with_own_node(text)?;
    Ok(text.to_owned())
}
