//! Why a run could not be done.

use std::error::Error;

/// Why a run could not be done or judged. It says nothing about the semaphore.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A step of the run failed.
    #[error("{doing} failed")]
    Step {
        /// Which step.
        doing: &'static str,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The defect that was asked for does not exist in this build.
    #[error("{0}")]
    Defect(String),
}

impl Failure {
    /// A step that failed.
    pub fn step(doing: &'static str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Step {
            doing,
            source: source.into(),
        }
    }

    /// The text with all causes.
    pub fn with_causes(&self) -> String {
        in_words(self)
    }
}

/// An error with all its causes.
pub(crate) fn in_words(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push_str(": ");
        words.push_str(&error.to_string());
        cause = error.source();
    }
    words
}

/// Adds to an error what was being done.
pub(crate) trait Try<T> {
    /// Adds these words.
    fn doing(self, doing: &'static str) -> Result<T, Failure>;
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> Try<T> for Result<T, E> {
    fn doing(self, doing: &'static str) -> Result<T, Failure> {
        self.map_err(|source| Failure::step(doing, source))
    }
}
