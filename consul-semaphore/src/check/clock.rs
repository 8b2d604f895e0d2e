//! Whether this machine's clock runs as fast as the agent's. A holder's clock may run at most a
//! tenth slower than Consul's.
//!
//! Answers have the agent's time in whole seconds. So the measurement runs from the beginning of
//! one second to the beginning of another.

use std::time::Duration;

use boot_time::Instant;
use jiff::fmt::rfc2822;
use semaphore_core::adapter::Runtime as _;

use super::{CLOCK, Finding, get};
use crate::agent::Agent;

/// How long the clocks are compared.
const SECONDS: i64 = 3;

/// How often the agent is asked for its time.
const STEP: Duration = Duration::from_millis(15);

/// More requests than this are only needed if something is wrong.
const MOST: u32 = 600;

const ABOUT: &str = "clock";

/// The beginning of one of the agent's seconds. It lies between the request before the change and
/// the answer that showed the change.
struct Edge {
    second: i64,
    after: Instant,
    before: Instant,
}

pub(super) async fn check(agent: &Agent) -> Finding {
    let edges = (edge(agent, 1).await, edge(agent, SECONDS).await);
    let (Some(begin), Some(end)) = edges else {
        return Finding::unknown(ABOUT, "the agent does not tell its time");
    };
    let theirs = u64::try_from(end.second - begin.second).unwrap_or_default();
    let least = end.after.saturating_duration_since(begin.before);
    let most = end.before.saturating_duration_since(begin.after);
    judge(least, most, Duration::from_secs(theirs))
}

/// `least` and `most` are the bounds of the time that passed here.
fn judge(least: Duration, most: Duration, theirs: Duration) -> Finding {
    if theirs.is_zero() {
        return Finding::unknown(ABOUT, "the agent's clock was set back meanwhile");
    }
    let rate = |ours: Duration| ours.as_secs_f64() / theirs.as_secs_f64();
    let text = format!(
        "{:.2} to {:.2} s here were {} s of the agent's",
        least.as_secs_f64(),
        most.as_secs_f64(),
        theirs.as_secs()
    );
    // Half of the allowed deviation.
    if rate(most) < 0.95 || rate(least) > 1.05 {
        Finding::bad(
            ABOUT,
            CLOCK,
            text,
            "a holder's clock may run a tenth slower than Consul's: check the time service of both machines, and the clock \
             source of virtual ones",
        )
    } else {
        Finding::good(ABOUT, text)
    }
}

/// Waits until the agent's clock has advanced by this number of seconds.
async fn edge(agent: &Agent, seconds: i64) -> Option<Edge> {
    let mut after = Instant::now();
    let begin = time(agent).await?;
    for _ in 0..MOST {
        let asked = Instant::now();
        let second = time(agent).await?;
        if second >= begin + seconds {
            return Some(Edge {
                second,
                after,
                before: Instant::now(),
            });
        }
        after = asked;
        agent.transport.sleep(STEP).await;
    }
    None
}

async fn time(agent: &Agent) -> Option<i64> {
    let answer = get(agent, "/v1/status/leader").await.ok()?;
    let date = answer.header("Date")?;
    let date = rfc2822::DateTimeParser::new().parse_timestamp(date).ok()?;
    Some(date.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_slower_or_faster_is_told_and_a_vague_answer_is_not() {
        let seconds = Duration::from_secs_f64;
        for (least, most, exit) in [
            (2.98, 3.02, None),
            (2.5, 3.5, None),
            (2.6, 2.7, Some(CLOCK)),
            (3.3, 3.4, Some(CLOCK)),
        ] {
            let found = judge(seconds(least), seconds(most), seconds(3.0));
            assert_eq!(found.exit(), exit, "{least}");
        }
        let none = judge(seconds(3.0), seconds(3.0), Duration::ZERO);
        assert_eq!(none.exit(), None);
    }
}
