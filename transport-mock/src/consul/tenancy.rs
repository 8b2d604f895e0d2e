//! Partitions and namespaces: where something is in a Consul Enterprise.

use std::borrow::Cow;

use semaphore_core::adapter::Response;

use super::answer;
use super::profile::{Edition, Profile};
use super::target::Query;

const DEFAULT: Cow<'static, str> = Cow::Borrowed("default");

/// A partition and a namespace in it. Community has only [`Tenancy::default`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenancy {
    partition: Cow<'static, str>,
    namespace: Cow<'static, str>,
}

impl Tenancy {
    /// A namespace of the default partition.
    pub fn of_namespace(name: &str) -> Self {
        Self::of(None, Some(name))
    }

    /// The namespace of this name in another partition.
    #[must_use]
    pub fn in_partition(self, name: &str) -> Self {
        Self::of(Some(name), Some(&self.namespace))
    }

    /// The partition's name.
    pub fn partition(&self) -> &str {
        &self.partition
    }

    /// The namespace's name.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A missing name means `default`.
    pub(super) fn of(partition: Option<&str>, namespace: Option<&str>) -> Self {
        let named = |name: Option<&str>| {
            let name = name.filter(|name| !name.is_empty());
            name.map_or(DEFAULT, |name| Cow::Owned(name.to_owned()))
        };
        Self {
            partition: named(partition),
            namespace: named(namespace),
        }
    }

    /// The tenancy in a query, or the answer of an agent that knows none.
    pub(super) fn asked(profile: Profile, query: &Query) -> Result<Self, Response> {
        let (namespace, partition) = (query.filled("ns"), query.filled("partition"));
        let rules = profile.rules();
        let partition = partition.filter(|_| rules.knows_partitions);
        if profile.edition == Edition::Enterprise {
            return Ok(Self::of(partition, namespace));
        }
        let refuse = |name: &str, what: &str| {
            let text = format!(
                "Invalid query parameter: \"{name}\" - {what} are a Consul Enterprise feature"
            );
            Err(answer::bad_request(text))
        };
        if namespace.is_some() {
            return refuse("ns", "Namespaces");
        }
        if partition.is_some() {
            return refuse("partition", "Partitions");
        }
        Ok(Self::default())
    }
}

impl Default for Tenancy {
    fn default() -> Self {
        Self {
            partition: DEFAULT,
            namespace: DEFAULT,
        }
    }
}
