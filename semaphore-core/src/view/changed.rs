//! Views that no list has shown: what a transaction read, and what is known to have changed since.

use super::{Contender, Key, Lock, Source, View};
use crate::api::{Entry, KeyList};
use crate::id::{Index, SessionId};
use crate::input::Prefix;
use crate::record::Record;

impl View {
    /// The prefix as a transaction read it that also wrote below it, at `index`.
    pub(crate) fn of_tree(prefix: &Prefix, index: Index, entries: Vec<Entry<'_>>) -> Self {
        let list = KeyList {
            index,
            filtered: false,
            entries,
        };
        Self {
            source: Source::Transaction,
            ..Self::new(prefix, &list)
        }
    }

    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// A write of ours has replaced the record that this view shows.
    pub(crate) fn write_record(&mut self, record: Record, index: Index) {
        self.lock = Some(Lock {
            modify_index: index,
            record: Ok(record),
        });
        self.index = self.index.max(index);
        self.version = self.version.max(index);
    }

    /// A read of the record alone shows it so. Its holders may have come after the list.
    pub(crate) fn set_lock(&mut self, lock: Lock) {
        // Whoever held a slot and holds it no more has left: it does not wait.
        if let (Some(before), Ok(after)) = (self.record().cloned(), &lock.record) {
            let stays = |it: &Contender| {
                let session = it.session.as_str();
                after.holds(session) || !before.holds(session)
            };
            self.contenders.retain(stays);
            self.line_up();
        }
        self.version = self.version.max(lock.modify_index);
        self.lock = Some(lock);
        self.source = Source::NewerRecord;
    }

    /// The contender of this session has claimed. So all who waited ahead of it have gone on, or
    /// have been passed: these.
    pub(crate) fn pass(&mut self, session: &SessionId) -> Vec<SessionId> {
        let Key::Tied(last) = self.key(session) else {
            return Vec::new();
        };
        let last = last.create_index;
        let record = self.record().cloned();
        let holds = |it: &Contender| {
            record
                .as_ref()
                .is_some_and(|record| record.holds(it.session.as_str()))
        };
        let contenders = core::mem::take(&mut self.contenders).into_iter();
        let (stay, passed): (Vec<_>, Vec<_>) =
            contenders.partition(|it| it.create_index > last || holds(it));
        self.contenders = stay;
        self.line_up();
        self.source = Source::NewerRecord;
        passed.into_iter().map(|it| it.session).collect()
    }

    /// A transaction of ours has locked a contender key.
    pub(crate) fn lock_key(&mut self, contender: Contender) {
        self.delete_key(&contender.session);
        self.contenders.push(contender);
        self.line_up();
    }

    /// A transaction of ours has deleted a contender key.
    pub(crate) fn delete_key(&mut self, session: &SessionId) {
        self.contenders.retain(|it| it.session != *session);
        self.orphans.retain(|it| it.session != *session);
        self.line_up();
    }
}
