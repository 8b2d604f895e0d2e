//! A mangled Consul for the operations of `manage`.
//!
//! Input: which operation, the content of the prefix, then one choice for each request.

use std::time::Duration;

use semaphore_core::manage::{
    DescribeSession, Destroy, DiscoverLeader, Inspect, Operation, Resize, Task, Verify,
};
use semaphore_core::sans_io::{Instant, Method, Request};
use semaphore_core::{LockKey, Prefix, Scope, Sequencer, SessionId};
use transport_mock::consul::Consul;

use crate::choices::Choices;
use crate::habit::Habit;
use crate::oracle::{Oracle, check_line};
use crate::stranger::KEY;
use crate::{PREFIX, mangle};

/// Plays the input.
pub fn run(input: &[u8]) {
    let mut choices = Choices::new(input);
    let prefix = Prefix::new(PREFIX).expect("a prefix");
    let scope = Scope::new();
    match choices.below(4) {
        0 => play(choices, Inspect::new(prefix, scope), only_reads),
        1 => {
            let limit = choices.pick(&[1, 2, 3, u32::MAX]);
            let resize = Resize::new(prefix, scope, limit).expect("a limit");
            play(choices, resize, |oracle, request| {
                oracle.check_resize(request, limit);
            });
        }
        2 => play(choices, Destroy::new(prefix, scope), |oracle, request| {
            oracle.check_destroy(request);
        }),
        _ => {
            let session = SessionId::new(mangle::SESSIONS[0]).expect("a session");
            match choices.below(3) {
                0 => {
                    let key = prefix.contender_key(&session);
                    let sequencer = Sequencer {
                        key,
                        lock_index: 1,
                        session,
                    };
                    play(choices, Verify::new(sequencer, scope), only_reads);
                }
                1 => {
                    let key = LockKey::new(KEY).expect("a key");
                    play(choices, DiscoverLeader::new(key, scope), only_reads);
                }
                _ => play(choices, DescribeSession::new(session, scope), only_reads),
            }
        }
    }
}

fn only_reads(_: &Oracle, request: &Request) {
    assert_eq!(request.method(), Method::Get);
    check_line(request);
}

/// How many requests an operation may send at once, and per second after that: reads, and a write
/// after each read.
const BURST: u32 = 110;
const PER_SECOND: u32 = 210;

fn play<T: Task>(mut choices: Choices<'_>, task: T, check: impl Fn(&Oracle, &Request)) {
    let mut now = Instant::from_origin(Duration::from_secs(1));
    let mut consul = Consul::new(1);
    let mut oracle = Oracle::new();
    fill(&mut consul, now, &mut choices);
    let mut operation = Operation::new(task, choices.number());
    let (start, mut requests) = (now, 0);
    let mut habits = choices.once_in(2).then(|| {
        let mut habit = || Habit::new(&mut choices);
        [habit(), habit()]
    });
    for _ in 0..2_000 {
        if operation.poll_output().is_some() {
            assert!(
                operation.poll_transmit(now).is_none(),
                "sends after its end"
            );
            return;
        }
        let Some(request) = operation.poll_transmit(now) else {
            let due = operation.poll_timeout().expect("it ends, sends or waits");
            assert!(due > now, "due at {due}, which is handled");
            now = due;
            continue;
        };
        requests += 1;
        let seconds = u32::try_from(now.saturating_since(start).as_secs()).unwrap_or(u32::MAX - 1);
        assert!(
            requests <= BURST + PER_SECOND.saturating_mul(seconds + 1),
            "{requests} requests in {seconds} s"
        );
        check(&oracle, &request);
        assert!(operation.poll_transmit(now).is_none(), "one at a time");
        consul.submit(now, &request);
        let (_, honest) = consul.poll_answer().expect("an answer at once");
        now = now + Duration::from_millis(choices.pick(&[0, 1, 100]));
        // After the last choice, the answers are honest.
        let result = match &mut habits {
            Some([reads, _]) if request.method() == Method::Get => reads.answer(honest),
            Some([_, writes]) => writes.answer(honest),
            None => mangle::result(honest, &mut choices),
        };
        if let Ok(response) = &result {
            oracle.show(&request, response);
        }
        operation.handle_response(now, &result);
        if choices.once_in(8) {
            operation.handle_response(now, &result);
        }
    }
}

/// Fills the prefix with some content.
fn fill(consul: &mut Consul, now: Instant, choices: &mut Choices<'_>) {
    let mut put = |name: &str, body: &[u8]| {
        let target = format!("/v1/kv/service/db/{}", name.replace(' ', "%20"));
        consul.submit(now, &Request::new(Method::Put, target).with_body(body));
    };
    if !choices.once_in(8) {
        let flags = choices.pick(&[semaphore_core::sans_io::api::SEMAPHORE_FLAGS, 0, 1]);
        put(&format!(".lock?flags={flags}"), &mangle::record(choices));
    }
    for _ in 0..choices.below(4) {
        put(choices.pick(mangle::SESSIONS), b"node");
    }
    while consul.poll_answer().is_some() {}
}
