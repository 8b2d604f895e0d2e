use crate::error::RequestError;
use crate::http::Response;
use crate::machine::fixture::{Shown, at, settings};
use crate::machine::process::timers::Timers;
use crate::machine::semaphore::roster::*;

const BASE: crate::id::Index = crate::id::Index(50);

/// A roster, and what it needs for each call.
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

    /// One of them does something that it may do at any time, or is answered.
    fn step(&mut self, now: u64, no: u64) {
        let (moment, no) = (Moment(now), ContenderNo(no));
        let (settings, rng) = (&self.settings, &mut self.rng);
        if self.roster.get(no).is_none() {
            return self.roster.add(no, moment, None, settings, rng);
        }
        let id = format!("{:08x}-0000-0000-0000-000000000000", no.0);
        let choice = rng.u32(..9);
        let mut contender = self.roster.get_mut(no).unwrap();
        match choice {
            0 => {
                if let Some((part, request)) = contender.transmit(at(now), settings) {
                    let is_creation = request.target().contains("/session/create");
                    let body = if is_creation {
                        format!(r#"{{"ID":"{id}"}}"#)
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
                contender.observe(at(now), moment, &shown.view(), moment, false, settings);
            }
            2 if contender.is_queued() => contender.claim(BASE),
            3 if contender.is_claiming() => {
                contender.admitted(BASE);
                contender.hold(at(now), CommandId(no.0));
            }
            4 if contender.is_held() => contender.pass(),
            5 if rng.u32(..4) == 0 => contender.leave(at(now), moment, settings),
            6 if contender.is_leaving() => contender.withdrawn(moment, settings),
            7 => _ = contender.handle_timeout(at(now), Moment::START, None),
            8 if contender.is_leaving() => {
                let failure = RequestError::Denied {
                    text: "Permission denied".to_owned(),
                };
                contender.leaving_failed(moment, failure, settings);
            }
            _ => {}
        }
    }

    fn those(&self, is: impl Fn(&Contender) -> bool) -> Vec<ContenderNo> {
        let all = self.roster.contenders.iter();
        all.filter(|(_, it)| is(it)).map(|(no, _)| *no).collect()
    }

    /// What is kept is what a pass over all says.
    fn assert_kept(&self, now: u64) {
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
        let is_over = |time: Option<Instant>| time.is_some_and(|time| time <= at(now));
        let due: BTreeSet<_> = roster.due(at(now)).map(|(no, _)| no).collect();
        assert!(due.into_iter().eq(self.those(|it| is_over(it.due_at()))));
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
        }
    }
    assert_eq!(seen, [true; 6], "each of the groups had somebody in it");
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
    bench.roster.get_mut(no).unwrap().abandon();
    bench.roster.take_gone();
    assert!(!bench.roster.is_ours(id));
}
