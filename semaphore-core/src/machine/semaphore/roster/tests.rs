use crate::error::RequestError;
use crate::http::Response;
use crate::machine::fixture::{A, B, C, Shown, at, settings};
use crate::machine::process::tenancy::session::Among;
use crate::machine::process::timers::Timers;
use crate::machine::semaphore::roster::*;

const BASE: crate::id::Index = crate::id::Index(50);

/// A roster, and what its methods need.
struct Bench {
    roster: Roster,
    settings: Settings,
    rng: fastrand::Rng,
}

impl Bench {
    fn new() -> Self {
        let settings = settings();
        Self {
            roster: Roster::new(&settings),
            settings,
            rng: fastrand::Rng::with_seed(7),
        }
    }

    /// A contender does something that it may do at any time, or gets an answer.
    fn step(&mut self, now: u64, no: u64) {
        let (moment, no) = (Moment(now), ContenderNo(no));
        let (settings, rng) = (&self.settings, &mut self.rng);
        if self.roster.get(no).is_none() {
            return self.roster.add(no, moment, None, settings);
        }
        let id = format!("{:08x}-0000-0000-0000-000000000000", no.0);
        let choice = rng.u32(..9);
        let mut contender = self.roster.get_mut(no).unwrap();
        match choice {
            0 => {
                if let Some((part, request)) = contender.transmit(at(now), Along::Prefix, settings)
                {
                    let is_creation = request.target().contains("/session/create");
                    let body = if is_creation {
                        format!(r#"{{"ID":"{id}"}}"#)
                    } else if request.target().starts_with("/v1/txn") {
                        r#"{"Results":[],"Errors":null}"#.to_owned()
                    } else {
                        "true".to_owned()
                    };
                    let answer = Response::new(200, body);
                    contender.handle(at(now), moment, part, Ok(&answer), settings, rng);
                }
            }
            1 => {
                let shown = Shown {
                    keys: &[(&id, &id)],
                    ..Shown::default()
                };
                contender.observe(at(now), moment, &shown.view(), moment, false);
            }
            2 if contender.is_queued() => contender.claim(BASE),
            3 if contender.is_claiming() => {
                contender.admitted(BASE);
                contender.hold(at(now), CommandId(no.0), Among::Few);
            }
            4 if contender.is_held() => contender.pass(),
            5 if rng.u32(..4) == 0 => contender.leave(at(now), moment, settings),
            6 if contender.is_leaving() => contender.withdrawn(moment),
            7 => _ = contender.handle_timeout(at(now), Moment::START, None),
            8 if contender.is_leaving() => {
                let failure = RequestError::Denied {
                    asked: crate::asked::Asked::default(),
                    text: "Permission denied".to_owned(),
                };
                contender.leaving_failed(at(now), moment, &failure, settings);
            }
            _ => {}
        }
    }

    fn those(&self, is: impl Fn(&Contender) -> bool) -> Vec<ContenderNo> {
        let all = self.roster.contenders.iter();
        all.filter(|(_, it)| is(it)).map(|(no, _)| *no).collect()
    }

    /// The kept data must be what a pass over all contenders shows.
    fn assert_kept(&mut self, now: u64) {
        let is_over = |time: Option<Instant>| time.is_some_and(|time| time <= at(now));
        let due = self.those(|it| is_over(it.due_at()));
        let ready = self.roster.standings.ready(at(now));
        let ready: Vec<_> = ready.map(|(no, _)| no).collect();
        assert_eq!(ready, due, "at {now}");
        let of = |no: &ContenderNo| self.roster.get(*no);
        let held = due
            .into_iter()
            .filter(|no| of(no).is_some_and(Contender::is_held));
        let first = held.min_by_key(|no| (of(no).and_then(Contender::deadline), *no));
        assert_eq!(self.roster.most_urgent(at(now)), first, "at {now}");
        let roster = &self.roster;
        for (group, passed) in [
            (Group::Wanting, self.those(Contender::is_wanting)),
            (Group::HandingOver, self.those(Contender::is_handing_over)),
            (Group::Held, self.those(Contender::is_held)),
            (Group::Withdrawing, self.those(Contender::must_withdraw)),
            (Group::LeftBehind, self.those(Contender::is_left_behind)),
            (Group::Gone, self.those(Contender::is_gone)),
        ] {
            assert_eq!(roster.numbers_of(group), passed, "{group:?} at {now}");
        }
        let ended = roster.ended(at(now)).into_iter();
        assert!(ended.eq(self.those(|it| is_over(it.ends_at()))));
        let times = roster.all().flat_map(|it| [it.due_at(), it.ends_at()]);
        let later = times.flatten().filter(|time| *time > at(now));
        let table = Timers::after(at(now)).with_all(roster.timers(at(now)));
        assert_eq!(table.timeout(), later.min());
        for session in roster.all().filter_map(Contender::session_id) {
            assert!(roster.is_ours(session.as_str()));
        }
    }
}

#[test]
fn what_is_kept_is_what_a_pass_over_all_says() {
    let mut bench = Bench::new();
    let mut seen = [false; 6];
    for now in (0..200_000).step_by(10) {
        let no = bench.rng.u64(..8);
        bench.step(now, no);
        bench.assert_kept(now);
        for (seen, group) in seen.iter_mut().zip([
            Group::Wanting,
            Group::HandingOver,
            Group::Held,
            Group::Withdrawing,
            Group::LeftBehind,
            Group::Gone,
        ]) {
            *seen |= bench.roster.has_any(group);
        }
        if now % 30_000 == 0 {
            bench.roster.take_gone();
            bench.assert_kept(now);
            // If the clock goes back, fewer are due.
            bench.assert_kept(now / 2);
        }
    }
    assert_eq!(seen, [true; 6], "each of the groups had somebody in it");
}

#[test]
fn slots_of_ours_are_counted_as_a_pass_over_the_record_would() {
    let mut bench = Bench::new();
    let mut record = Record::new(9);
    let mut counts = [0; 2];
    for now in (0..40_000).step_by(10) {
        let no = bench.rng.u64(..6);
        bench.step(now, no);
        if now % 500 == 0 {
            bench.roster.take_gone();
        }
        let id = format!("{:08x}-0000-0000-0000-000000000000", bench.rng.u64(..6));
        match bench.rng.u32(..12) {
            0 => record.add(&id),
            1 => record.remove([id.as_str()]),
            2 => record.retain(|_| false),
            3 => record.add("somebody else"),
            _ => {}
        }
        if bench.rng.bool() {
            let is_there = bench.rng.u32(..8) > 0;
            bench.roster.look_at(is_there.then_some(&record));
        }
        let all = record.holders().all(|holder| bench.roster.is_ours(holder));
        assert_eq!(bench.roster.have_all_of(&record), all, "at {now}");
        counts[usize::from(all && record.holders().len() > 0)] += 1;
    }
    assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
}

#[test]
fn requests_of_those_who_hold_are_told_from_others() {
    let mut bench = Bench::new();
    let mut asked: Vec<ContenderNo> = Vec::new();
    let mut most = 0;
    let mut overtakes = 0;
    for now in (0..40_000).step_by(10) {
        let no = bench.rng.u64(..6);
        bench.step(now, no);
        if bench.rng.bool() {
            bench.roster.asks(ContenderNo(no));
            asked.push(ContenderNo(no));
        } else if !asked.is_empty() {
            let no = asked.swap_remove(bench.rng.usize(..asked.len()));
            bench.roster.was_answered(no);
        }
        if now % 1_000 == 0 {
            let gone = bench.roster.take_gone();
            asked.retain(|no| !gone.contains_key(no));
        }
        let is_held = |no: &&ContenderNo| bench.roster.get(**no).is_some_and(Contender::is_held);
        let of_holds = asked.iter().filter(is_held).count();
        assert_eq!(bench.roster.asked_for_holds(), of_holds, "at {now}");
        let is_asking = |no: ContenderNo| asked.contains(&no);
        let wanting = bench.roster.numbers_of(Group::Wanting);
        let is_any = wanting.into_iter().any(is_asking);
        assert_eq!(bench.roster.is_any_asking(Group::Wanting), is_any);
        // If several are due, those without a request come first.
        let due = |it: &Contender| it.due_at().is_some_and(|due| due <= at(now));
        let due = bench.those(due);
        let unasked = due.iter().copied().find(|no| !is_asking(*no));
        let next = bench.roster.next_ready(at(now), |_| true);
        assert_eq!(next, unasked.or(due.first().copied()), "at {now}");
        overtakes += usize::from(unasked.is_some() && unasked != due.first().copied());
        most = most.max(of_holds);
    }
    assert!(most > 2);
    assert!(overtakes > 0);
}

#[test]
fn a_session_is_ours_in_its_very_spelling_and_for_as_long_as_somebody_has_it() {
    let mut bench = Bench::new();
    let no = ContenderNo(0xabc);
    for now in 0..200 {
        bench.step(now, no.0);
        if bench
            .roster
            .get(no)
            .is_some_and(|it| it.session_id().is_some())
        {
            break;
        }
    }
    let id = "00000abc-0000-0000-0000-000000000000";
    assert!(bench.roster.is_ours(id));
    assert!(!bench.roster.is_ours(&id.to_ascii_uppercase()));
    assert!(!bench.roster.is_ours("00000abd-0000-0000-0000-000000000000"));
    assert!(!bench.roster.is_ours("00000abc"));
    let (now, moment) = (at(200), Moment(200));
    bench.roster.leave(now, moment, &[no], &bench.settings);
    bench.roster.get_mut(no).unwrap().abandon();
    bench.roster.take_gone();
    assert!(!bench.roster.is_ours(id));
}

#[test]
fn others_lack_slots_if_more_of_them_wait_than_are_free() {
    let bench = Bench::new();
    // One holds, two wait.
    for (limit, waits, lacks) in [(1, true, true), (2, true, true), (3, true, false)] {
        let record = format!(r#"{{"Limit":{limit},"Holders":["{A}"]}}"#);
        let shown = Shown {
            lock: Some((50, &record)),
            keys: &[(A, A), (B, B), (C, C)],
            ..Shown::default()
        };
        let view = shown.view();
        assert_eq!(bench.roster.sees_strangers_wait(&view), waits, "{limit}");
        assert_eq!(bench.roster.sees_strangers_lack(&view), lacks, "{limit}");
    }
}
