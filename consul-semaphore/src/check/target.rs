//! What is checked.

use std::fmt;

use transport_ureq::{LockKey, Prefix};

use crate::failure::Failure;

pub(super) enum Target {
    Semaphore(Prefix),
    Election(LockKey),
}

impl Target {
    pub(super) fn new(name: &str, is_election: bool) -> Result<Self, Failure> {
        Ok(if is_election {
            Self::Election(LockKey::new(name)?)
        } else {
            Self::Semaphore(Prefix::new(name)?)
        })
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Semaphore(prefix) => prefix.as_str(),
            Self::Election(key) => key.as_str(),
        }
    }

    /// The least policy that a token needs for it, ready to paste.
    pub(super) fn policy(&self, node: Option<&str>) -> String {
        let keys = match self {
            Self::Semaphore(prefix) => format!("key_prefix {:?}", prefix.directory()),
            Self::Election(key) => format!("key {:?}", key.as_str()),
        };
        let session = match node {
            Some(node) => format!("session {node:?} {{ policy = \"write\" }}"),
            None => {
                "session_prefix \"\" { policy = \"write\" } # or: session \"NODE\", the agent's"
                    .to_owned()
            }
        };
        format!("{keys} {{ policy = \"write\" }}\n{session}\n")
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_policy_names_the_keys_and_the_node() {
        let semaphore = Target::new("service/db", false).unwrap();
        assert_eq!(
            semaphore.policy(Some("node-1")),
            "key_prefix \"service/db/\" { policy = \"write\" }\nsession \"node-1\" { policy = \"write\" }\n"
        );
        assert!(semaphore.policy(None).contains("session_prefix \"\""));
        let election = Target::new("service/db/leader", true).unwrap();
        assert_eq!(
            election.policy(Some("node-1")),
            "key \"service/db/leader\" { policy = \"write\" }\nsession \"node-1\" { policy = \"write\" }\n"
        );
    }
}
