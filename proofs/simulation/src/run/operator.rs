//! An operator's deeds with sessions, keys and records.

use semaphore_core::sans_io::api::LOCK_FLAGS;
use semaphore_core::sans_io::{Method, Record, Request};

use super::book::Loss;
use super::{Judged, Run};

impl Run<'_> {
    pub(super) fn destroy_session(&mut self, nth: usize) -> Judged {
        self.world.consul(|consul, now| {
            let count = consul.sessions().count().max(1);
            let session = consul.sessions().nth(nth % count);
            if let Some(session) = session.map(|it| it.id().to_owned()) {
                consul.destroy_session(now, &session);
            }
        });
        self.judge_ending()
    }

    pub(super) fn delete_key(&mut self, prefix: usize, nth: usize) -> Judged {
        let number = prefix;
        let Some(prefix) = self.prefixes.get(number) else {
            return Ok(());
        };
        let (directory, lock) = (prefix.directory(), prefix.record_key());
        let deleted = self.world.consul(|consul, now| {
            let keys: Vec<_> = consul
                .entries(&directory)
                .map(transport_mock::consul::Entry::key)
                .filter(|key| *key != lock)
                .collect();
            let key = keys.get(nth % keys.len().max(1))?;
            let session = key.strip_prefix(&directory)?.to_owned();
            consul.submit(
                now,
                &Request::new(Method::Delete, format!("/v1/kv/{key}")).with_token(self.token()),
            );
            Some(session)
        });
        if let Some(session) = deleted {
            let loss = Loss::removed(self.seen.index());
            self.book.lock().take(number, &session, loss, false);
        }
        self.judge_operation()
    }

    /// Changes the record, if there is one.
    pub(super) fn edit(&mut self, prefix: usize, edit: impl FnOnce(&mut Record)) -> Judged {
        let key = self
            .prefixes
            .get(prefix)
            .map(semaphore_core::Prefix::record_key);
        let record = self.world.consul(|consul, _| {
            let entry = consul.entry(key.as_deref()?)?;
            Record::decode(entry.value(), entry.flags()).ok()
        });
        if let Some(mut record) = record {
            edit(&mut record);
            let flags = record.flags();
            self.submit_on(prefix, |key| {
                Request::new(Method::Put, format!("{key}?flags={flags}")).with_body(record.encode())
            });
        }
        self.judge_operation()
    }

    /// Removes a holder from the record, or releases an election's key that its leader holds.
    pub(super) fn remove_holder(&mut self, prefix: usize, nth: usize) -> Judged {
        if !self.plan.place(prefix).is_election() {
            return self.edit(prefix, |record| {
                let holder = record.holders().nth(nth % record.holders().len().max(1));
                if let Some(holder) = holder.map(str::to_owned) {
                    record.retain(|it| it != holder);
                }
            });
        }
        if let Some(leader) = self.seen.holders(prefix).first() {
            self.submit_on(prefix, |key| {
                let target = format!("{key}?release={leader}&flags={LOCK_FLAGS}");
                Request::new(Method::Put, target)
            });
        }
        self.judge_operation()
    }

    /// Changes the value of an election, without acquiring the key.
    pub(super) fn overwrite(&mut self, prefix: usize) -> Judged {
        if self.plan.place(prefix).is_election() {
            self.submit_on(prefix, |key| {
                let target = format!("{key}?flags={LOCK_FLAGS}");
                Request::new(Method::Put, target).with_body("by hand")
            });
        }
        self.judge_operation()
    }

    /// Removes foreign data.
    pub(super) fn repair(&mut self, prefix: usize) -> Judged {
        if self.seen.is_garbled(prefix) {
            self.submit_on(prefix, |key| Request::new(Method::Delete, key));
        }
        self.judge_operation()
    }

    /// Sends a request for the record of a prefix directly to Consul.
    pub(super) fn submit_on(&mut self, prefix: usize, request: impl FnOnce(String) -> Request) {
        let Some(prefix) = self.prefixes.get(prefix) else {
            return;
        };
        let request = request(format!("/v1/kv/{}", prefix.record_key())).with_token(self.token());
        self.world.consul(|consul, now| {
            consul.submit(now, &request);
        });
    }
}
