//! The values that leaders want, and those that the election's key has: S4 of values.
//!
//! A value is a number. Every candidate starts with zero. The others count the requested changes of
//! a run, so that each is different.

use std::fmt::Write as _;

use transport_mock::consul::Entry;

use super::monitor::Sent;
use crate::violation::Violation;

/// Every candidate starts with this value.
pub(super) const FIRST: u8 = 0;

/// The changes that leaders have asked for, as long as a check may need them.
#[derive(Clone, Debug, Default)]
pub(super) struct Values(Vec<Wanted>);

#[derive(Clone, Debug)]
struct Wanted {
    value: u8,
    /// The candidate that was asked. Its next terms start with this value.
    node: usize,
    /// The session of the leader that was asked.
    session: String,
    /// Whether its leader does not know the result yet.
    is_pending: bool,
    /// Whether the key has had this value while the session held it.
    was_shown: bool,
    /// Whether the leader was told that.
    was_told: bool,
}

impl Values {
    pub(super) fn ask(&mut self, node: usize, session: &str, value: u8) {
        self.0.push(Wanted {
            value,
            node,
            session: session.into(),
            is_pending: true,
            was_shown: false,
            was_told: false,
        });
    }

    /// A leader learns that the key has the wanted value. Returns whether it ever had.
    #[must_use]
    pub(super) fn told(&mut self, value: u8) -> bool {
        let mut wanted = self.0.iter_mut();
        let Some(wanted) = wanted.find(|it| it.value == value) else {
            return false;
        };
        wanted.is_pending = false;
        wanted.was_told = true;
        let was_shown = wanted.was_shown;
        let node = wanted.node;
        // No check needs the results of earlier changes any more.
        let before = |it: &&mut Wanted| it.node == node && it.value < value;
        for it in self.0.iter_mut().filter(before) {
            (it.was_shown, it.was_told) = (false, false);
        }
        was_shown
    }

    /// A leader learns that the change has failed, or there is nobody left to learn it.
    pub(super) fn ended(&mut self, value: u8) {
        if let Some(wanted) = self.0.iter_mut().find(|it| it.value == value) {
            wanted.is_pending = false;
        }
    }

    /// Checks a write of the key. A leader writes what it was asked to write, and leaves what it
    /// has written. Neither may be older than its last confirmed value. A late copy of an older
    /// write is allowed, since the guide's requests can't name the state that they were made from.
    /// When a session ends, the key keeps its value.
    pub(super) fn judge(
        &mut self,
        sent: &Sent<'_>,
        before: Option<&Entry>,
        after: &Entry,
    ) -> Result<(), Violation> {
        let writer = String::from(sent.name);
        let value = String::from_utf8_lossy(after.value()).into_owned();
        let of = number(after.value());
        if after.session().is_some() {
            let may = of.is_some_and(|of| self.may_write(sent.node, of, sent.is_late));
            if !may {
                return Err(Violation::WrongValueWritten { writer, value });
            }
            self.note_shown(sent.node, of);
        } else if before.and_then(Entry::session).is_some()
            && sent.is_release()
            && !of.is_some_and(|of| self.may_leave(sent.node, of))
        {
            return Err(Violation::WrongValueLeft { writer, value });
        }
        Ok(())
    }

    /// Forgets what no check needs. The last value of each node counts for its next terms.
    pub(super) fn forget(&mut self, is_alive: impl Fn(&str) -> bool) {
        let newest: Vec<_> = (self.0.iter())
            .map(|it| self.of(it.node).map(|it| it.value).max())
            .collect();
        let mut newest = newest.into_iter();
        self.0.retain(|it| {
            newest.next().flatten() == Some(it.value) || it.is_pending || is_alive(&it.session)
        });
    }

    pub(super) fn show_in(&self, text: &mut String) {
        for it in &self.0 {
            let Wanted {
                value,
                node,
                session,
                is_pending,
                was_shown,
                was_told,
            } = it;
            let _ = write!(
                text,
                "{value} {node} {session} {is_pending} {was_shown} {was_told};"
            );
        }
    }

    fn note_shown(&mut self, node: usize, value: Option<u8>) {
        let is_it = |it: &&mut Wanted| it.node == node && Some(it.value) == value;
        for it in self.0.iter_mut().filter(is_it) {
            it.was_shown = true;
        }
    }

    fn may_write(&self, node: usize, value: u8, is_late: bool) -> bool {
        let was_asked_for = value == FIRST || self.of(node).any(|it| it.value == value);
        was_asked_for && (is_late || value >= self.told_last(node))
    }

    fn may_leave(&self, node: usize, value: u8) -> bool {
        let is_shown = |it: &Wanted| it.value == value && it.was_shown;
        let was_shown = value == FIRST || self.of(node).any(is_shown);
        was_shown && value >= self.told_last(node)
    }

    fn told_last(&self, node: usize) -> u8 {
        let told = self.of(node).filter(|it| it.was_told);
        told.map(|it| it.value).max().unwrap_or(FIRST)
    }

    fn of(&self, node: usize) -> impl Iterator<Item = &Wanted> {
        self.0.iter().filter(move |it| it.node == node)
    }
}

/// The text of a value.
pub(super) fn text(value: u8) -> String {
    value.to_string()
}

fn number(text: &[u8]) -> Option<u8> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_leaves_what_was_shown_and_nothing_older_than_what_it_was_told() {
        let mut values = Values::default();
        let may_leave = |values: &Values| [0, 1, 2].map(|value| values.may_leave(0, value));
        values.ask(0, "a", 1);
        values.ask(0, "a", 2);
        assert_eq!(may_leave(&values), [true, false, false]);
        values.note_shown(1, Some(1));
        values.note_shown(0, Some(1));
        assert_eq!(may_leave(&values), [true, true, false]);
        assert!(values.told(1));
        assert_eq!(may_leave(&values), [false, true, false]);
        values.note_shown(0, Some(2));
        assert_eq!(may_leave(&values), [false, true, true]);
    }

    #[test]
    fn a_leader_writes_what_was_asked_for_and_only_a_late_copy_goes_back() {
        let mut values = Values::default();
        values.ask(0, "a", 1);
        let may_write = |values: &Values, value| {
            [false, true].map(|is_late| values.may_write(0, value, is_late))
        };
        assert_eq!(may_write(&values, 0), [true, true]);
        assert_eq!(may_write(&values, 1), [true, true]);
        assert_eq!(may_write(&values, 2), [false, false]);
        values.note_shown(0, Some(1));
        assert!(values.told(1));
        assert_eq!(may_write(&values, 0), [false, true]);
    }

    #[test]
    fn what_the_key_has_never_said_was_told_for_nothing() {
        let mut values = Values::default();
        values.ask(0, "a", 1);
        assert!(!values.told(1));
        assert!(!values.told(2));
    }

    #[test]
    fn a_change_is_known_until_its_session_has_ended_its_leader_has_learned_of_it_and_another_one_came()
     {
        let mut values = Values::default();
        values.ask(0, "a", 1);
        values.note_shown(0, Some(1));
        values.forget(|_| false);
        assert!(values.told(1), "the answer came after the session's end");
        values.forget(|_| false);
        assert_eq!(values.of(0).count(), 1, "the next term begins with it");
        values.ask(0, "b", 2);
        values.forget(|_| false);
        assert_eq!(values.of(0).count(), 1);
    }
}
