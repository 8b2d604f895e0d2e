//! Other clients of the semaphore or the election. On a semaphore, clients of another kind don't wait
//! for lock delays.

use semaphore_core::sans_io::api::ListKeys;
use semaphore_core::sans_io::{Dialect, View};
use transport_ureq::{Error, LeaderStatus, LockKey, Prefix};

use super::target::Target;
use super::{Finding, OTHERS};
use crate::agent::Agent;
use crate::elect::discovery;
use crate::failure::{Failure, whole};
use crate::identity::{printable, shown};
use crate::overview::{details, is_election};

const ABOUT: &str = "others";

/// The default session names of Go's client and `consul lock`.
const OF_GO: &[&str] = &[
    "Consul API Semaphore",
    "Consul API Lock",
    "Consul lock for ",
];

/// The most contenders whose sessions are requested.
const MOST: usize = 64;

/// The most keys of others below a prefix, and the most bytes of its list, that are no cost to speak
/// of. A list is read at each change.
const FEW_KEYS: usize = 100;
const SHORT_LIST: usize = 1_000_000;

/// `sees_all` says whether the token was seen to read everything there.
pub(super) async fn check(agent: &Agent, target: &Target, sees_all: bool) -> Vec<Finding> {
    let found = match target {
        Target::Semaphore(prefix) => below(agent, prefix, sees_all).await,
        Target::Election(key) => candidates(agent, key).await.map(|it| vec![it]),
    };
    found.unwrap_or_else(|failure| vec![Finding::unknown(ABOUT, failure.whole())])
}

async fn below(agent: &Agent, prefix: &Prefix, sees_all: bool) -> Result<Vec<Finding>, Failure> {
    let list = ListKeys {
        prefix,
        wait: None,
        consistent: true,
    };
    let answer = agent.send(list.request(&agent.scope())).await?;
    let list = ListKeys::parse(&answer)?;
    let view = View::new(prefix, &list);
    let own = view.contenders().len() + usize::from(view.lock().is_some());
    let (keys, bytes) = (list.entries.len().saturating_sub(own), answer.body().len());
    let mut found = vec![contenders(agent, prefix, &view, sees_all).await?];
    if keys > FEW_KEYS || bytes > SHORT_LIST {
        let text = format!(
            "below {prefix} lie {keys} keys that are not the semaphore's, and its list has {bytes} bytes"
        );
        let advice = "all who wait read the whole list at each change: keep other keys elsewhere";
        found.push(Finding::dear("list", text, advice));
    }
    Ok(found)
}

async fn contenders(
    agent: &Agent,
    prefix: &Prefix,
    view: &View,
    sees_all: bool,
) -> Result<Finding, Failure> {
    let advice = "clients of other kinds take the place of a dead holder without waiting for its lock delay: use one kind on a \
                  prefix";
    match view.lock().map(|lock| &lock.record) {
        None if is_election(agent, prefix).await? => {
            let text = format!("{prefix} is an election's key: check it with --election");
            return Ok(Finding::unknown(ABOUT, text));
        }
        None if sees_all => return Ok(Finding::good(ABOUT, format!("nobody uses {prefix} yet"))),
        None => {
            let text = format!("the token may not look who uses {prefix}");
            return Ok(Finding::unknown(ABOUT, text));
        }
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
    let text = format!("{count} contend for {prefix}, none of another kind");
    Ok(if sees_all {
        Finding::good(ABOUT, text)
    } else {
        Finding::unknown(ABOUT, format!("{text}, as far as the token may look"))
    })
}

/// All kinds of clients elect one leader together. So only something else at the key is told.
async fn candidates(agent: &Agent, key: &LockKey) -> Result<Finding, Failure> {
    match discovery(agent, key.as_str())?.status().await {
        Ok(LeaderStatus::Led(leader)) => {
            let text = format!("{} leads {key}", shown(&leader.value));
            Ok(Finding::good(ABOUT, text))
        }
        Ok(LeaderStatus::Leaderless { last_value: None }) => {
            Ok(Finding::good(ABOUT, format!("nobody uses {key} yet")))
        }
        Ok(LeaderStatus::Leaderless { .. }) => {
            Ok(Finding::good(ABOUT, format!("nobody leads {key} now")))
        }
        Err(Error::NotAnElection { conflict, .. }) => {
            let text = format!("{key} is not an election's key: {}", whole(&conflict));
            Ok(Finding::bad(ABOUT, OTHERS, text, "use another key"))
        }
        Err(error) => Err(error.into()),
    }
}
