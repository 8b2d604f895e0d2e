use crate::Prefix;
use crate::id::SessionId;
use crate::machine::semaphore::watch::*;

fn settings() -> Settings {
    Settings::new(Prefix::new("jobs").unwrap(), 1).unwrap()
}

fn poll(watch: &mut Watch, now: Instant) -> Option<String> {
    watch
        .transmit(now, &settings())
        .map(|request| request.target().to_owned())
}

#[test]
fn it_starts_with_a_plain_read_and_goes_on_from_its_index() {
    let now = Instant::from_origin(Duration::from_secs(1));
    let mut watch = Watch::new(&settings());
    assert_eq!(poll(&mut watch, now), None);
    watch.start();
    assert_eq!(poll(&mut watch, now).unwrap(), "/v1/kv/jobs/?recurse");
    assert_eq!(poll(&mut watch, now), None, "one poll at a time");
    watch.answered(now, Index(7));
    assert_eq!(
        poll(&mut watch, now).unwrap(),
        "/v1/kv/jobs/?recurse&index=7&wait=15s"
    );
}

#[test]
fn a_plain_read_does_not_go_on_from_the_answer_before_it() {
    let now = Instant::from_origin(Duration::from_secs(1));
    let mut watch = Watch::new(&settings());
    watch.start();
    let mut answer = |index| {
        poll(&mut watch, now).unwrap();
        watch.answered(now, Index(index))
    };
    assert!(!answer(7), "the first");
    assert!(answer(8));
    assert!(answer(8), "before its time with nothing new");
    assert!(!answer(8), "what is read then");
    assert!(answer(6), "backwards");
    assert!(!answer(6), "what is read then");
}

#[test]
fn answers_without_end_are_read_at_the_ceiling_only() {
    let start = Instant::from_origin(Duration::from_secs(1));
    let mut watch = Watch::new(&settings());
    watch.start();
    let mut now = start;
    let mut reads = 0;
    while now < start + Duration::from_secs(10) {
        if poll(&mut watch, now).is_some() {
            reads += 1;
            watch.answered(now, Index(reads));
        } else {
            now = watch.timeout().unwrap();
        }
    }
    assert_eq!(reads, 1_050 - 1);
}

#[test]
fn a_poll_under_way_is_left_to_its_end_and_may_be_taken_up_again() {
    let now = Instant::from_origin(Duration::from_secs(1));
    let mut watch = Watch::new(&settings());
    assert_eq!(watch.start(), Start::Anew);
    assert_eq!(watch.start(), Start::Running);
    poll(&mut watch, now).unwrap();
    watch.pause();
    assert_eq!(watch.start(), Start::Resumed);
    watch.answered(now, Index(7));
    assert!(poll(&mut watch, now).unwrap().contains("index=7"));
    watch.pause();
    watch.answered(now, Index(8));
    assert_eq!(poll(&mut watch, now), None);
    assert_eq!(watch.start(), Start::Anew);
}

#[test]
fn polls_ask_the_leader_once_they_are_told_to_and_until_the_watch_starts_anew() {
    let now = Instant::from_origin(Duration::from_secs(1));
    let mut watch = Watch::new(&settings());
    watch.start();
    poll(&mut watch, now).unwrap();
    watch.ask_leader();
    assert!(!watch.is_polling_leader(), "the one under way does not");
    watch.answered(now, Index(7));
    let target = poll(&mut watch, now).unwrap();
    assert!(target.contains("index=7") && target.contains("consistent"));
    assert!(watch.is_polling_leader());
    watch.answered(now, Index(8));
    assert!(!watch.is_polling_leader());
    watch.pause();
    assert_eq!(watch.start(), Start::Anew);
    assert!(!watch.asks_leader());
    assert_eq!(poll(&mut watch, now).unwrap(), "/v1/kv/jobs/?recurse");
}

#[test]
fn a_poll_is_given_up_for_a_plain_read_unless_it_has_only_just_begun() {
    let now = Instant::from_origin(Duration::from_secs(1));
    let mut watch = Watch::new(&settings());
    watch.start();
    poll(&mut watch, now).unwrap();
    watch.answered(now, Index(7));
    assert!(!watch.is_polling());
    assert!(!watch.restart(now + LEAST_POLL), "there is none");
    poll(&mut watch, now).unwrap();
    assert!(watch.is_polling());
    assert!(!watch.restart(now + LEAST_POLL - Duration::from_nanos(1)));
    assert!(watch.restart(now + LEAST_POLL));
    let target = poll(&mut watch, now + LEAST_POLL).unwrap();
    assert_eq!(target, "/v1/kv/jobs/?recurse");
}

#[test]
fn a_poll_of_one_that_is_not_the_next_ahead_any_more_is_to_be_given_up() {
    let ahead = |digit: &str| Focus::Ahead {
        session: SessionId::new("11111111-1111-4111-8111-111111111111".replace('1', digit))
            .unwrap(),
        index: Index(7),
        wait: Duration::from_secs(10),
    };
    let now = Instant::from_origin(Duration::from_secs(1));
    let mut watch = Watch::new(&settings());
    watch.start();
    watch.look_at(ahead("2"));
    let target = poll(&mut watch, now).unwrap();
    assert!(target.contains("22222222"), "{target}");
    assert!(watch.is_looking_ahead() && !watch.is_for_another());
    assert_eq!(watch.timeout(), None);
    for focus in [ahead("3"), Focus::Prefix] {
        watch.look_at(focus);
        assert!(watch.is_for_another());
        assert_eq!(watch.timeout(), Some(now + LEAST_POLL));
    }
    assert!(watch.is_early(now + Duration::from_secs(10) - Duration::from_nanos(1)));
    assert!(
        !watch.is_early(now + Duration::from_secs(10)),
        "in its time"
    );
    watch.key_answered(now);
    assert!(!watch.is_looking_ahead() && !watch.is_for_another());
}

#[test]
fn what_is_known_from_elsewhere_is_not_polled_for_and_a_poll_under_way_is_let_be() {
    let now = Instant::from_origin(Duration::from_secs(1));
    let mut watch = Watch::new(&settings());
    watch.start();
    poll(&mut watch, now).unwrap();
    assert_eq!(watch.reads_since(), Some(now));
    watch.answered(now, Index(7));
    assert_eq!(watch.reads_since(), None);
    watch.skip_to(Index(9));
    let target = poll(&mut watch, now).unwrap();
    assert!(target.contains("index=9"), "{target}");
    assert_eq!(watch.reads_since(), None, "it is no plain read");
    assert!(!watch.start_over(), "one is under way");
    watch.skip_to(Index(20));
    watch.answered(now, Index(10));
    let target = poll(&mut watch, now).unwrap();
    assert!(target.contains("index=10"), "{target}");
    watch.answered(now, Index(11));
    assert!(watch.start_over());
    assert_eq!(poll(&mut watch, now).unwrap(), "/v1/kv/jobs/?recurse");
}

#[test]
fn a_write_of_ours_allows_one_more_read() {
    let now = Instant::from_origin(Duration::from_secs(1));
    let mut watch = Watch::new(&settings());
    watch.start();
    for index in 1..=u64::from(READ_BURST) {
        poll(&mut watch, now).unwrap();
        watch.answered(now, Index(index));
    }
    assert_eq!(poll(&mut watch, now), None);
    watch.credit();
    assert!(poll(&mut watch, now).is_some());
}

#[test]
fn reads_beside_the_poll_are_under_its_ceiling() {
    let now = Instant::from_origin(Duration::from_secs(1));
    let mut watch = Watch::new(&settings());
    watch.start();
    for _ in 0..READ_BURST {
        watch.refresh(now);
        let read = watch.transmit_refresh(now, &settings()).unwrap();
        assert_eq!(read.target(), "/v1/kv/jobs/?recurse&consistent");
        watch.refreshed();
    }
    watch.refresh(now);
    assert!(watch.transmit_refresh(now, &settings()).is_none());
    assert_eq!(watch.read_timeout(), Some(now + READ_INTERVAL));
    assert_eq!(poll(&mut watch, now), None);
}

#[test]
fn the_record_is_read_before_a_write_whatever_else_was_read() {
    let now = Instant::from_origin(Duration::from_secs(1));
    let mut watch = Watch::new(&settings());
    watch.start();
    for _ in 0..READ_BURST {
        watch.refresh(now);
        watch.transmit_refresh(now, &settings()).unwrap();
        watch.refreshed();
    }
    let from = now + Duration::from_millis(3);
    watch.read_record(from);
    assert!(watch.is_reading_record());
    assert_eq!(watch.read_timeout(), Some(from));
    assert!(watch.transmit_record(now, &settings()).is_none());
    let read = watch.transmit_record(from, &settings()).unwrap();
    assert_eq!(read.target(), "/v1/kv/jobs/.lock?consistent");
    assert!(watch.is_reading_record(), "until it is answered");
    assert!(watch.transmit_record(from, &settings()).is_none());
    watch.record_read();
    assert!(!watch.is_reading_record());
}

#[test]
fn a_poll_during_which_others_got_no_answer_is_given_up_when_they_do_again() {
    let now = Instant::from_origin(Duration::from_secs(1));
    let mut watch = Watch::new(&settings());
    watch.start();
    poll(&mut watch, now).unwrap();
    let later = now + LEAST_POLL;
    assert!(!watch.judge(later, false, true), "nothing was lost");
    assert!(!watch.judge(later, false, false));
    assert!(watch.judge(later, false, true));
    assert!(!watch.judge(later, false, true), "once");
}
