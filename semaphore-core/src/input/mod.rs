//! The caller's input, checked before anything is sent.

mod invalid;
mod lock_key;
mod path;
mod prefix;
mod scope;
mod session_options;
mod value;

pub use invalid::InvalidInput;
pub use lock_key::LockKey;
pub use path::Flaw;
pub(crate) use prefix::LOCK_NAME;
pub use prefix::Prefix;
pub use scope::Scope;
pub use session_options::{Behavior, SessionOptions};
pub use value::Value;

pub(crate) use session_options::{go_duration, parse_go_duration};

/// A name in a query or a JSON body: not empty, without control characters.
pub(crate) fn checked_name(what: &'static str, name: String) -> Result<String, InvalidInput> {
    if name.is_empty() || name.chars().any(char::is_control) {
        Err(InvalidInput::Name { what, name })
    } else {
        Ok(name)
    }
}

/// The longest name in the query of each request, in bytes. Together with two others and the
/// longest path it stays below the limits of all clients and proxies.
const MOST_IN_QUERY: usize = 400;

/// A name in the query of each request.
fn checked_in_query(what: &'static str, name: String) -> Result<String, InvalidInput> {
    let name = checked_name(what, name)?;
    let len = path::encoded_len(&name);
    if len > MOST_IN_QUERY {
        let max = MOST_IN_QUERY;
        return Err(InvalidInput::NameTooLong { what, len, max });
    }
    Ok(name)
}
