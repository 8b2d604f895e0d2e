//! What every request to Consul carries besides its own parameters.

use super::checked_in_query;
use crate::input::InvalidInput;
use crate::token::Token;

/// ACL token, datacenter, namespace, partition and consistency of a request.
///
/// All participants of one semaphore must use the same datacenter, namespace and partition. The
/// same prefix in another one is another semaphore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    token: Option<Token>,
    datacenter: Option<String>,
    namespace: Option<String>,
    partition: Option<String>,
    consistent: bool,
}

impl Scope {
    /// The agent's datacenter, without a token.
    pub fn new() -> Self {
        Self::default()
    }

    /// With this ACL token. It needs `session` write, `key_prefix` read and write on the prefix.
    #[must_use]
    pub fn with_token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// In this datacenter (`?dc=`).
    ///
    /// # Errors
    /// [`InvalidInput::Name`].
    pub fn with_datacenter(mut self, name: impl Into<String>) -> Result<Self, InvalidInput> {
        self.datacenter = Some(checked_in_query("datacenter", name.into())?);
        Ok(self)
    }

    /// In this namespace (`?ns=`, Consul Enterprise).
    ///
    /// # Errors
    /// [`InvalidInput::Name`].
    pub fn with_namespace(mut self, name: impl Into<String>) -> Result<Self, InvalidInput> {
        self.namespace = Some(checked_in_query("namespace", name.into())?);
        Ok(self)
    }

    /// In this admin partition (`?partition=`, Consul Enterprise).
    ///
    /// # Errors
    /// [`InvalidInput::Name`].
    pub fn with_partition(mut self, name: impl Into<String>) -> Result<Self, InvalidInput> {
        self.partition = Some(checked_in_query("partition", name.into())?);
        Ok(self)
    }

    /// With `?consistent` on reads: the leader makes sure that it still leads before it answers.
    /// That costs a round trip between the servers. Without it, a former leader may give old
    /// answers for a moment. That delays decisions but never breaks the limit.
    #[must_use]
    pub fn with_consistent_reads(mut self, consistent: bool) -> Self {
        self.consistent = consistent;
        self
    }

    /// Fills missing values from `defaults`, except the consistency of reads.
    #[must_use]
    pub fn or(self, defaults: Self) -> Self {
        Self {
            token: self.token.or(defaults.token),
            datacenter: self.datacenter.or(defaults.datacenter),
            namespace: self.namespace.or(defaults.namespace),
            partition: self.partition.or(defaults.partition),
            consistent: self.consistent,
        }
    }

    /// The token.
    pub fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// The datacenter, if one is set.
    pub(crate) fn datacenter(&self) -> Option<&str> {
        self.datacenter.as_deref()
    }

    /// The namespace, if one is set.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The partition, if one is set.
    pub(crate) fn partition(&self) -> Option<&str> {
        self.partition.as_deref()
    }

    pub(crate) fn consistent(&self) -> bool {
        self.consistent
    }

    pub(crate) fn parameters(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("dc", self.datacenter()),
            ("ns", self.namespace()),
            ("partition", self.partition()),
        ]
        .into_iter()
        .filter_map(|(name, value)| value.map(|value| (name, value)))
    }
}
