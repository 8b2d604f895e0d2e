//! The subject of errors, notices and log lines: which semaphore, election or client, and at which
//! agent.

use core::fmt;
use std::sync::Arc;

use crate::one_line::brief_name;

/// A semaphore, an election or a whole client, and its agent.
///
/// The handles add it to each error and notice. A machine that is driven by hand does not know its
/// agent, so its subject is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject(Option<Arc<Known>>);

#[derive(Debug, PartialEq, Eq)]
struct Known {
    kind: Kind,
    name: String,
    limit: Option<u32>,
    agent: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Semaphore,
    Election,
    Client,
}

impl Subject {
    /// The semaphore under this prefix, which was built with this limit.
    pub(crate) fn of_semaphore(prefix: &str, limit: u32, agent: Option<String>) -> Self {
        Self::new(Kind::Semaphore, prefix, Some(limit), agent)
    }

    /// The election of this key.
    pub(crate) fn of_election(key: &str, agent: Option<String>) -> Self {
        Self::new(Kind::Election, key, None, agent)
    }

    /// A whole client.
    pub(crate) fn of_client(agent: Option<String>) -> Self {
        Self::new(Kind::Client, "", None, agent)
    }

    fn new(kind: Kind, name: &str, limit: Option<u32>, agent: Option<String>) -> Self {
        Self(Some(Arc::new(Known {
            kind,
            name: name.to_owned(),
            limit,
            agent,
        })))
    }

    /// The prefix of the semaphore, or the key of the election. Empty for a client, and if it is
    /// unknown.
    pub fn name(&self) -> &str {
        self.0.as_ref().map_or("", |known| &known.name)
    }

    /// The limit that the semaphore was built with. `None` for an election.
    pub fn limit(&self) -> Option<u32> {
        self.0.as_ref()?.limit
    }

    /// Whether it is a whole client.
    pub fn is_client(&self) -> bool {
        self.name_of(Kind::Client).is_some()
    }

    /// Whether it is an election.
    pub fn is_election(&self) -> bool {
        self.election().is_some()
    }

    /// The prefix, if it is a semaphore.
    pub fn semaphore(&self) -> Option<&str> {
        self.name_of(Kind::Semaphore)
    }

    /// The key, if it is an election.
    pub fn election(&self) -> Option<&str> {
        self.name_of(Kind::Election)
    }

    /// The address of the agent, without secrets.
    pub fn agent(&self) -> Option<&str> {
        self.0.as_ref()?.agent.as_deref()
    }

    /// Whether it is unknown.
    pub fn is_unknown(&self) -> bool {
        self.0.is_none()
    }

    /// Becomes the other one if it is unknown.
    pub(crate) fn or_set(&mut self, other: &Self) {
        if self.is_unknown() {
            self.clone_from(other);
        }
    }

    fn name_of(&self, kind: Kind) -> Option<&str> {
        let known = self.0.as_ref().filter(|it| it.kind == kind)?;
        Some(&known.name)
    }

    /// The beginning of an error's text: the subject and a colon.
    pub(crate) fn intro(&self) -> impl fmt::Display {
        struct Intro<'a>(&'a Subject);

        impl fmt::Display for Intro<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                if self.0.is_unknown() {
                    return Ok(());
                }
                write!(f, "{}: ", self.0)
            }
        }

        Intro(self)
    }
}

impl Subject {
    /// The beginning of a loss's text: the subject, and that it is lost.
    pub(crate) fn intro_of_loss(&self) -> String {
        if self.is_unknown() {
            String::new()
        } else {
            format!("{self}: lost: ")
        }
    }
}

/// `semaphore "service/db" at http://127.0.0.1:8500`.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Known {
            kind, name, agent, ..
        }) = self.0.as_deref()
        else {
            return f.write_str("the semaphore or election");
        };
        let name = brief_name(name);
        match kind {
            Kind::Semaphore => write!(f, "semaphore {name:?}")?,
            Kind::Election => write!(f, "election {name:?}")?,
            Kind::Client => f.write_str("client")?,
        }
        match agent {
            Some(agent) => write!(f, " at {agent}"),
            None => Ok(()),
        }
    }
}
