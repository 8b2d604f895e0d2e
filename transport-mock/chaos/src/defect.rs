//! The deliberate defect of this build, if it has any.

use crate::failure::Failure;

/// Switches a defect on in this process.
///
/// # Errors
/// [`Failure::Defect`] when there is none of that name, or none at all in this build.
#[cfg(semaphore_defects)]
pub fn switch_on(name: Option<&str>) -> Result<(), Failure> {
    let defect = name.map(str::parse).transpose();
    semaphore_core::defect::switch_on(defect.map_err(|error| {
        let error: semaphore_core::defect::UnknownDefect = error;
        Failure::Defect(error.to_string())
    })?);
    Ok(())
}

/// Switches a defect on in this process.
///
/// # Errors
/// [`Failure::Defect`] when there is none of that name, or none at all in this build.
#[cfg(not(semaphore_defects))]
pub fn switch_on(name: Option<&str>) -> Result<(), Failure> {
    match name {
        None => Ok(()),
        Some(name) => Err(Failure::Defect(format!(
            "{name:?} needs a build with --cfg semaphore_defects: see scripts/chaos"
        ))),
    }
}
