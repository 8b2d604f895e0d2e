//! The machine of an election without its driver. Calls may come in any order, and none is needed
//! twice. Late answers say nothing about what happened since.

use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::{Event, Instant, Request, Response, Term, Value};
use semaphore_core::{Error, Lost};
use transport_mock::RequestKind;

use crate::support::election::*;
use crate::support::election_bench::Bench;
use crate::support::*;

#[test]
fn it_starts_with_nothing_to_do() {
    let mut bench = Bench::new(1);
    assert!(bench.candidate.is_idle());
    assert_eq!(bench.candidate.poll_timeout(), None);
    assert!(bench.candidate.poll_transmit(bench.now).is_none());
    assert!(bench.candidate.poll_event().is_none());
    assert!(bench.candidate.poll_abort().is_none());
    assert_eq!(bench.run_for(600_000), 0);
}

#[test]
fn a_loop_of_a_few_lines_campaigns_leads_and_resigns() {
    let (mut bench, campaign) = Bench::leading();
    bench.run_for(600_000);
    assert!(bench.candidate.is_held(bench.now, campaign));
    bench.candidate.release(bench.now, campaign);
    let believes = bench.candidate.is_held(bench.now, campaign);
    assert!(!believes, "belief ends at once");
    bench.run_for(6_010);
    let last = bench.events.last().expect("events");
    let resigned = matches!(last, Event::Done { result: Ok(()), .. });
    assert!(resigned, "{last:?}");
    assert!(bench.candidate.is_idle());
    assert_eq!(bench.consul.sessions().count(), 0);
}

#[test]
fn the_same_inputs_give_the_same_outputs() {
    let transcript = || {
        let (mut bench, campaign) = Bench::leading();
        bench.run_for(30_000);
        bench.candidate.release(bench.now, campaign);
        bench.run_for(30_000);
        (bench.sent, format!("{:?}", bench.events))
    };
    assert_eq!(transcript(), transcript());
}

#[test]
fn another_seed_is_as_good_as_one_from_the_start() {
    let [mut reseeded, other, same] = [1, 2, 7].map(|seed| Bench::new(seed).candidate);
    reseeded.reseed(7);
    assert_eq!(format!("{reseeded:?}"), format!("{same:?}"));
    assert_ne!(format!("{reseeded:?}"), format!("{other:?}"));
}

#[test]
fn belief_ends_at_its_deadline_and_not_after_it() {
    let (bench, campaign) = Bench::leading();
    let deadline = bench.candidate.deadline(campaign).expect("a lease");
    assert!(bench.candidate.is_held(deadline - millis(1), campaign));
    assert!(!bench.candidate.is_held(deadline, campaign));
}

#[test]
fn whoever_can_not_clean_up_in_time_is_told_and_goes_on_in_the_background() {
    let (mut bench, campaign) = Bench::leading();
    bench.candidate.release(bench.now, campaign);
    let release = bench.candidate.poll_transmit(bench.now).expect("a release");
    assert!(bench.candidate.poll_abort().is_none(), "it is waited for");
    bench.now = bench.now + secs(30);
    bench.candidate.handle_timeout(bench.now);
    assert!(bench.candidate.is_quiet());
    assert!(!bench.candidate.is_idle());
    assert!(bench.candidate.poll_abort().is_none(), "it still is");
    bench.submit(release.id, &release.request);
    bench.turn();
    assert!(bench.candidate.is_idle());
    assert_eq!(bench.consul.sessions().count(), 0);
}

#[test]
fn after_a_loss_there_is_nothing_to_wait_for() {
    let (mut bench, campaign) = Bench::leading();
    let delete = Request::new(
        semaphore_core::sans_io::Method::Delete,
        format!("/v1/kv/{KEY}"),
    );
    bench.write(&delete);
    bench.run_for(10);
    assert_eq!(bench.losses().len(), 1);
    bench.run_for(6_010);
    assert!(bench.candidate.is_idle());
    assert_eq!(bench.candidate.poll_timeout(), None);
    bench.candidate.release(bench.now, campaign);
    assert_eq!(bench.candidate.poll_timeout(), None);
}

#[test]
fn spurious_calls_do_nothing() {
    let (mut bench, campaign) = Bench::leading();
    let before = bench.sent.len();
    for _ in 0..10 {
        bench.candidate.handle_timeout(bench.now);
        bench
            .candidate
            .handle_timeout(Instant::from_origin(secs(0)));
        assert!(bench.candidate.poll_transmit(bench.now).is_none());
    }
    assert_eq!(bench.sent.len(), before);
    assert!(bench.candidate.is_held(bench.now, campaign));
}

#[test]
fn a_leader_that_waits_for_nothing_costs_one_poll_and_twelve_to_sixteen_confirmed_renewals_per_ttl()
{
    let (mut bench, _) = Bench::leading();
    let before = bench.sent.len();
    bench.run_for(150_000);
    let sent = &bench.sent[before..];
    let renewals = sent.iter().filter(|it| it.contains("/renew/")).count();
    assert!((119..=160).contains(&renewals), "{renewals}");
    // The cluster's leader confirms each renewal.
    assert!(sent.len() <= 2 * renewals + 12, "{sent:#?}");
}

/// A poll that was sent before the election may be answered after it, with an older state.
#[test]
fn what_was_asked_before_the_election_does_not_end_the_term() {
    let mut bench = Bench::new(1);
    bench.keeps = |kind| kind == RequestKind::KvWatch;
    let campaign = bench.candidate.campaign(bench.now, None).expect("accepted");
    bench.run_for(100);
    assert!(bench.candidate.is_held(bench.now, campaign));
    let (id, _) = bench.kept.remove(0);
    let nothing = Response::new(404, "").with_header("X-Consul-Index", "1");
    bench.candidate.handle_response(bench.now, id, Ok(nothing));
    assert!(bench.candidate.is_held(bench.now, campaign));
    bench.keeps = |_| false;
    bench.run_for(60_000);
    assert!(bench.candidate.is_held(bench.now, campaign));
    assert!(bench.losses().is_empty());
}

/// The same, but the answer becomes true later. The candidate must look again at once.
#[test]
fn what_was_asked_before_the_election_and_is_true_ends_the_term() {
    let mut bench = Bench::new(1);
    bench.keeps = |kind| kind == RequestKind::KvWatch;
    let campaign = bench.candidate.campaign(bench.now, None).expect("accepted");
    bench.run_for(100);
    assert!(bench.candidate.is_held(bench.now, campaign));
    let delete = Request::new(
        semaphore_core::sans_io::Method::Delete,
        format!("/v1/kv/{KEY}"),
    );
    bench.write(&delete);
    bench.turn();
    let (id, _) = bench.kept.remove(0);
    bench.keeps = |_| false;
    let nothing = Response::new(404, "").with_header("X-Consul-Index", "1");
    bench.candidate.handle_response(bench.now, id, Ok(nothing));
    bench.run_for(1);
    assert!(!bench.candidate.is_held(bench.now, campaign));
    let losses = bench.losses();
    assert!(
        matches!(losses[..], [Lost::KeyDeleted { .. }]),
        "{losses:?}"
    );
}

#[test]
fn an_acquisition_that_is_answered_when_the_lease_is_over_elects_nobody() {
    let mut bench = Bench::new(1);
    bench.keeps =
        |kind| kind == crate::election::unknown::ACQUISITION || kind == RequestKind::KvWatch;
    let campaign = bench.candidate.campaign(bench.now, None).expect("accepted");
    bench.run_for(100);
    let is_acquisition =
        |request: &&String| request.contains("acquire=") || request.contains("txn");
    assert_eq!(bench.sent.iter().filter(is_acquisition).count(), 1);
    // The process is paused for longer than the lease. Then all answers come at the same time.
    bench.now = bench.now + secs(14);
    for (id, answer) in std::mem::take(&mut bench.kept) {
        bench.candidate.handle_response(bench.now, id, Ok(answer));
        assert!(!bench.candidate.is_held(bench.now, campaign));
    }
    assert!(bench.candidate.poll_event().is_none());
    // The candidate gives back what it has, and starts again.
    bench.keeps = |_| false;
    bench.run_for(1_000);
    assert!(bench.candidate.is_held(bench.now, campaign));
}

/// Random bytes found this: a resigning leader still leads until nothing is left, but such a change
/// never got a result.
#[test]
fn a_value_that_is_set_after_the_resignation_is_refused() {
    let (mut bench, campaign) = Bench::leading();
    bench.candidate.release(bench.now, campaign);
    let value = Value::new("late").expect("a value");
    let change = bench.candidate.set_value(bench.now, campaign, &value);
    bench.run_for(6_010);
    let is_told = |event: &Event<Term>| match event {
        Event::Done {
            command: it,
            result,
        } => *it == change && matches!(result, Err(Error::Closed { .. })),
        _ => false,
    };
    assert!(bench.events.iter().any(is_told), "{:?}", bench.events);
    assert!(bench.candidate.is_idle());
}

/// No poll has shown the change.
#[test]
fn a_leader_whose_change_finds_another_key_reads_at_once() {
    let (mut bench, campaign) = Bench::leading();
    bench.keeps = |kind| kind == RequestKind::KvWatch;
    let delete = Request::new(
        semaphore_core::sans_io::Method::Delete,
        format!("/v1/kv/{KEY}"),
    );
    bench.write(&delete);
    let value = Value::new("changed").expect("a value");
    bench.candidate.set_value(bench.now, campaign, &value);
    bench.turn();
    assert!(!bench.candidate.is_held(bench.now, campaign));
    let losses = bench.losses();
    assert!(
        matches!(losses[..], [Lost::KeyDeleted { .. }]),
        "{losses:?}"
    );
}

/// The watch may not have shown the change yet.
#[test]
fn whoever_resigns_right_after_a_change_leaves_the_changed_value() {
    let (mut bench, campaign) = Bench::leading();
    bench.keeps = |kind| kind == RequestKind::KvWatch;
    let value = Value::new("changed").expect("a value");
    bench.candidate.set_value(bench.now, campaign, &value);
    bench.turn();
    bench.candidate.release(bench.now, campaign);
    let release = bench.candidate.poll_transmit(bench.now).expect("a release");
    bench.submit(release.id, &release.request);
    let entry = bench.consul.entry(KEY).expect("the key");
    assert_eq!((entry.session(), entry.value()), (None, &b"changed"[..]));
}
