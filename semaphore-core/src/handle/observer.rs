//! Observers, which are told what happens to a semaphore or an election.

use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use tracing::level_filters::LevelFilter;

use super::exchange::Exchange;
use super::log;
use crate::machine::Notice;
use crate::subject::Subject;
use crate::sync::{Mutex, lock};

/// Is told what happens to the semaphores and elections that were built with it.
///
/// The task that caused the notice calls it: yours, or the driver. It must not block, and its work
/// delays that task. All notices of one semaphore come in order, one at a time. It may use the
/// handles.
///
/// A closure is an observer:
/// ```
/// use semaphore_core::Semaphore;
/// use semaphore_core::observe::{Notice, Subject};
/// # use transport_mock::MockConsul;
/// # let world = MockConsul::new(1);
/// # let transport = world.client("node-1");
///
/// let semaphore = Semaphore::builder("service/db", 3)
///     .observer(|of: &Subject, notice: &Notice| {
///         if let Notice::Lost { reason, .. } = notice {
///             eprintln!("a slot of {of} is lost: {reason}");
///         }
///     })
///     .connect(transport)?;
/// # Ok::<(), semaphore_core::Error>(())
/// ```
pub trait Observer: Send + Sync {
    /// A semaphore, election or client was connected, and is observed from now on.
    fn connected(&self, of: &Subject) {
        let _ = of;
    }

    /// This happened to this semaphore or election, or to a whole client.
    fn notice(&self, of: &Subject, notice: &Notice);

    /// A request has ended. Requests about a [`Client`](crate::Client)'s shared sessions are only
    /// reported to the client's observers.
    fn exchange(&self, exchange: &Exchange) {
        let _ = exchange;
    }
}

impl<F: Fn(&Subject, &Notice) + Send + Sync> Observer for F {
    fn notice(&self, of: &Subject, notice: &Notice) {
        self(of, notice);
    }
}

/// The observers of a builder.
#[derive(Clone, Default)]
pub(crate) struct Observers(Vec<Arc<dyn Observer>>);

impl Observers {
    pub(super) fn add(&mut self, observer: Arc<dyn Observer>) {
        self.0.push(observer);
    }

    /// These, followed by others.
    pub(super) fn and(mut self, others: &Self) -> Self {
        self.0.extend(others.0.iter().cloned());
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reports the end of a request.
    pub(crate) fn exchange(&self, exchange: &Exchange) {
        for observer in &self.0 {
            observer.exchange(exchange);
        }
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Observers({})", self.0.len())
    }
}

/// What surrounds a machine: its observers and its farewell.
pub(super) struct Surroundings {
    pub(super) audience: Arc<Audience>,
    pub(super) farewell: Duration,
}

impl Surroundings {
    pub(super) fn new(subject: Subject, observers: Observers, farewell: Duration) -> Self {
        Self {
            audience: Arc::new(Audience::new(subject, observers)),
            farewell,
        }
    }
}

/// All observers of one machine, including the log.
pub(crate) struct Audience {
    subject: Subject,
    observers: Observers,
    span: tracing::Span,
    mail: Mutex<Mail>,
}

/// What is not reported yet.
#[derive(Default)]
struct Mail {
    notices: VecDeque<Notice>,
    /// The refusal or conflict that was reported last, until something is granted.
    standing: Option<String>,
    /// True if somebody is reporting. Others then leave their notices to that one, to keep the
    /// order.
    is_being_told: bool,
}

impl Audience {
    pub(super) fn new(subject: Subject, observers: Observers) -> Self {
        for observer in &observers.0 {
            observer.connected(&subject);
        }
        Self {
            span: log::span(&subject),
            subject,
            observers,
            mail: Mutex::new(Mail::default()),
        }
    }

    /// The span of the machine's log lines.
    pub(crate) fn span(&self) -> &tracing::Span {
        &self.span
    }

    pub(crate) fn observers(&self) -> &Observers {
        &self.observers
    }

    /// Returns true if there is any observer.
    pub(crate) fn is_there(&self) -> bool {
        !self.observers.0.is_empty() || LevelFilter::current() != LevelFilter::OFF
    }

    /// Adds notices. [`Self::tell`] reports them, when no lock is held.
    pub(crate) fn bring(&self, notices: impl Iterator<Item = Notice>) {
        let mut notices = notices.peekable();
        if notices.peek().is_some() {
            lock(&self.mail).notices.extend(notices);
        }
    }

    pub(crate) fn tell(&self) {
        {
            let mut mail = lock(&self.mail);
            if mail.is_being_told || mail.notices.is_empty() {
                return;
            }
            mail.is_being_told = true;
        }
        let mut telling = Telling::Going(self);
        while let Some(notice) = telling.next() {
            let is_news = self.is_news(&notice);
            self.span
                .in_scope(|| log::write(&self.subject, &notice, is_news));
            for observer in &self.observers.0 {
                observer.notice(&self.subject, &notice);
            }
        }
    }

    /// Returns true if it is no repetition: each later caller meets the same refusal or conflict.
    fn is_news(&self, notice: &Notice) -> bool {
        let mut mail = lock(&self.mail);
        match notice {
            Notice::Refused { error } | Notice::Conflict { error } => {
                let text = Some(error.to_string());
                let is_news = mail.standing != text;
                mail.standing = text;
                is_news
            }
            Notice::Granted { .. } => {
                mail.standing = None;
                true
            }
            _ => true,
        }
    }
}

/// The one that reports. If an observer panics, later notices are still reported.
enum Telling<'a> {
    Going(&'a Audience),
    Over,
}

impl Telling<'_> {
    /// The next notice. When there is none, the next caller of `tell` reports.
    fn next(&mut self) -> Option<Notice> {
        let Self::Going(audience) = self else {
            return None;
        };
        let mut mail = lock(&audience.mail);
        let next = mail.notices.pop_front();
        mail.is_being_told = next.is_some();
        drop(mail);
        if next.is_none() {
            *self = Self::Over;
        }
        next
    }
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        if let Self::Going(audience) = self {
            lock(&audience.mail).is_being_told = false;
        }
    }
}
