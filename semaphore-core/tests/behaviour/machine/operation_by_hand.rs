//! An operation without its driver. It sends nothing before its time, and its failures come to an
//! end.

use semaphore_core::manage::{Inspect, Operation, Resize, Task};
use semaphore_core::sans_io::{Instant, Method, Response, TransportError, TransportErrorKind};
use semaphore_core::{Error, Prefix, Scope};

use crate::support::*;

fn now() -> Instant {
    Instant::from_origin(secs(1))
}

fn prefix() -> Prefix {
    Prefix::new(PREFIX).expect("a prefix")
}

fn inspection() -> Operation<Inspect> {
    Operation::new(Inspect::new(prefix(), Scope::new()), 1)
}

fn is_sending<T: Task>(operation: &mut Operation<T>, now: Instant) -> bool {
    operation.poll_transmit(now).is_some()
}

/// Asserts that the next request waits, sends it when it is due, and returns that time.
#[track_caller]
fn send_later<T: Task>(operation: &mut Operation<T>, now: Instant) -> Instant {
    let due = operation.poll_timeout().expect("another attempt");
    assert!(due > now, "{due} at {now}");
    assert!(!is_sending(operation, due - millis(1)), "too early");
    assert!(is_sending(operation, due));
    due
}

#[test]
fn what_failed_is_tried_again_later_and_given_up_with_the_seventh_failure() {
    let mut operation = inspection();
    let mut now = now();
    assert!(is_sending(&mut operation, now));
    for _ in 0..6 {
        assert!(!is_sending(&mut operation, now), "one request at a time");
        let failure = TransportError::new(TransportErrorKind::NotSent);
        operation.handle_response(now, &Err(failure));
        assert!(operation.poll_output().is_none());
        now = send_later(&mut operation, now);
    }
    let failure = TransportError::new(TransportErrorKind::NotSent);
    operation.handle_response(now, &Err(failure));
    let output = operation.poll_output();
    assert!(matches!(output, Some(Err(Error::Request(_)))), "{output:?}");
    assert!(operation.poll_output().is_none(), "once");
    assert_eq!(operation.poll_timeout(), None);
    assert!(!is_sending(&mut operation, now + secs(60)));
}

#[test]
fn after_a_write_that_was_refused_the_next_read_waits_and_after_one_that_was_applied_it_does_not() {
    let record = r#"[{"Key":"service/db/.lock","Flags":0,
        "Value":"eyJMaW1pdCI6MSwiSG9sZGVycyI6W119","ModifyIndex":7}]"#;
    let found = Response::new(200, record).with_header("X-Consul-Index", "7");
    let resize = Resize::new(prefix(), Scope::new(), 2).expect("a limit");
    let mut operation = Operation::new(resize, 1);
    let mut now = now();
    assert!(is_sending(&mut operation, now));

    operation.handle_response(now, &Ok(found.clone()));
    let write = operation.poll_transmit(now).expect("a write");
    assert_eq!(write.method(), Method::Put);
    operation.handle_response(now, &Ok(Response::new(200, "false")));
    now = send_later(&mut operation, now);

    operation.handle_response(now, &Ok(found));
    assert!(is_sending(&mut operation, now));
    operation.handle_response(now, &Ok(Response::new(200, "true")));
    let read = operation.poll_transmit(now).expect("a read, at once");
    assert_eq!(read.method(), Method::Get);
}
