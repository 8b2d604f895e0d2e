//! Other clients on the prefix. Clients of another kind don't wait for lock delays.

use semaphore_core::sans_io::api::ListKeys;
use semaphore_core::sans_io::{Dialect, View};
use transport_ureq::Prefix;

use super::{Finding, OTHERS};
use crate::agent::Agent;
use crate::failure::{Failure, whole};
use crate::identity::printable;
use crate::overview::details;

const ABOUT: &str = "others";

/// The default session names of Go's client and `consul lock`.
const OF_GO: &[&str] = &[
    "Consul API Semaphore",
    "Consul API Lock",
    "Consul lock for ",
];

/// The most contenders whose sessions are requested.
const MOST: usize = 64;

pub(super) async fn check(agent: &Agent, prefix: &Prefix) -> Finding {
    match found(agent, prefix).await {
        Ok(found) => found,
        Err(failure) => Finding::unknown(ABOUT, failure.whole()),
    }
}

async fn found(agent: &Agent, prefix: &Prefix) -> Result<Finding, Failure> {
    let list = ListKeys {
        prefix,
        wait: None,
        consistent: true,
    };
    let answer = agent.send(list.request(&agent.scope())).await?;
    let view = View::new(prefix, &ListKeys::parse(&answer)?);
    let advice = "clients of other kinds take the place of a dead holder without waiting for its lock delay: use one kind on a \
                  prefix";
    match view.lock().map(|lock| &lock.record) {
        None => return Ok(Finding::good(ABOUT, format!("nobody uses {prefix} yet"))),
        Some(Err(conflict)) => {
            let text = format!("{prefix}/.lock is not a semaphore's: {}", whole(conflict));
            return Ok(Finding::bad(ABOUT, OTHERS, text, "use another prefix"));
        }
        Some(Ok(record)) if record.dialect() != Dialect::Map => {
            let text =
                format!("the record at {prefix}/.lock is spelled as clients of another kind do");
            return Ok(Finding::bad(ABOUT, OTHERS, text, advice));
        }
        Some(Ok(_)) => {}
    }
    for contender in view.contenders().iter().take(MOST) {
        let session = &contender.session;
        let details = details(agent, session).await?;
        let name = details.map(|details| details.name).unwrap_or_default();
        let is_gos = OF_GO.iter().any(|known| name.starts_with(known));
        // The guide's contenders have no flags.
        if is_gos || contender.flags == 0 {
            let text = format!(
                "session {session} ({:?}) is of another kind",
                printable(&name)
            );
            return Ok(Finding::bad(ABOUT, OTHERS, text, advice));
        }
    }
    let count = view.contenders().len();
    Ok(Finding::good(
        ABOUT,
        format!("{count} contend for {prefix}, none of another kind"),
    ))
}
