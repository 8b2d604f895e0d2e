//! Observers: they are told what happens to a semaphore or an election.

use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use tracing::level_filters::LevelFilter;

use super::exchange::Exchange;
use super::log;
use super::recorder::Tape;
use crate::machine::Notice;
use crate::subject::Subject;
use crate::sync::Mutex;

/// It is told what happens to the semaphores and elections that were built with it.
///
/// It is called by the task that has caused the notice: yours, or the driver. It must not block, and its work delays them. All notices of one semaphore come in their order, one at a time. It may use the handles.
///
/// A closure is one:
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
    /// This has happened to that.
    fn notice(&self, of: &Subject, notice: &Notice);

    /// A request has ended. Those about sessions that a [`Client`](crate::Client) shares are told to its observers alone.
    fn exchange(&self, exchange: &Exchange) {
        let _ = exchange;
    }
}

impl<F: Fn(&Subject, &Notice) + Send + Sync> Observer for F {
    fn notice(&self, of: &Subject, notice: &Notice) {
        self(of, notice);
    }
}

/// Those whom a builder was told of.
#[derive(Clone, Default)]
pub(crate) struct Observers(Vec<Arc<dyn Observer>>);

impl Observers {
    pub(super) fn add(&mut self, observer: Arc<dyn Observer>) {
        self.0.push(observer);
    }

    /// These, and then those.
    pub(super) fn and(mut self, others: &Self) -> Self {
        self.0.extend(others.0.iter().cloned());
        self
    }
}

impl Observers {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A request has ended so.
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

/// Who is around a machine: who looks on, how long the end of a program waits for it, and who records it.
pub(super) struct Company {
    pub(super) audience: Audience,
    pub(super) farewell: Duration,
    pub(super) tape: Option<Tape>,
}

impl Company {
    pub(super) fn new(
        subject: Subject,
        observers: Observers,
        farewell: Duration,
        tape: Option<Tape>,
    ) -> Self {
        Self {
            audience: Audience::new(subject, observers),
            farewell,
            tape,
        }
    }
}

/// All who look on at one machine: the log, and the observers.
pub(crate) struct Audience {
    subject: Subject,
    observers: Observers,
    span: tracing::Span,
    mail: Mutex<Mail>,
}

/// What is still to be told.
#[derive(Default)]
struct Mail {
    notices: VecDeque<Notice>,
    /// Whether somebody is telling: a later one leaves it to that one, so that the order is kept.
    is_being_told: bool,
}

impl Audience {
    pub(super) fn new(subject: Subject, observers: Observers) -> Self {
        Self {
            span: log::span(&subject),
            subject,
            observers,
            mail: Mutex::new(Mail::default()),
        }
    }

    /// What is logged of the machine is logged within this.
    pub(crate) fn span(&self) -> &tracing::Span {
        &self.span
    }

    pub(crate) fn observers(&self) -> &Observers {
        &self.observers
    }

    /// Whether anybody looks on.
    pub(super) fn is_there(&self) -> bool {
        !self.observers.0.is_empty() || LevelFilter::current() != LevelFilter::OFF
    }

    /// These come next. They are told by [`Self::tell`], when no lock is held.
    pub(super) fn bring(&self, notices: impl Iterator<Item = Notice>) {
        let mut notices = notices.peekable();
        if notices.peek().is_some() {
            self.mail().notices.extend(notices);
        }
    }

    pub(super) fn tell(&self) {
        {
            let mut mail = self.mail();
            if mail.is_being_told || mail.notices.is_empty() {
                return;
            }
            mail.is_being_told = true;
        }
        let mut telling = Telling::Going(self);
        while let Some(notice) = telling.next() {
            self.span.in_scope(|| log::write(&self.subject, &notice));
            for observer in &self.observers.0 {
                observer.notice(&self.subject, &notice);
            }
        }
    }

    fn mail(&self) -> impl core::ops::DerefMut<Target = Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The one that tells. An observer that panics does not keep others from it.
enum Telling<'a> {
    Going(&'a Audience),
    Over,
}

impl Telling<'_> {
    /// What is told next. The next one after there was none tells.
    fn next(&mut self) -> Option<Notice> {
        let Self::Going(audience) = self else {
            return None;
        };
        let mut mail = audience.mail();
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
            audience.mail().is_being_told = false;
        }
    }
}
