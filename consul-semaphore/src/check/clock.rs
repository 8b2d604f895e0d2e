//! Whether this machine's clock runs as fast as the agent's: a holder's may run a tenth slower than Consul's, and no more.
//!
//! Each answer says the agent's time in whole seconds. What is timed is from the beginning of one second to that of another.

use std::time::Duration;

use boot_time::Instant;
use jiff::fmt::rfc2822;
use semaphore_core::adapter::Runtime as _;

use super::{CLOCK, Finding, get};
use crate::agent::Agent;

/// For how long the clocks are compared.
const SECONDS: i64 = 3;

/// How often the agent is asked for its time.
const STEP: Duration = Duration::from_millis(15);

/// More requests than this are not needed, unless something is wrong.
const MOST: u32 = 600;

const ABOUT: &str = "clock";

pub(super) async fn check(agent: &Agent) -> Finding {
    let Some((first, begun)) = edge(agent, 1).await else {
        return Finding::unknown(ABOUT, "the agent does not tell its time");
    };
    let Some((last, ended)) = edge(agent, SECONDS).await else {
        return Finding::unknown(ABOUT, "the agent does not tell its time");
    };
    let theirs = Duration::from_secs(u64::try_from(last - first).unwrap_or_default());
    judge(ended.duration_since(begun), theirs)
}

fn judge(ours: Duration, theirs: Duration) -> Finding {
    if theirs.is_zero() {
        return Finding::unknown(ABOUT, "the agent's clock was set back meanwhile");
    }
    let rate = ours.as_secs_f64() / theirs.as_secs_f64();
    let text = format!(
        "{:.2} s here were {} s of the agent's",
        ours.as_secs_f64(),
        theirs.as_secs()
    );
    // Half of what is granted, since this measures to one or two hundredths.
    if (0.95..=1.05).contains(&rate) {
        Finding::good(ABOUT, text)
    } else {
        Finding::bad(
            ABOUT,
            CLOCK,
            text,
            "a holder's clock may run a tenth slower than Consul's: check the time service of both machines, and the clock \
             source of virtual ones",
        )
    }
}

/// The moment at which the agent's clock has gone on by so many seconds from the present one, and what it says then.
async fn edge(agent: &Agent, seconds: i64) -> Option<(i64, Instant)> {
    let begin = time(agent).await?;
    for _ in 0..MOST {
        let now = time(agent).await?;
        if now >= begin + seconds {
            return Some((now, Instant::now()));
        }
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
    fn a_clock_that_is_slower_or_faster_is_told() {
        let seconds = Duration::from_secs_f64;
        for (ours, exit) in [
            (3.0, None),
            (3.04, None),
            (2.6, Some(CLOCK)),
            (3.4, Some(CLOCK)),
        ] {
            assert_eq!(judge(seconds(ours), seconds(3.0)).exit(), exit, "{ours}");
        }
        assert_eq!(judge(seconds(3.0), Duration::ZERO).exit(), None);
    }
}
