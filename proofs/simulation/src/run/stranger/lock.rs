//! Strangers in an election. They do what Go's `api.Lock` and `consul lock` with one slot do. Or,
//! if they write records in another dialect than Go's, they do what the guide does with `curl`.
//!
//! A blocking query waits until the key is tied to nobody, then they acquire it. If that is refused
//! and nobody has the key, a lock delay runs, and they try again 5 s later. Go's clients leave a
//! key with other flags alone; the guide's neither send nor check flags. Afterwards `consul lock`
//! deletes the key by check-and-set, unless somebody has it or it has other flags.
//!
//! A release names only the session. One without an answer may be applied when the same session
//! leads again, and would end that term. Go's `api.Lock` makes a session for each `Lock` and ends
//! it after `Unlock`. The guide's keeps its session, unless a release got no answer.

use std::time::Duration;

use semaphore_core::SessionId;
use semaphore_core::adapter::Runtime as _;
use semaphore_core::sans_io::api::{AcquireKey, DeleteKey, Entry, LOCK_FLAGS, ReadKey, ReleaseKey};
use semaphore_core::sans_io::{Dialect, Index};

use super::{RETRY, Visitor};

const VALUE: &[u8] = b"stranger";

/// How long the guide and Go's client wait during a lock delay.
const LOCK_RETRY: Duration = Duration::from_secs(5);

/// The key in one read.
struct Seen {
    index: Index,
    session: Option<String>,
    flags: u64,
    /// `None` if there is no key.
    modify_index: Option<Index>,
}

impl Visitor {
    /// Waits until it leads. `None` if it can't go on.
    pub(super) async fn lock(&self, session: &SessionId) -> Option<()> {
        let mut index = None;
        loop {
            let seen = self.read_key(index).await?;
            if self.minds_flags() && seen.modify_index.is_some() && seen.flags != LOCK_FLAGS {
                return None;
            }
            match &seen.session {
                Some(leader) if leader == session.as_str() => return Some(()),
                Some(_) => index = Some(seen.index),
                None if self.acquire_key(session).await? => return Some(()),
                None => {
                    index = None;
                    let again = self.read_key(None).await?;
                    match again.session {
                        Some(_) => index = Some(again.index),
                        None => self.client.sleep(LOCK_RETRY).await,
                    }
                }
            }
        }
    }

    /// Whether the session may lead again.
    pub(super) async fn unlock(&self, session: &SessionId) -> bool {
        let key = &self.prefix.record_key();
        let flags = self.lock_flags();
        // The guide's release has no body, so the key is empty afterwards.
        let value = if self.minds_flags() { VALUE } else { b"" };
        let release = ReleaseKey {
            key,
            session,
            value,
            flags,
        };
        let is_answered = self
            .send_once(|scope| release.request(scope))
            .await
            .is_some();
        if !is_answered {
            self.client.sleep(RETRY).await;
            self.send(|scope| release.request(scope)).await;
        }
        is_answered && !self.minds_flags()
    }

    /// Deletes the key, unless somebody holds it.
    pub(super) async fn delete_lock(&self) -> Option<()> {
        let seen = self.read_key(None).await?;
        if seen.session.is_some() || seen.flags != LOCK_FLAGS {
            return None;
        }
        let key = &self.prefix.record_key();
        let index = Some(seen.modify_index?);
        let delete = DeleteKey { key, index };
        let deleted = self.send(|scope| delete.request(scope)).await;
        deleted.map(drop)
    }

    fn minds_flags(&self) -> bool {
        self.dialect == Dialect::Map
    }

    fn lock_flags(&self) -> u64 {
        if self.minds_flags() { LOCK_FLAGS } else { 0 }
    }

    async fn acquire_key(&self, session: &SessionId) -> Option<bool> {
        let key = &self.prefix.record_key();
        let (value, flags) = (VALUE, self.lock_flags());
        let acquire = AcquireKey {
            key,
            session,
            value,
            flags,
        };
        let acquired = self.send(|scope| acquire.request(scope)).await?;
        AcquireKey::parse(&acquired).ok()
    }

    async fn read_key(&self, index: Option<Index>) -> Option<Seen> {
        let key = &self.prefix.record_key();
        let read = ReadKey {
            key,
            wait: index.map(|index| (index, Duration::from_secs(15))),
            consistent: true,
        };
        let answer = self
            .send(|scope| read.request(scope).with_timeout(Duration::from_secs(25)))
            .await?;
        let (index, entry) = ReadKey::parse_at(&answer).ok()?;
        let session = entry
            .as_ref()
            .and_then(|it| it.session().map(str::to_owned));
        Some(Seen {
            index,
            session,
            flags: entry.as_ref().map_or(LOCK_FLAGS, Entry::flags),
            modify_index: entry.as_ref().map(Entry::modify_index),
        })
    }
}
