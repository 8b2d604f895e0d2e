//! Every error of the core, typed.

/// What is wrong with a value that the caller gave. Found before anything is sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidInput {
    /// The token is empty or holds a character that can't travel in an HTTP header, such as a
    /// line break. The token itself is not shown.
    #[error("the ACL token is empty or has characters that an HTTP header can't carry")]
    Token,
}
