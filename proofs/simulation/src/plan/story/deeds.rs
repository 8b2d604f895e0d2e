//! A deed as text.

use std::fmt;

use crate::plan::{Deed, Hidden, Plan};

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill { host, down } => {
                write!(f, "node-{host} is killed and starts again {down:?} later")
            }
            Self::Exit { host, down } => {
                write!(f, "node-{host} ends, and starts again {down:?} later")
            }
            Self::Retire { host } => write!(f, "node-{host} ends for good"),
            Self::Pause { host, time } => write!(f, "node-{host} stands still for {time:?}"),
            Self::Partition { host, time } => write!(f, "node-{host} is cut off for {time:?}"),
            Self::Stall { host, time } => write!(f, "node-{host} is stalled for {time:?}"),
            Self::Gateway { host, time, answer } => {
                write!(
                    f,
                    "a gateway answers node-{host} with {answer:?} for {time:?}"
                )
            }
            Self::AgentDown { host, time } => {
                write!(f, "the agent of node-{host} is down for {time:?}")
            }
            Self::Lag { host, time } => {
                write!(f, "the agent of node-{host} lags behind for {time:?}")
            }
            Self::Restrict { host, what, time } => {
                let what = match what {
                    Hidden::Others => "the contender keys of others",
                    Hidden::Contenders => "contender keys",
                    Hidden::Everything => "anything",
                };
                write!(f, "node-{host} may not read {what} for {time:?}")
            }
            Self::Narrow { host, what, time } => {
                write!(f, "node-{host} may {what} for {time:?}")
            }
            Self::Revoke { host, time } => {
                write!(f, "the token of node-{host} is deleted for {time:?}")
            }
            Self::LoseLeader { time } => write!(f, "there is no leader for {time:?}"),
            Self::SlowLeader {
                without,
                lacks: usize::MAX,
                time,
            } => write!(
                f,
                "there is no leader for {without:?}, then one that takes {time:?} to apply its log"
            ),
            Self::SlowLeader {
                without,
                lacks,
                time,
            } => write!(
                f,
                "there is no leader for {without:?}, then one that takes {time:?} to apply the last {lacks} changes"
            ),
            Self::LoseServer {
                server,
                fate,
                time,
                reaped_after,
                back_after,
            } => {
                let node = Plan::node(*server);
                write!(
                    f,
                    "{node} {fate} for {time:?}; it is out of the catalog after {reaped_after:?} until {back_after:?} after it is back"
                )
            }
            Self::Deregister { server, time } => {
                write!(
                    f,
                    "{} is out of the catalog for {time:?}",
                    Plan::node(*server)
                )
            }
            Self::DeregisterOwn => write!(f, "{} is taken out of the catalog", Plan::OWN_NODE),
            Self::SlowCommits { .. }
            | Self::LimitRequests { .. }
            | Self::RaiseLeastTtl { .. }
            | Self::Suspend { .. }
            | Self::StepDown { .. } => write_spell(f, self),
            operation => write_operation(f, operation),
        }
    }
}

/// What servers or machines do otherwise for a while.
fn write_spell(f: &mut fmt::Formatter<'_>, deed: &Deed) -> fmt::Result {
    match deed {
        Deed::SlowCommits {
            takes,
            renewals,
            time,
        } => {
            let what = if *renewals {
                "a write or renewal"
            } else {
                "a write"
            };
            write!(f, "{what} takes {takes:?} for {time:?}")
        }
        Deed::LimitRequests {
            server,
            reads,
            writes,
            time,
        } => {
            match server {
                Some(server) => write!(f, "{}", Plan::node(*server))?,
                None => f.write_str("the leader")?,
            }
            let rate = |rate: &Option<f64>| rate.map_or("any".to_owned(), |it| it.to_string());
            let (reads, writes) = (rate(reads), rate(writes));
            write!(
                f,
                " serves {reads} reads and {writes} writes a second for {time:?}"
            )
        }
        Deed::RaiseLeastTtl { ttl, time } => {
            write!(f, "servers ask for a TTL of {ttl:?} for {time:?}")
        }
        Deed::Suspend { host, time, ahead } => write!(
            f,
            "node-{host} is suspended for {time:?}, and its clock {ahead:?} ahead then"
        ),
        Deed::StepDown { host } => write!(f, "node-{host} steps down"),
        // The others are elsewhere.
        _ => Ok(()),
    }
}

/// What an operator does.
fn write_operation(f: &mut fmt::Formatter<'_>, deed: &Deed) -> fmt::Result {
    match deed {
        Deed::ResetIndex => f.write_str("indexes are counted again"),
        Deed::Snapshot => f.write_str("a snapshot is saved"),
        Deed::Restore => f.write_str("the snapshot is restored"),
        Deed::DestroySession { nth } => write!(f, "session {nth} is destroyed"),
        Deed::DeleteKey { prefix, nth } => {
            write!(
                f,
                "contender key {nth} of {} is deleted",
                Plan::prefix(*prefix)
            )
        }
        Deed::RemoveHolder { prefix, nth } => {
            write!(f, "holder {nth} of {} is removed", Plan::prefix(*prefix))
        }
        Deed::DeleteRecord { prefix } => {
            write!(f, "the record of {} is deleted", Plan::prefix(*prefix))
        }
        Deed::Garble { prefix, time } => {
            let prefix = Plan::prefix(*prefix);
            write!(f, "the record of {prefix} is garbled for {time:?}")
        }
        Deed::Resize { prefix, limit } => {
            let prefix = Plan::prefix(*prefix);
            write!(f, "the limit in the record of {prefix} is set to {limit}")
        }
        Deed::Evict { prefix, nth } => {
            write!(f, "holder {nth} of {} is evicted", Plan::prefix(*prefix))
        }
        Deed::SetLimit { prefix, limit } => {
            write!(f, "{} is resized to {limit}", Plan::prefix(*prefix))
        }
        Deed::Destroy { prefix } => {
            write!(f, "{} is destroyed if unused", Plan::prefix(*prefix))
        }
        Deed::Overwrite { prefix } => {
            write!(f, "the key of {} is overwritten", Plan::prefix(*prefix))
        }
        // The others are above.
        _ => Ok(()),
    }
}
