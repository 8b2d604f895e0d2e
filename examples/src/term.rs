//! A term of leadership made by hand: the guide's requests, one after the other. What renews, retries
//! and notices is left out; this is for programs that show how others see a leader.

use std::error::Error;
use std::time::Duration;

use semaphore_core::api::{AcquireKey, CreateSession, DestroySession, LOCK_FLAGS};
use semaphore_core::{Behavior, LockKey, Scope, SessionId, SessionOptions, Transport};

/// Somebody leads from its making until its end.
#[derive(Debug)]
pub struct Term {
    key: LockKey,
    scope: Scope,
    session: SessionId,
}

impl Term {
    /// Makes a session and acquires `key` with it.
    ///
    /// # Errors
    /// When Consul refuses, or another one leads.
    pub async fn begin(
        transport: &impl Transport,
        scope: &Scope,
        key: &LockKey,
        value: &str,
    ) -> Result<Self, Box<dyn Error + Send + Sync>> {
        // Without a lock delay the next one can lead at once, also after a crash: good for a show, not
        // for work. See `SessionOptions::with_lock_delay`.
        let options = SessionOptions::new()
            .with_name(format!("term of {value}"))?
            .with_lock_delay(Duration::ZERO)?
            .with_behavior(Behavior::Delete);
        let create = CreateSession { options: &options };
        let created = transport.send(create.request(scope)).await?;
        let term = Self {
            key: key.clone(),
            scope: scope.clone(),
            session: CreateSession::parse(&created)?,
        };
        match term.say(transport, value).await {
            Ok(()) => Ok(term),
            Err(error) => {
                term.end(transport).await?;
                Err(error)
            }
        }
    }

    /// Changes the value, through `acquire` as the guide demands.
    ///
    /// # Errors
    /// When Consul refuses, or another one leads.
    pub async fn say(
        &self,
        transport: &impl Transport,
        value: &str,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let acquire = AcquireKey {
            key: self.key.as_str(),
            session: &self.session,
            value: value.as_bytes(),
            flags: LOCK_FLAGS,
        };
        let answer = transport.send(acquire.request(&self.scope)).await?;
        if AcquireKey::parse(&answer)? {
            Ok(())
        } else {
            Err(format!("somebody else leads on {}", self.key).into())
        }
    }

    /// Destroys the session, and the key with it, as Consul does when its holder is silent for long.
    ///
    /// # Errors
    /// When Consul refuses.
    pub async fn end(
        &self,
        transport: &impl Transport,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let session = &self.session;
        let destroy = DestroySession { session };
        let answer = transport.send(destroy.request(&self.scope)).await?;
        Ok(DestroySession::parse(&answer)?)
    }
}
