//! The run on the agent that the environment names.

use std::sync::Arc;
use std::time::Duration;

use semaphore_core::Error;
use semaphore_core::adapter::{BlockOn as _, Method, Request, Runtime as _, Transport as _};
use transport_ureq::UreqTransport;

use crate::contest::{Contest, holds};
use crate::failure::Failure;
use crate::flags::Flags;
use crate::say::say;
use crate::story::Story;

const LONGEST_HOLD: Duration = Duration::from_millis(1_800);

pub(crate) fn run(flags: &Flags) -> Result<(Story, Vec<Error>), Failure> {
    let first = UreqTransport::from_env().map_err(Failure::Environment)?;
    let address = first.address().unwrap_or_default();
    let probe = Request::new(Method::Get, "/v1/status/leader");
    let probe = probe.with_timeout(Duration::from_secs(5));
    match wait(&first, first.send(probe)) {
        Ok(answer) if answer.status() == 200 => {}
        Ok(answer) => {
            let status = answer.status();
            return Err(Failure::NotReady { address, status });
        }
        Err(source) => return Err(Failure::Unreachable { address, source }),
    }
    say(format_args!(
        "{} contenders, {} slots, the agent at {address}",
        flags.contenders, flags.limit
    ));

    let mut hosts = vec![first.clone()];
    while hosts.len() < flags.contenders as usize {
        hosts.push(UreqTransport::from_env().map_err(Failure::Environment)?);
    }
    let story = Arc::new(Story::new(first.now(), flags.limit));
    let seed = flags.seed.unwrap_or_else(|| first.seed());
    let contest = Contest {
        hosts,
        holds: holds(flags, flags.longest_hold.unwrap_or(LONGEST_HOLD), seed),
        story: Arc::clone(&story),
    };
    let errors = wait(&first, contest.run(flags))?;
    drop(contest);
    Ok((story.told(), errors))
}

/// Runs a future to its end on this thread.
fn wait<T: Send>(transport: &UreqTransport, future: impl Future<Output = T> + Send) -> T {
    let mut output = None;
    transport.block_on(Box::pin(async { output = Some(future.await) }));
    output.unwrap_or_else(|| unreachable!("a runtime runs the future to its end"))
}
