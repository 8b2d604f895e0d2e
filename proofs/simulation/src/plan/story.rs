//! A plan as text.

mod deeds;

use std::fmt;

use semaphore_core::sans_io::Dialect;
use transport_mock::consul::Profile;

use super::{
    End, Fate, Holding, HostPlan, How, Place, Plan, Rolling, Shared, Sort, Stranger, Told, Trouble,
    Turn, UserPlan,
};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_world(f, self)?;
        for host in &self.hosts {
            write_host(f, self, host)?;
        }
        match self.dialect {
            Dialect::Map => {}
            Dialect::Array => writeln!(f, "there are empty records in the guide's dialect")?,
            Dialect::LowerCaseArray => {
                writeln!(f, "there are empty records in the dialect of Java clients")?;
            }
            other => writeln!(f, "there are empty records in {other:?}")?,
        }
        if self.is_beside_others {
            writeln!(f, "others keep 40 kB below the prefix of each semaphore")?;
        }
        for stranger in &self.strangers {
            let prefix = Self::prefix(stranger.prefix);
            write!(
                f,
                "stranger-{} on {prefix} from {:?}: ",
                stranger.number, stranger.at
            )?;
            if let Some(dialect) = stranger.dialect {
                write!(f, "writes as {dialect:?} and ")?;
            }
            match stranger.kind {
                Stranger::Go { turns, hold } => writeln!(f, "acquires {turns} times for {hold:?}")?,
                Stranger::Stuck(time) => writeln!(f, "waits for {time:?} and never claims")?,
                Stranger::Crowd { holders, hold } => {
                    writeln!(f, "{holders} hold for {hold:?}, then leave or die")?;
                }
                Stranger::ConsulLock { turns, hold } => writeln!(
                    f,
                    "leads {turns} times for {hold:?} and deletes the key afterwards"
                )?,
            }
        }
        for (at, deed) in &self.deeds {
            writeln!(f, "at {at:?}: {deed}")?;
        }
        Ok(())
    }
}

/// Writes what is true for one host, and what its users and requests meet.
fn write_host(f: &mut fmt::Formatter<'_>, plan: &Plan, host: &HostPlan) -> fmt::Result {
    let prefix = Plan::prefix(host.prefix);
    writeln!(
        f,
        "node-{} on {prefix}, whose clock runs at {:.3}:",
        host.number, host.clock
    )?;
    if !host.starts_at.is_zero() {
        writeln!(f, "  it starts at {:?}", host.starts_at)?;
    }
    if let Some(server) = host.server {
        writeln!(f, "  it talks to {} alone", Plan::node(server))?;
    }
    if host.own_node {
        writeln!(f, "  its sessions stand on {}", Plan::OWN_NODE)?;
    }
    if host.ttl != plan.ttl {
        writeln!(f, "  its TTL is {:?}", host.ttl)?;
    }
    if let Some(delay) = host.lock_delay {
        writeln!(f, "  its lock delay is {delay:?}")?;
    }
    if let Some(Rolling { limit, adopts }) = host.rolling {
        let meanwhile = if adopts {
            "goes by the record's until then"
        } else {
            "refuses the record's until then"
        };
        writeln!(
            f,
            "  it writes the limit {limit} where nobody holds, and {meanwhile}"
        )?;
    }
    if let Some(time) = host.keeps_lost {
        writeln!(f, "  it keeps lost slots, and stops within {time:?}")?;
    }
    if host.follows {
        writeln!(f, "  it follows the leader")?;
    }
    if let Some(shared) = &host.shared {
        write!(f, "{shared}")?;
    }
    if host.client {
        writeln!(f, "  all that it has goes by one client")?;
        if let Some(most) = host.own_polls {
            writeln!(
                f,
                "    if more than {most} hold, they are looked after together"
            )?;
        }
    }
    let own = [("semaphore", &host.own), ("election", &host.own_elections)];
    for (what, users) in own {
        for (own, turn) in turns(users) {
            writeln!(f, "    own {what} {own}: {turn}")?;
        }
    }
    for also in &host.also {
        writeln!(f, "  it also contends for {}:", Plan::prefix(also.prefix))?;
        for (user, turn) in turns(&also.users) {
            writeln!(f, "    user {user}: {turn}")?;
        }
    }
    for (user, it) in host.users.iter().enumerate() {
        writeln!(f, "  user {user}:")?;
        for turn in &it.turns {
            writeln!(f, "    {turn}")?;
        }
    }
    for ((sort, number), trouble) in &host.troubles {
        writeln!(f, "  its request {number}{sort}: {trouble}")?;
    }
    Ok(())
}

/// Writes what is true for the whole plan.
fn write_world(f: &mut fmt::Formatter<'_>, plan: &Plan) -> fmt::Result {
    writeln!(
        f,
        "limit {}, TTL {:?}, {} prefix(es), messages travel up to {:?}, a session lives {:.3} TTLs, a lock delay {:.3} times its length, the storm lasts {:?}",
        plan.limit,
        plan.ttl,
        plan.prefixes.len(),
        plan.latency,
        plan.lifetime,
        plan.lock_delay_length,
        plan.storm
    )?;
    for (number, place) in plan.prefixes.iter().enumerate() {
        if let Place::Election { lock_delay } = place {
            let prefix = Plan::prefix(number);
            write!(f, "{prefix} is an election")?;
            match lock_delay {
                Some(delay) => writeln!(f, ", its lock delay is {delay:?}")?,
                None => writeln!(f)?,
            }
        }
    }
    match plan.access_control {
        None => {}
        Some(Told::InHeader) => writeln!(f, "tokens are asked for; filtered reads say so")?,
        Some(Told::NotAtAll) => {
            writeln!(f, "tokens are asked for; filtered reads don't say so")?;
        }
    }
    if plan.profile != Profile::default() {
        writeln!(f, "Consul is {}", plan.profile)?;
    }
    if let Some(Holding { wait, late }) = plan.holding {
        let (least, most) = wait;
        writeln!(
            f,
            "without a leader agents hold requests for {least:?} to {most:?}, and what they hold is applied up to {late:?} after an election"
        )?;
    }
    Ok(())
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "",
            Self::Record => " for the record",
            Self::Key => " for a contender key",
            Self::Session => " for the life of a session",
            Self::Renewal => " for a renewal",
            Self::Read => " for a read",
        })
    }
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  it shares the connections of {} transport(s), its agent allows {}, and {} tasks read",
            self.transports, self.allowed, self.readers
        )
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {:?}, {} permit(s) ", self.idle, self.permits)?;
        match self.how {
            How::Acquire => write!(f, "are waited for"),
            How::Within(time) => write!(f, "are waited for up to {time:?}"),
            How::Try => write!(f, "are tried for"),
            How::CancelAfter(time) => write!(f, "are waited for, given up after {time:?}"),
        }?;
        write!(f, "; held for {:?}, ", self.hold)?;
        if self.changes > 0 {
            write!(f, "with {} other value(s), ", self.changes)?;
        }
        write!(f, "then ")?;
        match self.end {
            End::Release => write!(f, "released"),
            End::Drop => write!(f, "dropped"),
            End::Abandon(time) => write!(f, "released, which is given up after {time:?}"),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(fault) => write!(f, "{fault}"),
            Self::Deed(after, deed) => write!(f, "{after:?} later: {deed}"),
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CutOff => "is killed",
            Self::Stalled => "stands still",
            Self::Paused => "stands still with its hosts",
            Self::Remembers => "is cut off and renews what it remembers",
            Self::Outvoted { believes, elects } => {
                return write!(
                    f,
                    "led, is parted from most servers, which elect another leader after {elects:?}, and believes for {believes:?}"
                );
            }
        })
    }
}

/// All turns of all users, each with the user's number.
fn turns(users: &[UserPlan]) -> impl Iterator<Item = (usize, &Turn)> {
    let users = users.iter().enumerate();
    users.flat_map(|(number, user)| user.turns.iter().map(move |turn| (number, turn)))
}
