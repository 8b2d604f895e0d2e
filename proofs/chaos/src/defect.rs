//! The deliberate defect of this process, if any.

use semaphore_core::defect;

use crate::failure::Failure;

/// Switches a defect on in this process.
///
/// # Errors
/// [`Failure::Defect`] if there is none of that name.
pub fn switch_on(name: Option<&str>) -> Result<(), Failure> {
    let defect = name.map(str::parse).transpose();
    defect::switch_on(
        defect.map_err(|error: defect::UnknownDefect| Failure::Defect(error.to_string()))?,
    );
    Ok(())
}
