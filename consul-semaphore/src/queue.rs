//! While it waits, one line on the terminal says for whom.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use transport_ureq::manage::{Member, Snapshot};
use transport_ureq::{Election, Semaphore};

use crate::identity::{Identity, shown};

/// How often the queue is read.
pub(crate) const EVERY: Duration = Duration::from_secs(1);

/// How many wait ahead of this process's only acquisition. `None` if it is unknown, or nobody waits
/// any more.
pub(crate) fn ahead(semaphore: &Semaphore) -> Option<u32> {
    semaphore.status().first_waiter?.ahead
}

/// The line with our place.
pub(crate) async fn of_semaphore(semaphore: &Semaphore, waited: Duration) -> String {
    let prefix = semaphore.prefix();
    let waited = waited.as_secs();
    match semaphore.inspect().await {
        Ok(snapshot) => {
            let queue = queue(&snapshot, ahead(semaphore));
            format!("{prefix}: {queue}, waited {waited} s")
        }
        Err(error) => format!("{prefix}: waited {waited} s; {error}"),
    }
}

/// Who leads, while we don't.
pub(crate) async fn of_election(election: &Election, waited: Duration) -> String {
    let key = election.key();
    let waited = waited.as_secs();
    match election.discovery().leader().await {
        Ok(Some(leader)) => format!(
            "{key}: led by {}, waited {waited} s",
            described(&leader.value)
        ),
        Ok(None) => format!("{key}: nobody leads, waited {waited} s"),
        Err(error) => format!("{key}: waited {waited} s; {error}"),
    }
}

/// Our place, and the holders.
fn queue(snapshot: &Snapshot, ahead: Option<u32>) -> String {
    let place = match ahead {
        Some(ahead) => place(ahead),
        None => format!("{} wait", snapshot.waiters.len()),
    };
    let held = snapshot.holders.len();
    let limit = snapshot.limit;
    let holders: Vec<String> = snapshot.holders.iter().map(member).collect();
    let mut text = format!("{place}; {held} of {limit} held");
    if !holders.is_empty() {
        text.push_str(" by ");
        text.push_str(&holders.join(", "));
    }
    text
}

/// A place in the queue, for people.
pub(crate) fn place(ahead: u32) -> String {
    match ahead {
        0 => "next".to_owned(),
        ahead => format!("{ahead} ahead"),
    }
}

fn member(member: &Member) -> String {
    let mut text = described(&member.value);
    if !member.is_alive {
        text.push_str(" (its session has ended)");
    }
    text
}

fn described(value: &[u8]) -> String {
    match Identity::read(value) {
        Some(identity) => {
            // Its clock may be ahead of ours.
            let since = identity.since.min(Timestamp::now());
            format!("{} since {}", shown(value), clock(since))
        }
        None => shown(value),
    }
}

/// The local time of day, with the date if it is not today.
pub(crate) fn clock(time: Timestamp) -> String {
    let zone = TimeZone::system();
    let then = time.to_zoned(zone.clone());
    let today = Timestamp::now().to_zoned(zone).date();
    if then.date() == today {
        then.strftime("%H:%M:%S").to_string()
    } else {
        then.strftime("%Y-%m-%d %H:%M:%S").to_string()
    }
}
