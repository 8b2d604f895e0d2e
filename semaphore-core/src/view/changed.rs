//! Views without a list: what a transaction read, and known changes since the last list.

use super::{Contender, Key, Lock, Source, View};
use crate::api::{Entry, KeyList};
use crate::id::{Index, SessionId};
use crate::input::Prefix;
use crate::record::Record;

impl View {
    /// The prefix as read by a transaction that also wrote below it, at `index`.
    pub(crate) fn of_tree(
        prefix: &Prefix,
        index: Index,
        entries: Vec<Entry<'_>>,
        filtered: bool,
    ) -> Self {
        let list = KeyList {
            index,
            filtered,
            entries,
        };
        Self {
            source: Source::Transaction,
            ..Self::new(prefix, &list)
        }
    }

    /// Adds a contender of ours, while nothing below the prefix was newer than its key. Others may
    /// have entered meanwhile.
    pub(crate) fn enter(&mut self, contender: Contender) {
        self.entered = self.entered.max(contender.modify_index);
        self.lock_key(contender);
    }

    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// Our write has replaced the record of this view, or created it.
    pub(crate) fn write_record(&mut self, record: Record, index: Index) {
        self.lock = Some(Lock {
            modify_index: index,
            create_index: self.lock.as_ref().map_or(index, |it| it.create_index),
            record: Ok(record),
        });
        self.index = self.index.max(index);
        self.version = self.version.max(index);
        self.compare_with_record();
    }

    /// A read of the record alone has returned this. Its holders may have come after the list.
    pub(crate) fn set_lock(&mut self, lock: Lock) {
        // A contender that no longer holds its slot has left: it does not wait.
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
        self.compare_with_record();
    }

    /// This session's contender has claimed a slot. So all waiters ahead of it have moved on, or
    /// were passed.
    pub(crate) fn pass(&mut self, session: &SessionId) {
        let Key::Tied(last) = self.key(session) else {
            return;
        };
        let last = last.create_index;
        let record = self.record().cloned();
        let holds = |it: &Contender| {
            record
                .as_ref()
                .is_some_and(|record| record.holds(it.session.as_str()))
        };
        self.contenders
            .retain(|it| it.create_index > last || holds(it));
        self.line_up();
        self.source = Source::NewerRecord;
    }

    /// Our transaction has locked these contender keys. Each joins the end of the queue, in order.
    pub(crate) fn lock_keys(&mut self, mut contenders: Vec<Contender>) {
        contenders.sort_by(|a, b| a.place_in_queue().cmp(&b.place_in_queue()));
        for contender in contenders {
            self.lock_key(contender);
        }
    }

    /// Our transaction has locked a contender key.
    pub(crate) fn lock_key(&mut self, contender: Contender) {
        self.free.remove(&contender.session);
        if let Some((_, place)) = self.only_key(&contender.session)
            && self.contenders[place].create_index == contender.create_index
        {
            self.contenders[place] = contender;
            return;
        }
        self.delete_key(&contender.session);
        let last = self.contenders.last();
        if last.is_some_and(|last| last.place_in_queue() >= contender.place_in_queue()) {
            self.contenders.push(contender);
            self.line_up();
        } else {
            self.append(contender);
        }
    }

    /// Adds the last contender.
    fn append(&mut self, contender: Contender) {
        let session = contender.session.as_str();
        let (place, rank) = (self.contenders.len(), self.rank_of(session));
        if !self.record().is_some_and(|it| it.holds(session)) {
            self.waiting.push(place);
        }
        self.places.insert(rank, place);
        self.contenders.push(contender);
        if !self.keyless.is_empty() || self.renamed > 0 {
            self.compare_with_record();
        }
    }

    /// Our transaction has deleted a contender key.
    pub(crate) fn delete_key(&mut self, session: &SessionId) {
        self.free.remove(session);
        let is_there = self.contender(session.as_str()).is_some();
        let holds = self.record().is_some_and(|it| it.holds(session.as_str()));
        match self.only_key(session) {
            Some((rank, place)) if !holds && self.renamed == 0 => self.take_out(rank, place),
            _ if !is_there => {}
            _ => {
                self.contenders.retain(|it| it.session != *session);
                self.line_up();
            }
        }
    }

    /// A waiter has gone: those behind it move up.
    fn take_out(&mut self, rank: usize, place: usize) {
        self.contenders.remove(place);
        self.places.remove(rank);
        self.waiting.retain(|waiting| *waiting != place);
        let all = self.places.iter_mut().chain(&mut self.waiting);
        for behind in all.filter(|it| **it > place) {
            *behind -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{A, B, C, key, lock, view};
    use super::*;
    use crate::api::ListKeys;
    use crate::error::Conflict;
    use crate::http::Response;

    const D: &str = "dddddddd-0000-0000-0000-000000000000";

    fn session(id: &str) -> SessionId {
        SessionId::new(id).unwrap()
    }

    fn record(holders: &[&str]) -> Record {
        let mut record = Record::new(2);
        for holder in holders {
            record.add(holder);
        }
        record
    }

    /// `A`, `B`, `C` and `D` in the order of the queue, at the indexes 10 to 40, and the holders.
    fn queue(holders: &[&str]) -> View {
        let keys = [(D, 40), (B, 20), (A, 10), (C, 30)];
        let keys = keys.map(|(id, at)| key(&format!("jobs/{id}"), id, at));
        let lock = lock(&format!(r#"{{"Limit":2,"Holders":{holders:?}}}"#));
        view(&[keys.to_vec(), vec![lock]].concat())
    }

    fn contender(id: &str, create: u64, modify: u64) -> Contender {
        Contender {
            session: session(id),
            create_index: Index(create),
            modify_index: Index(modify),
            lock_index: 1,
            flags: 0,
            eviction: None,
            value: None,
        }
    }

    fn waiters(view: &View) -> Vec<&str> {
        view.waiters().map(|it| it.session.as_str()).collect()
    }

    /// Those with a key, in the order in which they came. Each must be found by its session, and no
    /// others.
    #[track_caller]
    fn contenders(view: &View) -> Vec<&str> {
        let found: Vec<_> = view.contenders().iter().collect();
        for id in [A, B, C, D] {
            let listed = found.iter().find(|it| it.session.as_str() == id);
            let tied = match view.key(&session(id)) {
                Key::Tied(contender) => Some(contender),
                _ => None,
            };
            assert_eq!(tied, listed.copied(), "{id}");
        }
        found.iter().map(|it| it.session.as_str()).collect()
    }

    #[test]
    fn what_a_transaction_read_is_a_view_at_its_index() {
        let body = [
            key(&format!("jobs/{B}"), B, 40),
            key(&format!("jobs/{A}"), A, 30),
        ];
        let response =
            Response::new(200, format!("[{}]", body.join(","))).with_header("X-Consul-Index", "1");
        let entries = ListKeys::parse(&response).unwrap().entries;
        let prefix = Prefix::new("jobs").unwrap();
        assert!(View::of_tree(&prefix, Index(35), Vec::new(), true).is_filtered());
        let view = View::of_tree(&prefix, Index(35), entries, false);
        assert_eq!(view.source(), Source::Transaction);
        assert_eq!(view.index(), Index(35));
        assert_eq!(view.version(), Index(40));
        assert!(!view.is_filtered());
        assert_eq!(contenders(&view), [A, B]);
        assert!(view.lock().is_none());
    }

    #[test]
    fn a_write_of_ours_replaces_the_record_and_makes_the_view_newer() {
        let mut view = queue(&[A]);
        view.write_record(record(&[B]), Index(110));
        assert_eq!(view.record_index(), Index(110));
        assert_eq!((view.index(), view.version()), (Index(110), Index(110)));
        assert_eq!(waiters(&view), [A, C, D]);
        assert_eq!(contenders(&view), [A, B, C, D]);
        assert_eq!(
            view.source(),
            Source::List,
            "the same write moved all of it"
        );
        // A list that is newer than the write keeps its state.
        view.write_record(record(&[C]), Index(105));
        assert_eq!(view.record_index(), Index(105));
        assert_eq!((view.index(), view.version()), (Index(110), Index(110)));
    }

    #[test]
    fn whoever_is_in_the_record_no_more_has_left_and_does_not_wait() {
        let mut view = queue(&[A, B]);
        view.set_lock(Lock {
            modify_index: Index(120),
            create_index: Index(50),
            record: Ok(record(&[B, C])),
        });
        assert_eq!(contenders(&view), [B, C, D]);
        assert_eq!(waiters(&view), [D]);
        assert_eq!(view.record_index(), Index(120));
        assert_eq!((view.index(), view.version()), (Index(100), Index(120)));
        assert_eq!(view.source(), Source::NewerRecord);
    }

    #[test]
    fn a_record_that_is_not_understood_says_nothing_of_who_has_left() {
        let mut view = queue(&[A]);
        let reason = "no record".to_owned();
        view.set_lock(Lock {
            modify_index: Index(120),
            create_index: Index(50),
            record: Err(Conflict::Record { reason }),
        });
        assert_eq!(contenders(&view), [A, B, C, D]);
        assert!(view.record().is_none());
        view.set_lock(Lock {
            modify_index: Index(130),
            create_index: Index(50),
            record: Ok(record(&[B])),
        });
        assert_eq!(contenders(&view), [A, B, C, D]);
        assert_eq!(waiters(&view), [A, C, D]);
    }

    #[test]
    fn when_one_has_claimed_all_ahead_of_it_are_gone_but_those_who_hold() {
        let mut view = queue(&[A]);
        view.pass(&session(C));
        assert_eq!(contenders(&view), [A, D]);
        assert_eq!(waiters(&view), [D]);
        assert_eq!(view.source(), Source::NewerRecord);
    }

    #[test]
    fn the_claim_of_the_first_passes_nobody_else() {
        let mut view = queue(&[]);
        view.pass(&session(A));
        assert_eq!(contenders(&view), [B, C, D]);
        view.pass(&session(D));
        assert_eq!(contenders(&view), [""; 0]);
    }

    #[test]
    fn one_who_is_not_in_the_view_passes_nobody() {
        let mut view = queue(&[]);
        view.delete_key(&session(B));
        view.pass(&session(B));
        assert_eq!(contenders(&view), [A, C, D]);
        assert_eq!(view.source(), Source::List);
    }

    #[test]
    fn where_there_is_no_record_nobody_holds() {
        let keys = [(A, 10), (B, 20)].map(|(id, at)| key(&format!("jobs/{id}"), id, at));
        let mut view = view(&keys);
        view.pass(&session(A));
        assert_eq!(contenders(&view), [B]);
    }

    #[test]
    fn a_key_that_was_locked_stands_in_its_place() {
        let mut view = queue(&[]);
        view.delete_key(&session(B));
        view.lock_key(contender(B, 35, 130));
        assert_eq!(contenders(&view), [A, C, B, D]);
        // A key that was locked again is there once, with its new index.
        view.lock_key(contender(A, 10, 140));
        assert_eq!(contenders(&view), [A, C, B, D]);
        assert_eq!(view.contenders()[0].modify_index, Index(140));
    }

    #[test]
    fn a_key_that_was_tied_to_nobody_is_one_no_more_when_it_is_locked_or_deleted() {
        for is_locked in [true, false] {
            let mut view = view(&[
                key(&format!("jobs/{A}"), "", 10),
                key(&format!("jobs/{B}"), "", 20),
                key(&format!("jobs/{C}"), C, 30),
            ]);
            if is_locked {
                view.lock_key(contender(A, 10, 110));
                assert_eq!(contenders(&view), [A, C]);
            } else {
                view.delete_key(&session(A));
                assert_eq!(contenders(&view), [C]);
                assert_eq!(view.key(&session(A)), Key::Absent);
            }
            assert!(matches!(view.key(&session(B)), Key::Free(_)));
        }
    }

    /// Its order must be that of [`View::line_up`].
    #[track_caller]
    fn assert_lined_up(view: &View) {
        let mut again = view.clone();
        again.line_up();
        assert_eq!(format!("{view:?}"), format!("{again:?}"));
    }

    #[test]
    fn each_change_leaves_what_all_of_it_anew_would_show() {
        let mut rng = fastrand::Rng::with_seed(1);
        let ids = [A, B, C, D];
        for _ in 0..300 {
            let listed = ids.map(|id| {
                let named = [id.to_owned(), id.to_ascii_uppercase(), format!("of-{id}")];
                let name = &named[if rng.bool() { 0 } else { rng.usize(..3) }];
                let tied = rng.u8(..4) > 0;
                key(
                    &format!("jobs/{name}"),
                    if tied { id } else { "" },
                    rng.u64(1..5),
                )
            });
            let holders: Vec<_> = ids
                .iter()
                .filter_map(|id| match rng.u8(..5) {
                    0 | 1 => Some((*id).to_owned()),
                    2 => Some(id.to_ascii_uppercase()),
                    _ => None,
                })
                .collect();
            let lock = lock(&format!(r#"{{"Limit":2,"Holders":{holders:?}}}"#));
            let mut view = view(&[listed.to_vec(), vec![lock]].concat());
            assert_lined_up(&view);
            for at in 1..12 {
                let id = rng.choice(ids).unwrap_or(A);
                match rng.u8(..3) {
                    0 => view.delete_key(&session(id)),
                    1 => view.lock_key(contender(id, rng.u64(1..at + 2), 200 + at)),
                    _ => view.write_record(record(&[id, rng.choice(ids).unwrap_or(B)]), Index(200)),
                }
                assert_lined_up(&view);
            }
        }
    }

    #[test]
    fn whose_key_was_deleted_is_not_alive() {
        let mut view = queue(&[B]);
        view.delete_key(&session(B));
        assert_eq!(contenders(&view), [A, C, D]);
        assert!(!view.is_alive(B));
        assert!(view.record().unwrap().holds(B), "the record is another key");
        view.delete_key(&session(B));
        assert_eq!(contenders(&view), [A, C, D]);
    }
}
