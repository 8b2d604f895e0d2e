//! The next read of a participant: what is due, or its one poll; and what its answer shows.
use crate::compose::compose;
use crate::defects::Defect;
use crate::known::{first_waiter, free_slots, just_ahead, named, waits};
use crate::learn::{accept_list, learn_record};
use crate::rules::touched;
use crate::scene::Scene;
use crate::state::{Due, FOREIGN, Index, Snapshot, State};

// Rule 6. The one poll of a participant.
pub(crate) enum Read {
    Nothing,
    /// What is due after a refusal, an unknown end, a touch.
    NewerRecord,
    PlainRecord,
    List,
    /// The polls: the record, from the one that we know; a key ahead, from its index in the line; a key of ours; the prefix.
    PollRecord,
    PollKey(usize),
    PollOwn(usize, Index),
    PollPrefix,
}

pub(crate) fn next_read(state: &State, q: usize, scene: &Scene) -> Read {
    let p = &state.participants[q];
    if p.crashed || p.contenders.iter().all(|c| !c.used) && !waits(p) {
        return Read::Nothing;
    }
    if p.due >= Due::List {
        return Read::List;
    }
    if p.due == Due::NewerRecord {
        return Read::NewerRecord;
    }
    // No poll is begun while a claim is under way or due: its answer is what the next poll begins from.
    if p.write.claims() || !scene.late_polls && compose(state, q, scene).is_some_and(|w| w.claims())
    {
        return Read::Nothing;
    }
    if p.touch_read {
        return Read::PlainRecord;
    }
    if p.no_poll {
        return Read::Nothing;
    }
    if let Some(g) = first_waiter(p) {
        let ahead = just_ahead(p, g.created);
        let foreign = ahead == Some(FOREIGN) && scene.foreign_is_other_program();
        let first = &p.contenders[g.first()];
        return match ahead {
            _ if scene.broken(Defect::PollsNothing) => Read::Nothing,
            _ if scene.broken(Defect::PollsOwnKey) => {
                Read::PollOwn(first.session as usize, first.key)
            }
            _ if scene.broken(Defect::RoomPollsRecord)
                && free_slots(p, scene)
                    + ((p.suspects & p.holders).count_ones() as usize).cast_signed()
                    > 0 =>
            {
                Read::PollRecord
            }
            None => Read::PollRecord,
            // Another program changes its key after the record: its key alone would not tell when the record moves.
            Some(_) if foreign && scene.broken(Defect::RecordBehindForeigner) => Read::PollRecord,
            Some(_) if foreign => Read::PollPrefix,
            Some(s) => Read::PollKey(s),
        };
    }
    let holder = p
        .contenders
        .iter()
        .find(|c| c.used && c.key != 0 && named(p, c));
    holder.map_or(Read::Nothing, |c| Read::PollOwn(c.session as usize, c.key))
}

/// A read is answered with what `seen` shows, by a former leader if `old`. Returns whether anything followed.
pub(crate) fn answer_read(
    state: &mut State,
    q: usize,
    seen: &Snapshot,
    old: bool,
    scene: &Scene,
) -> bool {
    let next = next_read(state, q, scene);
    let p = &mut state.participants[q];
    match next {
        Read::Nothing => false,
        Read::List => !(old && p.due == Due::ConfirmedList) && accept_list(state, q, seen, scene),
        Read::PlainRecord => {
            let newest = seen.record >= p.record;
            if newest {
                p.touch_read = false;
                learn_record(state, q, seen.content(), 0, scene);
            }
            newest
        }
        Read::NewerRecord | Read::PollRecord => {
            let news = seen.record > p.record && seen.record > p.poll_from
                || old && scene.broken(Defect::OlderAccepted) && seen.record != p.record;
            if news {
                read_record(state, q, seen, scene);
            }
            news
        }
        Read::PollKey(s) => {
            if seen.modified[s] == p.line_modified[s] || old && seen.last <= p.line_modified[s] {
                return false;
            }
            if !touched(p, s, seen, scene) {
                if old {
                    p.due = p.due.max(Due::List);
                } else {
                    return accept_list(state, q, seen, scene);
                }
            }
            true
        }
        Read::PollPrefix => !old && seen.last != p.list_index && accept_list(state, q, seen, scene),
        Read::PollOwn(s, key) => {
            !old && seen.modified[s] != key && accept_list(state, q, seen, scene)
        }
    }
}

pub(crate) fn read_record(state: &mut State, q: usize, seen: &Snapshot, scene: &Scene) {
    state.participants[q].no_poll = false;
    state.participants[q].poll_from = 0;
    learn_record(state, q, seen.content(), 0, scene);
}
