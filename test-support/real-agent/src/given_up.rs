//! Writes whose client hangs up before the answer, seen by a proxy.
//!
//! An agent still applies them, and its answer goes to nobody. The proxy tells the agent that the
//! client has gone, and still reads the answer.

use std::time::{Duration, Instant};

/// What became of writes whose client hung up before the answer. Transactions count as writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenUp {
    /// How many there were.
    pub writes: u64,
    /// For each write that was applied, the time from its client's end to its answer.
    pub applied: Vec<Duration>,
}

impl GivenUp {
    /// These and the others together.
    #[must_use]
    pub fn and(mut self, others: &Self) -> Self {
        self.writes += others.writes;
        self.applied.extend(&others.applied);
        self
    }

    /// How many were applied this long after their client's end, or later.
    pub fn applied_after(&self, time: Duration) -> u64 {
        self.applied.iter().filter(|it| **it >= time).count() as u64
    }
}

/// The request under way on one connection. There is one at a time.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    is_write: bool,
    /// When its client hung up.
    since: Option<Instant>,
}

impl UnderWay {
    /// The client has sent these bytes.
    pub(crate) fn sent(&mut self, bytes: &[u8]) {
        if self.since.is_none() && METHODS.iter().any(|it| bytes.starts_with(it)) {
            self.is_write = WRITES.iter().any(|it| bytes.starts_with(it));
        }
    }

    /// The client has hung up.
    pub(crate) fn hung_up(&mut self, given_up: &mut GivenUp) {
        if self.is_write && self.since.is_none() {
            self.since = Some(Instant::now());
            given_up.writes += 1;
        }
    }

    /// The agent has answered with these bytes.
    pub(crate) fn answered(&mut self, bytes: &[u8], given_up: &mut GivenUp) {
        let is_applied =
            bytes.starts_with(b"HTTP/1.1 200") && !bytes.trim_ascii_end().ends_with(b"false");
        if let Some(since) = self.since.take().filter(|_| is_applied) {
            given_up.applied.push(since.elapsed());
        }
        self.is_write = false;
    }
}

const METHODS: [&[u8]; 3] = [b"GET /", b"PUT /", b"DELETE /"];
const WRITES: [&[u8]; 3] = [b"PUT /v1/kv/", b"PUT /v1/txn", b"DELETE /v1/kv/"];

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: &[u8] = b"PUT /v1/kv/key HTTP/1.1\r\n\r\n";
    const APPLIED: &[u8] = b"HTTP/1.1 200 OK\r\n\r\ntrue\n";

    fn became(steps: impl FnOnce(&mut UnderWay, &mut GivenUp)) -> (u64, u64) {
        let (mut under_way, mut given_up) = (UnderWay::default(), GivenUp::default());
        steps(&mut under_way, &mut given_up);
        (given_up.writes, given_up.applied_after(Duration::ZERO))
    }

    #[test]
    fn a_write_that_is_answered_when_its_client_has_gone_was_given_up() {
        for (answer, applied) in [
            (APPLIED, 1),
            (b"HTTP/1.1 200 OK\r\n\r\nfalse".as_slice(), 0),
            (
                b"HTTP/1.1 500 Internal Server Error\r\n\r\nNo cluster leader",
                0,
            ),
        ] {
            let became = became(|it, given_up| {
                it.sent(WRITE);
                it.sent(b"a body");
                it.hung_up(given_up);
                it.hung_up(given_up);
                it.answered(answer, given_up);
                it.answered(answer, given_up);
            });
            assert_eq!(became, (1, applied));
        }
    }

    #[test]
    fn what_was_answered_before_or_only_reads_was_not() {
        let answered = became(|it, given_up| {
            it.sent(WRITE);
            it.answered(APPLIED, given_up);
            it.hung_up(given_up);
        });
        assert_eq!(answered, (0, 0));
        let read = became(|it, given_up| {
            it.sent(WRITE);
            it.answered(APPLIED, given_up);
            it.sent(b"GET /v1/kv/key HTTP/1.1\r\n\r\n");
            it.hung_up(given_up);
            it.answered(APPLIED, given_up);
        });
        assert_eq!(read, (0, 0));
    }
}
