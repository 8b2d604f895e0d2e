//! An operator who uses this library while things go wrong.

use semaphore_core::manage::Eviction;
use semaphore_core::sans_io::Method;
use semaphore_core::{Prefix, Semaphore, SessionId};
use transport_mock::Delivered;
use transport_mock::consul::Consul;

use super::Run;
use super::book::{Book, Loss};
use crate::history::{Ending, Happening, Who};
use crate::plan::{Deed, Plan};

/// Its name in the world, which is nobody's: what it changes is an operator's change.
const OPERATOR: &str = "operator";

/// Why somebody is evicted.
const REASON: &str = "maintenance";

impl Run<'_> {
    /// Begins an operation at this prefix.
    pub(super) fn manage(&mut self, prefix: usize, deed: &Deed) {
        if self.plan.place(prefix).is_election() {
            return;
        }
        let builder = Semaphore::builder(Plan::prefix(prefix), self.plan.limit);
        let mut builder = builder.adopt_limit();
        if self.plan.access_control.is_some() {
            builder = builder.token("strangers");
        }
        let Ok(semaphore) = builder.connect(self.world.client(OPERATOR)) else {
            return;
        };
        let book = self.book.clone();
        let task = match *deed {
            Deed::Evict { nth, .. } => {
                let holders = self.seen.holders(prefix);
                let holder = holders.iter().nth(nth % holders.len().max(1));
                let Some(session) = holder.and_then(|it| SessionId::new(it).ok()) else {
                    return;
                };
                self.world.start(evict(semaphore, session, book))
            }
            Deed::SetLimit { limit, .. } => self.world.start(async move {
                let is_done = semaphore.resize(limit).await.is_ok();
                count(&book, is_done, "resize: done", "resize: refused");
                semaphore.shutdown().await;
            }),
            _ => self.world.start(async move {
                let is_done = semaphore.destroy().await.is_ok();
                count(&book, is_done, "destruction: done", "destruction: refused");
                semaphore.shutdown().await;
            }),
        };
        self.operations.push(task);
    }
}

async fn evict(semaphore: Semaphore, session: SessionId, book: Book) {
    let outcome = semaphore.evict(&session, REASON).await;
    book.lock().count_fault(match outcome {
        Ok(Eviction::Left) => "eviction: it left",
        Ok(Eviction::Ended) => "eviction: its session was ended",
        Ok(_) => "eviction: it was not here",
        Err(_) => "eviction: failed",
    });
    semaphore.shutdown().await;
}

fn count(book: &Book, is_done: bool, done: &'static str, refused: &'static str) {
    let name = if is_done { done } else { refused };
    book.lock().count_fault(name);
}

/// The prefix and session whose holder this write asks to go, if it was applied.
pub(super) fn asked_to_go(
    consul: &Consul,
    prefixes: &[Prefix],
    write: &Delivered,
) -> Option<Happening> {
    if write.host != OPERATOR || write.request.method() != Method::Put {
        return None;
    }
    let path = write.request.target().split('?').next()?;
    let key = path.strip_prefix("/v1/kv/")?;
    let mut numbered = prefixes.iter().enumerate();
    let (prefix, session) = numbered.find_map(|(number, prefix)| {
        let session = key.strip_prefix(&prefix.directory())?;
        Some((number, session.to_owned()))
    })?;
    let is_marked = consul.entry(key)?.value() == REASON.as_bytes();
    is_marked.then_some(Happening::Evicted { session, prefix })
}

impl Run<'_> {
    /// What an operator takes away with this library, as it takes effect.
    pub(super) fn note_taken(&self, changes: &[Happening]) {
        // An answer of this index shows all of it.
        let before = self.seen.index().saturating_sub(1);
        let mut book = self.book.lock();
        for change in changes {
            match change {
                Happening::SessionEnded {
                    session,
                    by: Ending::Destroyed(Who::Operator),
                } => {
                    let owner = self.seen.owner(session);
                    for prefix in self.seen.places_of(session) {
                        let is_guarded = matches!(owner, Some(Who::Ours(host)) if self.plan.is_guarded(host, prefix));
                        book.take(prefix, session, Loss::removed(before), is_guarded);
                    }
                }
                Happening::Changed(change) if change.by == Who::Operator => {
                    for session in change.taken_from() {
                        let term = change.term_before(session);
                        let loss = Loss {
                            term,
                            ..Loss::removed(before)
                        };
                        book.take(change.prefix, session, loss, false);
                    }
                }
                _ => {}
            }
        }
    }
}
