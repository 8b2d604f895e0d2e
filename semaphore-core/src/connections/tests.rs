use core::time::Duration;
use std::cell::Cell;
use std::rc::Rc;

use super::lanes::Lane;
use super::places::{Fate, Places, Waiter};
use crate::http::Priority;
use crate::time::Instant;

/// A waiter with a name, which may have gone.
#[derive(Clone, Debug, Default)]
struct Named(&'static str, Rc<Cell<bool>>);

impl Waiter for Named {
    fn has_gone(&self) -> bool {
        self.1.get()
    }
}

fn named(name: &'static str) -> Named {
    Named(name, Rc::default())
}

fn at(millis: u64) -> Instant {
    Instant::from_origin(Duration::from_millis(millis))
}

fn poll(ahead: u32) -> Priority {
    Priority::Poll { ahead }
}

fn admitted(places: &mut Places<Named>) -> Vec<(&'static str, Lane)> {
    let admitted = places.admit().into_iter();
    admitted.map(|(who, lane, _)| (who.0, lane)).collect()
}

/// Takes every short lane, as urgent requests may.
fn full(places: &mut Places<Named>, shorts: usize) {
    for _ in 0..shorts {
        places.queue(at(0), Priority::Urgent, named("first"));
    }
    assert_eq!(places.admit().len(), shorts);
}

#[test]
fn who_waits_is_served_by_priority_and_then_in_the_order_of_coming() {
    let mut places = Places::new(1, 0, 1);
    full(&mut places, 1);
    for (name, priority) in [
        ("behind many", poll(9)),
        ("read", Priority::Read),
        ("write", Priority::Write),
        ("next", poll(0)),
        ("second write", Priority::Write),
        ("release", Priority::Urgent),
    ] {
        places.queue(at(0), priority, named(name));
    }
    let order = [
        "release",
        "write",
        "second write",
        "read",
        "next",
        "behind many",
    ];
    for name in order {
        assert_eq!(admitted(&mut places), []);
        places.leave(Lane::Short(0), Fate::Answered(at(1)));
        assert_eq!(admitted(&mut places), [(name, Lane::Short(0))]);
    }
}

#[test]
fn who_has_gone_gets_nothing() {
    let mut places = Places::new(1, 1, 1);
    full(&mut places, 1);
    let gone = named("gone");
    places.queue(at(0), Priority::Urgent, gone.clone());
    places.queue(at(0), Priority::Read, named("here"));
    gone.1.set(true);
    places.leave(Lane::Short(0), Fate::Answered(at(1)));
    assert_eq!(admitted(&mut places), [("here", Lane::Short(0))]);
}

#[test]
fn some_lanes_are_left_to_what_is_urgent() {
    let mut places = Places::new(16, 0, 1);
    for _ in 0..20 {
        places.queue(at(0), Priority::Write, named("write"));
    }
    assert_eq!(admitted(&mut places).len(), 14);
    for _ in 0..3 {
        places.queue(at(0), Priority::Urgent, named("release"));
    }
    let urgent = admitted(&mut places);
    assert_eq!(urgent.len(), 2);
    assert!(urgent.iter().all(|(name, _)| *name == "release"));
}

#[test]
fn a_lane_with_an_open_connection_comes_first_until_it_has_been_idle() {
    let mut places = Places::new(2, 0, 1);
    full(&mut places, 2);
    places.leave(Lane::Short(0), Fate::Failed);
    places.leave(Lane::Short(1), Fate::Answered(at(0)));
    for (now, lane) in [(4_999, 1), (5_000, 0)] {
        places.queue(at(now), Priority::Urgent, named("one"));
        assert_eq!(admitted(&mut places), [("one", Lane::Short(lane))]);
        places.leave(Lane::Short(lane), Fate::Unused);
    }
}

#[test]
fn a_poll_that_is_given_up_keeps_its_lane_until_its_wait_is_over() {
    let mut places = Places::new(1, 1, 1);
    places.park(at(0), poll(0), "/v1/kv/a", false, named("first"));
    assert_eq!(admitted(&mut places), [("first", Lane::Poll(0))]);
    places.leave(Lane::Poll(0), Fate::GivenUp(at(15_000)));
    let ticket = places.park(at(1), poll(0), "/v1/kv/b", false, named("second"));
    assert_eq!(admitted(&mut places), []);
    places.await_hint(at(14_999), ticket, named("hint"));
    assert_eq!(admitted(&mut places), []);
    places.await_hint(at(15_000), ticket, named("hint"));
    assert_eq!(admitted(&mut places), [("second", Lane::Poll(0))]);
}

#[test]
fn the_lane_of_a_poll_goes_to_whoever_is_next_in_the_queue() {
    let mut places = Places::new(1, 1, 1);
    for (name, ahead) in [
        ("first to come", 5),
        ("holds", u32::MAX),
        ("last in line", 7),
        ("next in line", 0),
    ] {
        places.park(at(0), poll(ahead), "/v1/kv/a", false, named(name));
    }
    for name in ["next in line", "first to come", "last in line", "holds"] {
        assert_eq!(admitted(&mut places), [(name, Lane::Poll(0))]);
        places.leave(Lane::Poll(0), Fate::Answered(at(1)));
    }
}

#[test]
fn a_refusal_parks_polls_and_leaves_requests_to_the_connections_that_are_open() {
    let mut places = Places::new(3, 2, 1);
    full(&mut places, 3);
    places.park(at(0), poll(0), "/v1/kv/a", false, named("poll"));
    assert_eq!(admitted(&mut places), [("poll", Lane::Poll(0))]);
    places.leave(Lane::Poll(0), Fate::Answered(at(1)));
    places.leave(Lane::Short(0), Fate::Answered(at(1)));
    places.leave(Lane::Short(1), Fate::Failed);
    places.leave(Lane::Short(2), Fate::Refused(at(1)));
    assert!(places.has_open());
    assert_eq!(places.close_idle_polls(), [Lane::Poll(0)]);
    assert_eq!(places.close_idle_polls(), []);

    places.park(at(2), poll(0), "/v1/kv/a", false, named("poll"));
    for name in ["one", "another"] {
        places.queue(at(2), Priority::Urgent, named(name));
    }
    assert_eq!(admitted(&mut places), [("one", Lane::Short(0))]);
    places.leave(Lane::Short(0), Fate::Answered(at(3)));
    assert_eq!(admitted(&mut places), [("another", Lane::Short(0))]);

    // Two seconds and at most a quarter more.
    places.queue(at(2_502), Priority::Urgent, named("later"));
    let later = admitted(&mut places);
    assert_eq!(later.len(), 2, "{later:?}");
}

#[test]
fn without_an_open_connection_one_request_at_a_time_finds_out_whether_there_is_one() {
    let mut places = Places::new(3, 0, 1);
    full(&mut places, 3);
    for no in 0..3 {
        places.leave(Lane::Short(no), Fate::Refused(at(1)));
    }
    assert!(!places.has_open());
    for name in ["one", "two"] {
        places.queue(at(2), Priority::Urgent, named(name));
    }
    assert_eq!(admitted(&mut places), [("one", Lane::Short(0))]);
    places.leave(Lane::Short(0), Fate::Refused(at(3)));
    assert_eq!(admitted(&mut places), [("two", Lane::Short(0))]);
}

#[test]
fn refusals_in_a_row_park_polls_for_longer_and_longer() {
    let mut places = Places::new(2, 2, 1);
    let mut now = 0;
    let mut shut_for = |places: &mut Places<Named>| {
        let began = now;
        places.leave(Lane::Short(0), Fate::Refused(at(now)));
        places.park(at(now), poll(0), "/v1/kv/a", false, named("poll"));
        while admitted(places).is_empty() {
            now += 100;
            places.queue(at(now), Priority::Urgent, named("passes the time"));
            let gone: Vec<_> = admitted(places);
            for (name, lane) in gone {
                places.leave(lane, Fate::Unused);
                if name == "poll" {
                    return now - began;
                }
            }
        }
        now - began
    };
    let waits: Vec<u64> = (0..7).map(|_| shut_for(&mut places)).collect();
    for (wait, step) in waits.iter().zip([2, 4, 8, 16, 32, 32, 32]) {
        let step = step * 1_000;
        assert!((step..=step * 5 / 4 + 100).contains(wait), "{waits:?}");
    }
}

#[test]
fn half_of_the_polls_are_begun_after_a_refusal_and_twice_as_many_after_each_that_succeeds() {
    let mut places = Places::new(1, 8, 1);
    let park = |places: &mut Places<Named>, now| {
        for _ in 0..8 {
            places.park(at(now), poll(0), "/v1/kv/a", false, named("poll"));
        }
        admitted(places)
    };
    assert_eq!(park(&mut places, 0).len(), 8);
    for no in 6..8 {
        places.leave(Lane::Poll(no), Fate::Failed);
    }
    full(&mut places, 1);
    places.leave(Lane::Short(0), Fate::Refused(at(1)));
    for no in 0..6 {
        places.leave(Lane::Poll(no), Fate::Failed);
    }
    // Half of the six that were under way.
    let begun = park(&mut places, 3_000);
    let lanes: Vec<_> = begun.iter().map(|(_, lane)| *lane).collect();
    assert_eq!(lanes, [0, 1, 2].map(Lane::Poll));
    places.leave(Lane::Poll(0), Fate::Answered(at(3_001)));
    // Six, of which two continue.
    assert_eq!(admitted(&mut places).len(), 4);
    // A connection that was open before shows nothing new.
    places.leave(Lane::Poll(0), Fate::Answered(at(3_002)));
    assert_eq!(admitted(&mut places).len(), 1);
}

/// Such an agent closes each connection after its answer, so each poll opens a new one.
#[test]
fn however_many_connections_are_opened_for_polls_there_are_no_more_of_them_than_lanes() {
    let mut places = Places::new(1, 2, 1);
    for turn in 0..200 {
        for who in ["a", "b", "c"] {
            places.park(at(turn), poll(0), "/v1/kv/a", false, named(who));
        }
        let lanes = admitted(&mut places);
        assert_eq!(lanes.len(), 2, "{turn}");
        for (_, lane) in lanes {
            places.leave(lane, Fate::Answered(at(turn)));
            places.close_idle_polls();
        }
    }
}

#[test]
fn a_poll_that_waits_no_longer_gets_nothing() {
    let mut places = Places::new(1, 1, 1);
    let poll = |places: &mut Places<Named>, name| {
        places.park(at(0), poll(0), "/v1/kv/a", false, named(name))
    };
    poll(&mut places, "first");
    assert_eq!(admitted(&mut places), [("first", Lane::Poll(0))]);
    let left = poll(&mut places, "left");
    places.unpark(left);
    places.leave(Lane::Poll(0), Fate::Answered(at(1)));
    assert_eq!(admitted(&mut places), []);
}

#[test]
fn what_a_request_changed_is_told_to_those_who_read_it_now_or_when_they_ask_next() {
    let mut places: Places<Named> = Places::new(1, 0, 1);
    let mut park = |path: &str, recurses| places.park(at(0), poll(0), path, recurses, named("-"));
    let key = park("/v1/kv/jobs/a", false);
    let prefix = park("/v1/kv/jobs/", true);
    let other = park("/v1/kv/jobs/b", false);
    let hint = |places: &mut Places<Named>| {
        for (ticket, name) in [(key, "key"), (prefix, "prefix"), (other, "other")] {
            places.await_hint(at(1), ticket, named(name));
        }
    };
    // The data may be older than their place, so the first hint comes at once.
    hint(&mut places);
    assert!(places.changed(["/v1/kv/jobs/a"].into_iter()).is_empty());
    hint(&mut places);
    hint(&mut places);
    let told = places.changed(["/v1/kv/jobs/a"].into_iter());
    let names: Vec<_> = told.iter().map(|hint| hint.0).collect();
    assert_eq!(names, ["key", "prefix"]);
    // A poll that got a hint is reading now, maybe too early to see this change.
    assert!(places.changed(["/v1/kv/jobs/a"].into_iter()).is_empty());
    hint(&mut places);
    assert!(
        places.changed(["/v1/kv/jobs/a"].into_iter()).is_empty(),
        "the hints came at once"
    );
}

#[test]
fn a_request_without_an_answer_keeps_nobody_from_trying_where_no_connection_is_open() {
    let mut places = Places::new(4, 0, 1);
    places.queue(at(0), Priority::Read, named("silent"));
    places.queue(at(0), Priority::Read, named("refused"));
    let lanes = [("silent", Lane::Short(0)), ("refused", Lane::Short(1))];
    assert_eq!(admitted(&mut places), lanes);
    places.leave(Lane::Short(1), Fate::Refused(at(10)));
    places.queue(at(20), Priority::Urgent, named("renewal"));
    assert_eq!(
        admitted(&mut places),
        [],
        "the silent one may yet be refused"
    );
    // Refusals come at once.
    places.queue(at(1_020), Priority::Urgent, named("another"));
    let lane = Lane::Short(1);
    assert_eq!(admitted(&mut places), [("renewal", lane)], "one at a time");
    places.leave(lane, Fate::Answered(at(1_030)));
    assert_eq!(admitted(&mut places), [("another", lane)]);
}

/// A request at this time that gets a lane, and the lane's fate.
fn sent(places: &mut Places<Named>, now: u64, fate: Fate) {
    places.queue(at(now), Priority::Urgent, named("one"));
    assert_eq!(admitted(places), [("one", Lane::Short(0))], "{now}");
    places.leave(Lane::Short(0), fate);
}

#[test]
fn what_an_agent_may_hold_counts_until_it_does_no_longer() {
    let mut places = Places::new(1, 0, 1);
    for no in 0..60 {
        sent(&mut places, no * 250, Fate::TimedOut(at(no * 250 + 100)));
    }
    places.queue(at(20_249), Priority::Urgent, named("waits"));
    assert_eq!(admitted(&mut places), []);
    places.queue(at(20_250), Priority::Urgent, named("later"));
    assert_eq!(admitted(&mut places), [("waits", Lane::Short(0))]);
}

#[test]
fn what_keeps_holds_is_sent_while_an_agent_holds_so_much_that_all_else_waits() {
    let mut places = Places::new(1, 0, 1);
    for no in 0..60 {
        sent(&mut places, no, Fate::TimedOut(at(no)));
    }
    places.queue(at(60), Priority::Urgent, named("waits"));
    for no in 60..100 {
        places.queue(at(no), Priority::Renewal, named("renewal"));
        assert_eq!(admitted(&mut places), [("renewal", Lane::Short(0))]);
        places.leave(Lane::Short(0), Fate::TimedOut(at(no)));
    }
    places.queue(at(100), Priority::Renewal, named("one more"));
    assert_eq!(admitted(&mut places), []);
}

#[test]
fn an_answer_says_that_what_is_held_will_be_answered_soon() {
    let mut places = Places::new(1, 0, 1);
    for no in 0..59 {
        sent(&mut places, no * 250, Fate::TimedOut(at(no * 250 + 100)));
    }
    sent(&mut places, 15_000, Fate::Answered(at(15_001)));
    sent(&mut places, 15_002, Fate::TimedOut(at(15_003)));
    places.queue(at(20_000), Priority::Urgent, named("waits"));
    assert_eq!(admitted(&mut places), []);
    places.queue(at(20_001), Priority::Urgent, named("later"));
    assert_eq!(admitted(&mut places), [("waits", Lane::Short(0))]);
}

#[test]
fn in_a_silence_half_of_the_lanes_are_left_for_its_end() {
    let mut places = Places::new(4, 0, 1);
    for no in 0..40 {
        places.queue(at(no * 250), Priority::Renewal, named("renewal"));
        let sent = admitted(&mut places).len();
        assert_eq!(sent, usize::from(no < 4), "{no}");
    }
    // Those that were sent before it was one are given up.
    for no in 0..4 {
        places.leave(Lane::Short(no), Fate::TimedOut(at(10_000)));
    }
    let sent = |places: &mut Places<Named>, now| {
        places.pass_time(at(now));
        admitted(places).len()
    };
    assert_eq!(
        [10_000, 10_100, 10_250, 10_500].map(|now| sent(&mut places, now)),
        [1, 0, 1, 0]
    );
    places.leave(Lane::Short(0), Fate::Answered(at(10_600)));
    assert_eq!(sent(&mut places, 10_600), 3, "all that there is room for");
}

#[test]
fn what_is_dropped_counts_only_if_it_was_not_answered_at_once() {
    for (dropped_at, counts) in [(999, false), (1_000, true)] {
        let mut places = Places::new(60, 1, 1);
        full(&mut places, 60);
        places.park(at(dropped_at), poll(0), "/v1/kv/a", false, named("poll"));
        for no in 0..60 {
            places.leave(Lane::Short(no), Fate::Dropped);
        }
        places.queue(at(dropped_at), Priority::Urgent, named("next"));
        let is_admitted = admitted(&mut places).contains(&("next", Lane::Short(0)));
        assert_eq!(is_admitted, !counts, "{dropped_at}");
    }
}

#[test]
fn where_connections_are_shared_there_are_as_many_polls_as_streams() {
    let mut places = Places::new(2, 2, 1);
    let park = |places: &mut Places<Named>| {
        for _ in 0..2_000 {
            places.park(at(0), poll(0), "/v1/kv/a", false, named("poll"));
        }
        admitted(places).len()
    };
    assert_eq!(park(&mut places), 2);
    places.share(100);
    assert_eq!(admitted(&mut places).len(), 198);
    for _ in 0..40 {
        places.queue(at(0), Priority::Urgent, named("renewal"));
    }
    assert_eq!(admitted(&mut places).len(), 30);

    let mut many = Places::new(30, 30, 1);
    many.share(100);
    assert_eq!(park(&mut many), 1_000);
}

#[test]
fn lanes_that_are_shared_no_longer_are_forgotten() {
    let mut places = Places::new(1, 1, 1);
    places.share(100);
    for _ in 0..150 {
        places.park(at(0), poll(0), "/v1/kv/a", false, named("poll"));
    }
    let lanes = admitted(&mut places);
    assert_eq!(lanes.len(), 100);
    places.share(1);
    for (_, lane) in lanes.into_iter().rev() {
        assert_eq!(admitted(&mut places), []);
        places.leave(lane, Fate::Failed);
    }
    assert_eq!(admitted(&mut places), [("poll", Lane::Poll(0))]);
}

#[test]
fn polls_that_time_out_on_a_shared_connection_hold_no_renewal_up() {
    for (polls_per_connection, is_sent) in [(1, false), (100, true)] {
        let mut places = Places::new(1, 100, 1);
        places.share(polls_per_connection);
        for _ in 0..100 {
            places.park(at(0), poll(0), "/v1/kv/a", false, named("poll"));
        }
        for (_, lane) in admitted(&mut places) {
            places.leave(lane, Fate::TimedOut(at(9_000)));
        }
        places.queue(at(9_000), Priority::Renewal, named("renewal"));
        assert_eq!(admitted(&mut places).len(), usize::from(is_sent));
    }
}

#[test]
fn a_refusal_holds_up_no_request_on_a_shared_connection() {
    let mut places = Places::new(2, 1, 1);
    places.share(100);
    places.queue(at(0), Priority::Urgent, named("one"));
    let lanes = admitted(&mut places);
    assert_eq!(lanes, [("one", Lane::Short(0))]);
    places.leave(Lane::Short(0), Fate::Refused(at(1)));
    for name in ["two", "three"] {
        places.queue(at(2), Priority::Urgent, named(name));
    }
    assert_eq!(admitted(&mut places).len(), 2);
}
