//! What keys and prefixes have in common: segments between slashes, none of which Consul's HTTP
//! server would redirect to another key.

/// What is wrong with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    Empty,
    EmptySegment,
    DotSegment,
    ControlCharacter,
}

/// The path without one leading and one trailing slash.
pub(super) fn canonical(given: &str) -> Result<&str, Flaw> {
    if given.chars().any(char::is_control) {
        return Err(Flaw::ControlCharacter);
    }
    let trimmed = given.strip_prefix('/').unwrap_or(given);
    let trimmed = trimmed.strip_suffix('/').unwrap_or(trimmed);
    if trimmed.is_empty() {
        return Err(if given.len() <= 1 {
            Flaw::Empty
        } else {
            Flaw::EmptySegment
        });
    }
    for segment in trimmed.split('/') {
        match segment {
            "" => return Err(Flaw::EmptySegment),
            "." | ".." => return Err(Flaw::DotSegment),
            _ => {}
        }
    }
    Ok(trimmed)
}
