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

use judge::Spelling;
use semaphore_core::adapter::Runtime as _;

use super::literal::{self, LOCK_FLAGS};
use super::{Keys, RETRY, Visitor};
use crate::run::keys::Key;

const VALUE: &[u8] = b"stranger";

/// How long the guide and Go's client wait during a lock delay.
const LOCK_RETRY: Duration = Duration::from_secs(5);

/// The key in one read.
struct Seen {
    index: u64,
    session: Option<String>,
    flags: u64,
    /// `None` if there is no key.
    modify_index: Option<u64>,
}

impl Visitor {
    /// Waits until it leads. `None` if it can't go on.
    pub(super) async fn lock(&self, session: &str) -> Option<()> {
        let mut index = None;
        loop {
            let seen = self.read_key(index).await?;
            if self.minds_flags() && seen.modify_index.is_some() && seen.flags != LOCK_FLAGS {
                return None;
            }
            match &seen.session {
                Some(leader) if leader == session => return Some(()),
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
    pub(super) async fn unlock(&self, session: &str) -> bool {
        // The guide's release has no body, so the key is empty afterwards.
        let value = if self.minds_flags() { VALUE } else { b"" };
        let key = self.prefix.record_key();
        let release = literal::release(&key, session, value, self.lock_flags());
        let is_answered = self.send_once(&release).await.is_some();
        if !is_answered {
            self.client.sleep(RETRY).await;
            self.send(&release).await;
        }
        is_answered && !self.minds_flags()
    }

    /// Deletes the key, unless somebody holds it.
    pub(super) async fn delete_lock(&self) -> Option<()> {
        let seen = self.read_key(None).await?;
        if seen.session.is_some() || seen.flags != LOCK_FLAGS {
            return None;
        }
        let delete = literal::delete(&self.prefix.record_key(), Some(seen.modify_index?));
        self.send(&delete).await.map(drop)
    }

    fn minds_flags(&self) -> bool {
        self.spelling == Spelling::Map
    }

    fn lock_flags(&self) -> u64 {
        if self.minds_flags() { LOCK_FLAGS } else { 0 }
    }

    async fn acquire_key(&self, session: &str) -> Option<bool> {
        let key = self.prefix.record_key();
        let acquire = literal::acquire(&key, session, VALUE, self.lock_flags());
        literal::says(&self.send(&acquire).await?)
    }

    async fn read_key(&self, index: Option<u64>) -> Option<Seen> {
        let key = self.prefix.record_key();
        let keys = Keys::of(&self.send(&literal::read(&key, false, index)).await?)?;
        let found = keys.get(&key);
        Some(Seen {
            index: keys.index,
            session: found
                .as_ref()
                .and_then(|it| it.session().map(str::to_owned)),
            flags: found.as_ref().map_or(LOCK_FLAGS, Key::flags),
            modify_index: found.map(|it| it.modify_index()),
        })
    }
}
