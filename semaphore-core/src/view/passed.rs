//! Who was passed: waiters who left a slot unused until somebody behind them took it.

use std::collections::BTreeSet;

use super::View;
use crate::id::SessionId;
use crate::record::Record;

impl View {
    /// The waiters here who are ahead of somebody that the later record admits, when too few slots
    /// were free here for both. `overtaken` are not waited for, and have no turn.
    pub(crate) fn passed_by(
        &self,
        later: &Record,
        overtaken: &BTreeSet<SessionId>,
    ) -> Vec<SessionId> {
        let Some(record) = self.record() else {
            return Vec::new();
        };
        let free = record.free();
        let waiting = self.waiters().map(|it| &it.session);
        let waiting: Vec<_> = waiting.filter(|it| !overtaken.contains(it)).collect();
        let is_admitted = |session: &&SessionId| later.holds(session.as_str());
        let last = waiting.iter().rposition(is_admitted);
        let ahead = last.filter(|at| *at >= free).unwrap_or_default();
        let passed = waiting.into_iter().take(ahead);
        passed.filter(|it| !is_admitted(it)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{A, B, C, key, lock, view};
    use super::*;

    const D: &str = "dddddddd-0000-0000-0000-000000000000";

    /// `A`, `B`, `C` and `D` came in this order. Some hold, and later others do.
    #[track_caller]
    fn passed(before: &[&str], later: &[&str], overtaken: &[&str]) -> Vec<String> {
        let keys = [(D, 40), (B, 20), (A, 10), (C, 30)];
        let keys = keys.map(|(id, at)| key(&format!("jobs/{id}"), id, at));
        let lock = lock(&format!(r#"{{"Limit":2,"Holders":{before:?}}}"#));
        let mut record = Record::new(2);
        for holder in later {
            record.add(holder);
        }
        let overtaken = overtaken.iter().map(|id| SessionId::new(*id).unwrap());
        let passed = view(&[keys.to_vec(), vec![lock]].concat())
            .passed_by(&record, &overtaken.collect::<BTreeSet<_>>());
        passed.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn whoever_waits_ahead_of_one_who_was_not_next_is_passed() {
        assert_eq!(passed(&[D], &[D, B], &[]), [A]);
        assert_eq!(passed(&[D], &[D, C], &[]), [A, B]);
        assert_eq!(passed(&[], &[C], &[]), [A, B]);
    }

    #[test]
    fn where_slots_are_free_for_both_nobody_is_passed() {
        assert_eq!(passed(&[], &[B], &[]), [""; 0]);
        assert_eq!(passed(&[D], &[D, A], &[]), [""; 0]);
    }

    #[test]
    fn whoever_was_admitted_too_is_not_passed() {
        assert_eq!(passed(&[D], &[A, B], &[]), [""; 0]);
        assert_eq!(passed(&[D], &[A, C], &[]), [B]);
    }

    #[test]
    fn whoever_need_not_be_waited_for_takes_nobodys_turn() {
        assert_eq!(passed(&[], &[C], &[A]), [""; 0]);
        assert_eq!(passed(&[D], &[D, C], &[A]), [B]);
    }

    #[test]
    fn where_nobody_was_admitted_nobody_is_passed() {
        assert_eq!(passed(&[A, B], &[A], &[]), [""; 0]);
        assert_eq!(passed(&[A], &[A, "stranger"], &[]), [""; 0]);
        assert_eq!(passed(&[], &[], &[]), [""; 0]);
    }

    #[test]
    fn where_there_is_no_record_nothing_is_known_of_turns() {
        let key = key(&format!("jobs/{A}"), A, 10);
        let passed = view(&[key]).passed_by(&Record::new(2), &BTreeSet::new());
        assert_eq!(passed, []);
    }
}
