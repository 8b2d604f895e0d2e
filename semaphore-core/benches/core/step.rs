//! The cost of one step of the machine: an answer with many contenders, and a caller among many.

use core::time::Duration;

use divan::Bencher;
use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::{Instant, Participant, RequestId, Settings};

use crate::document::{Document, prefix};

const MANY: [usize; 3] = [10, 1000, 10_000];

/// One answer to the watch of a participant that waits behind that many contenders.
#[divan::bench(args = [10, 1000], sample_count = 30)]
fn handle_a_view(bencher: Bencher, contenders: usize) {
    let answer = Document::new(contenders, 3).answer();
    let (participant, read) = waiting(1);
    bencher
        .with_inputs(|| (participant.clone(), answer.clone()))
        .bench_values(|(mut participant, answer)| {
            participant.handle_response(now(), read, Ok(answer));
            participant
        });
}

/// One more caller enters and gives up, where that many wait.
#[divan::bench(args = MANY)]
fn acquire_and_cancel(bencher: Bencher, callers: usize) {
    let (mut participant, _) = waiting(callers);
    bencher.bench_local(|| {
        let acquire = participant.acquire(now(), 1, None).expect("accepted");
        participant.cancel(now(), acquire);
    });
}

/// The time of one caller ends, where that many wait.
#[divan::bench(args = MANY)]
fn acquire_and_time_out(bencher: Bencher, callers: usize) {
    let (mut participant, _) = waiting(callers);
    bencher.bench_local(|| {
        participant
            .acquire(now(), 1, Some(now()))
            .expect("accepted");
        participant.handle_timeout(now());
        participant.poll_event().expect("it is over")
    });
}

/// The same answer again, where that many local callers wait behind ten contenders.
#[divan::bench(args = MANY, sample_count = 30)]
fn handle_a_view_for_many_callers(bencher: Bencher, callers: usize) {
    let answer = Document::new(10, 3).answer();
    let (participant, read) = waiting(callers);
    bencher
        .with_inputs(|| (participant.clone(), answer.clone()))
        .bench_refs(|(participant, answer)| {
            participant.handle_response(now(), read, Ok(answer.clone()));
        });
}

fn now() -> Instant {
    Instant::from_origin(Duration::from_secs(1))
}

/// A participant with that many waiting callers, and its read of the prefix, which is under way.
fn waiting(callers: usize) -> (Participant, RequestId) {
    let settings = Settings::new(prefix(), 3).expect("a limit");
    let mut participant = Participant::new(settings, 1);
    for _ in 0..callers {
        let deadline = now() + Duration::from_secs(3600);
        participant
            .acquire(now(), 1, Some(deadline))
            .expect("accepted");
    }
    let mut read = None;
    participant.handle_timeout(now());
    while let Some(transmit) = participant.poll_transmit(now()) {
        if transmit.request.target().contains("recurse") {
            read = Some(transmit.id);
        }
    }
    (participant, read.expect("a read of the prefix"))
}
