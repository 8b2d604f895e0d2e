//! What flags have in common.

use semaphore_core::{InvalidInput, Prefix};

/// Reads `--prefix`.
///
/// # Errors
/// [`InvalidInput`] saying what is wrong with it.
pub fn prefix(text: &str) -> Result<Prefix, InvalidInput> {
    Prefix::new(text)
}
