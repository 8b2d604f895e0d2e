//! An error with its causes, in one line: for logs and stories.

use core::error::Error;
use core::fmt;

pub(crate) struct WithCauses<'a>(pub(crate) &'a dyn Error);

impl fmt::Display for WithCauses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = self.0.to_string();
        f.write_str(&told)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // Some errors name their causes themselves.
            if !told.contains(&text) {
                write!(f, ": {text}")?;
                told = text;
            }
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, RequestError};
    use crate::transport::{TransportError, TransportErrorKind};

    #[test]
    fn each_cause_is_told_once() {
        let cause = TransportError::with_source(TransportErrorKind::NotSent, "no route to host");
        let error = Error::Request(RequestError::Transport(cause));
        let text = WithCauses(&error).to_string();
        assert_eq!(text.matches("could not be reached").count(), 1, "{text}");
        assert_eq!(text.matches("no route to host").count(), 1, "{text}");
    }
}
