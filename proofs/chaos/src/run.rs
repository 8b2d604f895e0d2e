//! A whole run: the cluster, our clients beside `consul lock`, the storm, the calm afterwards, and
//! the leftovers.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use fastrand::Rng;
use real_agent::{Agent, Client as Admin, Cluster, SERVERS};
use semaphore_core::{Election, Semaphore};
use serde::Serialize;
use transport_ureq::UreqTransport;

use crate::client::OURS;
use crate::diary::Diary;
use crate::failure::{Failure, Try as _};
use crate::fleet::Fleet;
use crate::lockers::{Lockers, Setup, THEIRS};
use crate::moment::Moment;
use crate::nemesis::Nemesis;
use crate::record::{Backend, Client, End, Folder, Place, Release, Role, Run, Sight, Truth, What};
use crate::tokens;
use crate::usher::Ushers;
use crate::witness::{Witnesses, look, sessions};

/// The shortest TTL that Consul allows.
const TTL: Duration = Duration::from_secs(10);
/// The TTLs in seconds if servers are removed. Most holders then believe for longer than the
/// removal takes.
const TTLS: std::ops::RangeInclusive<u64> = 10..=60;
/// It is short, so a client that believes too long overlaps with another one. If sessions end
/// early, it must be the default instead.
const LOCK_DELAY: Duration = Duration::from_secs(1);
/// Half of the runs with at least this length have their servers removed.
const LONG_ENOUGH: Duration = Duration::from_mins(1);
/// Separates the choices of the cluster from the others.
const CLUSTER: u64 = 0x0c1a_55e5;
/// The TTL of `consul lock`, which can't be changed.
const THEIR_TTL: Duration = Duration::from_secs(15);
/// How long the clients may take to end in order on a loaded machine. The time until abandoned
/// sessions expire is added.
const ENDING: Duration = Duration::from_mins(2);
const PATIENCE: Duration = Duration::from_mins(3);
/// A write that is applied this long after its client's end counts as late: other requests have
/// been answered since.
const LATE: Duration = Duration::from_secs(1);

impl Run {
    /// Six clients contend: two on each backend, each with its own server. One client on each
    /// backend follows. There are two semaphores and two elections, and one of each is shared with
    /// `consul lock`.
    ///
    /// With `reaped`, servers are away for so long that Consul ends the sessions that were created
    /// through them. Their holders know no other server and believe on. `consul lock` then only
    /// takes part in an election: at a semaphore it prunes every dead holder at once, ours
    /// included.
    ///
    /// One contender on each backend uses a `Client`: what it holds at both semaphores stands on one
    /// session, and so do its terms in both elections.
    ///
    /// One contender on each backend has its sessions on a separate node, so they don't end with a
    /// server. One contender on each backend, with or without such a node, talks to a client agent,
    /// which ends, too. By default, the seed decides about `reaped`. It decides about the release of
    /// Consul and about ACLs, too.
    pub fn new(seed: u64, chaos: Duration, reaped: Option<bool>) -> Self {
        use What::{Election, Semaphore};
        let mut rng = Rng::with_seed(!seed);
        let drawn = rng.bool() && chaos >= LONG_ENOUGH;
        let reaped = reaped.unwrap_or(drawn);
        let place = |what, prefix: &str, limit, contenders| Place {
            what,
            prefix: prefix.to_owned(),
            limit,
            contenders,
        };
        let backends = [Backend::Tokio, Backend::Threads, Backend::Smol];
        let clients = (0..3 * backends.len()).map(|number| Client {
            backend: backends[number % backends.len()],
            server: if reaped && (1..=backends.len()).contains(&number) {
                SERVERS
            } else {
                (number + number / backends.len()) % SERVERS
            },
            role: if number < 2 * backends.len() {
                Role::Contender
            } else {
                Role::Follower
            },
            ttl: reaped.then(|| Duration::from_secs(rng.u64(TTLS))),
            // One of the two contenders on each backend. A follower has no session.
            own_node: reaped && number % 2 == 1,
            // One of the two contenders on each backend.
            shares: number < backends.len(),
        });
        let clients = clients.collect();
        // These draw separately, so that other choices stay the same.
        let mut rng = Rng::with_seed(seed ^ CLUSTER);
        let release = rng.choice(Release::DRAWN);
        Self {
            seed,
            release,
            acls: rng.bool(),
            chaos,
            ttl: TTL,
            lock_delay: (!reaped).then_some(LOCK_DELAY),
            reaped,
            agents: usize::from(reaped),
            places: vec![
                place(Semaphore, "chaos/shared", 3, 3),
                place(Semaphore, "chaos/single", 1, 2),
                place(Election, "chaos/elected", 1, 1),
                place(Election, "chaos/leader", 1, 2),
            ],
            clients,
        }
    }

    /// The calm before the clients are told to end. A session that a client leaves behind then was
    /// renewed within the last third of its TTL. So it outlives [`expiry`].
    fn calm(&self) -> Duration {
        self.longest_ttl() + Duration::from_secs(2)
    }

    /// How long the clients may take to end. Each acquires once more, after the killed ones have
    /// expired.
    fn ending(&self) -> Duration {
        let longest = (0..self.clients.len()).map(|client| self.lock_delay_of(client));
        ENDING + expiry(self.longest_ttl()) + longest.max().unwrap_or_default()
    }
}

/// How long sessions with this TTL may exist after the chaos without being renewed, such as those
/// of killed clients or those whose creation got no answer. Consul expires them after twice the
/// TTL, counted from the last election.
fn expiry(ttl: Duration) -> Duration {
    ttl * 2 + Duration::from_secs(8)
}

/// Does the run and leaves its logs in `folder`.
///
/// # Errors
/// [`Failure`] if the run can't be done. The checker judges its result.
pub fn run(run: &Run, folder: &Folder, defect: Option<&str>) -> Result<(), Failure> {
    fs::create_dir_all(folder.clients()).doing("making the folder of the logs")?;
    write(&folder.run(), run)?;
    let deeds = Diary::open(&folder.deeds()).doing("opening a log")?;
    fs::write(folder.locks(), "").doing("opening a log")?;
    let mut rng = Rng::with_seed(run.seed);
    let start = Instant::now();
    let tell = |what: &str| eprintln!("{:5.0} s  {what}", start.elapsed().as_secs_f64());
    tell("starting three servers");
    let agent = agent(run);
    let servers = if run.reaped {
        agent.clone().reaped()
    } else {
        agent.clone()
    };
    let mut cluster = Cluster::start_with(&servers).doing("starting the cluster")?;
    let mut agents = Vec::new();
    for _ in 0..run.agents {
        let joined = cluster.join(&agent);
        agents.push(joined.doing("starting a client agent")?);
    }
    let servers = (0..SERVERS).map(|number| cluster.server(number));
    let all: Vec<_> = servers.chain(&agents).collect();
    let admins: Vec<_> = all.iter().map(|agent| agent.client()).collect();
    if run.acls {
        tokens::make(&admins[0], run).doing("making tokens")?;
    }
    let ushers = Ushers::start(&admins[..SERVERS], run, &folder.queues())
        .doing("opening the log of the queues")?;
    let witnesses = Witnesses::start(admins.clone(), run, &folder.sightings())
        .doing("opening the log of what is seen")?;
    let mut fleet = Fleet::start(run, &all, folder, defect)?;
    let setup = Setup {
        binary: cluster.server(0).binary(),
        agents: (0..SERVERS)
            .map(|number| cluster.server(number).addr().to_string())
            .collect(),
        log: folder.locks(),
        token: tokens::of_admin(run),
    };
    let [shared, _, elected, _] = &run.places[..] else {
        return Err(Failure::step("planning a run", "other places than planned"));
    };
    let locked = [shared, shared, elected];
    let lockers = &locked[if run.reaped { 2 } else { 0 }..];
    let lockers = Lockers::start(&setup, lockers, &mut rng);

    tell("everything goes wrong");
    let mut nemesis = Nemesis {
        cluster: &mut cluster,
        agents: &mut agents,
        fleet: &mut fleet,
        diary: &deeds,
        rng,
        reaped: run.reaped,
        acls: run.acls,
        admins: &admins[..SERVERS],
        owed: BTreeSet::new(),
        takes_until: Instant::now(),
    };
    nemesis.storm(Instant::now() + run.chaos)?;
    cluster
        .wait_for_leader()
        .doing("waiting for the cluster to heal")?;

    let given_up = fleet.given_up();
    let mut end = End {
        quiet_from: Moment::now(),
        given_up: given_up.writes,
        applied_late: given_up.applied_after(LATE),
        latest: given_up.applied.into_iter().max().unwrap_or_default(),
        ..End::default()
    };
    tell("nothing goes wrong any more");
    let healed = Instant::now();
    thread::sleep(run.calm());
    tell("all who contend end");
    lockers.tell_to_end();
    let ended = fleet.end(Role::Contender, run.ending());
    end.hung = ended.doing("ending the clients")?;
    tell("what is left expires");
    wait_for_expiry(&admins[0], OURS, healed + expiry(run.longest_ttl()))?;
    look_for_ours(&admins[0], run, &mut end).doing("looking for what is left")?;
    if !end.sessions.is_empty() {
        tell("sessions are left: whether they expire, too");
        let later = Instant::now() + expiry(run.longest_ttl());
        wait_for_expiry(&admins[0], OURS, later)?;
        let left = sessions(&admins[0]).doing("looking for sessions again")?;
        let ours = left.into_values().filter(|name| name.starts_with(OURS));
        end.sessions_later = ours.collect();
    }
    end.hung_locks = lockers.end().doing("ending consul lock")?;
    // A `consul lock` gives up when it can't reach a leader, and leaves its session and its keys.
    wait_for_expiry(&admins[0], THEIRS, healed + expiry(THEIR_TTL))?;
    tell("one takes everything at last");
    witnesses.end().doing("writing down what was seen")?;
    ushers.end().doing("writing down who stood where")?;
    at_last(run, &admins[0], &mut end)?;
    let ended = fleet.end(Role::Follower, ENDING);
    end.hung.extend(ended.doing("ending those who follow")?);
    write(&folder.end(), &end)
}

/// What all agents of a run have in common.
fn agent(run: &Run) -> real_agent::Builder {
    let agent = Agent::builder();
    let agent = match run.release {
        Some(Release(major, minor)) => agent.release(major, minor),
        None => agent,
    };
    if run.acls {
        agent.acl(tokens::MANAGEMENT)
    } else {
        agent
    }
}

fn write(path: &std::path::Path, what: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(what).doing("writing a log")?;
    fs::write(path, text).doing("writing a log")
}

/// Waits until no session has such a name, or until all that may be left have expired.
fn wait_for_expiry(admin: &Admin, name: &str, end: Instant) -> Result<(), Failure> {
    loop {
        let left = sessions(admin).doing("waiting for sessions to expire")?;
        if Instant::now() >= end || !left.values().any(|it| it.starts_with(name)) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// By now, the sessions of killed clients have expired.
fn look_for_ours(admin: &Admin, run: &Run, end: &mut End) -> io::Result<()> {
    let names = sessions(admin)?;
    let is_ours = |name: &str| name.starts_with(OURS);
    for place in &run.places {
        match place.what {
            What::Semaphore => {
                for key in admin.leftovers(&place.prefix)?.keys {
                    let value = admin.get(&format!("/v1/kv/{key}?raw"))?;
                    if is_ours(&value.text()) {
                        end.keys.push(key);
                    }
                }
            }
            What::Election => {
                // By now somebody else may lead. Then the key has another value.
                if let Sight::Led { value, .. } = look(admin, place)?
                    && is_ours(&value)
                {
                    end.keys.push(place.record_key());
                }
            }
        }
    }
    end.sessions = names.into_values().filter(|name| is_ours(name)).collect();
    Ok(())
}

/// Acquires everything once more. The semaphores come last, so followers have time to learn how the
/// elections end.
fn at_last(run: &Run, admin: &Admin, end: &mut End) -> Result<(), Failure> {
    let (elections, semaphores): (Vec<_>, Vec<_>) =
        run.places.iter().partition(|place| place.is_election());
    for place in elections.into_iter().chain(semaphores) {
        let taken = match place.what {
            What::Semaphore => all_at_last(run, place, admin),
            What::Election => one_leads_at_last(run, place, admin),
        };
        if let Err(error) = taken {
            end.last_failure = Some(format!("{}: {}", place.prefix, error.with_causes()));
        }
        match place.what {
            What::Semaphore => {
                let left = admin.leftovers(&place.prefix);
                let left = left.doing("looking for what is left at last")?;
                end.at_last.extend(left.keys);
                end.at_last.extend(left.holders);
            }
            What::Election => {
                let sight = look(admin, place).doing("looking for who leads at last")?;
                if let Sight::Led { .. } = sight {
                    end.at_last.push(place.record_key());
                }
                let prefix = place.prefix.clone();
                end.truths.push(Truth { prefix, sight });
            }
        }
    }
    Ok(())
}

/// Leads, so nobody else may lead, and sets a value that every follower must see.
fn one_leads_at_last(run: &Run, place: &Place, admin: &Admin) -> Result<(), Failure> {
    let backend = UreqTransport::new(admin.url()).doing("building a transport")?;
    let builder = Election::builder(place.record_key())
        .ttl(run.ttl)
        .value("first and last");
    let election = builder
        .scope(tokens::scope(tokens::of_admin(run))?)
        .connect_blocking(backend)
        .doing("building an election")?;
    let leadership = election.campaign_timeout(PATIENCE);
    let leadership = leadership.doing("leading at last")?;
    leadership.set_value("last").doing("saying a last word")?;
    leadership.resign().doing("resigning at last")?;
    election.shutdown();
    Ok(())
}

/// Takes all slots, so nobody else may hold, and removes dead holders.
fn all_at_last(run: &Run, slots: &Place, admin: &Admin) -> Result<(), Failure> {
    let backend = UreqTransport::new(admin.url()).doing("building a transport")?;
    let builder = Semaphore::builder(&slots.prefix, slots.limit).ttl(run.ttl);
    let semaphore = builder
        .scope(tokens::scope(tokens::of_admin(run))?)
        .connect_blocking(backend)
        .doing("building a semaphore")?;
    let permit = semaphore
        .acquire_many_timeout(slots.limit, PATIENCE)
        .doing("acquiring all slots at last")?;
    // Long enough to ask about each dead holder and to write the record without them.
    thread::sleep(Duration::from_secs(1));
    permit.release().doing("releasing all slots at last")?;
    semaphore.shutdown();
    delete_free_keys(admin, slots).doing("deleting what others left")
}

/// A session of `consul lock` only releases its keys. So one that was killed leaves its contender
/// key, tied to nobody.
fn delete_free_keys(admin: &Admin, slots: &Place) -> io::Result<()> {
    for key in admin.leftovers(&slots.prefix)?.keys {
        let path = format!("/v1/kv/{key}");
        let found = admin.get(&path)?;
        if found.status == 200
            && found.json()?[0]["Session"]
                .as_str()
                .is_none_or(str::is_empty)
        {
            admin.delete(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_about_the_release_and_acls_and_each_is_drawn_as_often_as_the_other() {
        let run = |seed| Run::new(seed, TTL, None);
        let runs: Vec<_> = (0..1_000).map(run).collect();
        for release in Release::DRAWN {
            let drawn = runs.iter().filter(|run| run.release == Some(release));
            assert!((450..550).contains(&drawn.count()), "{release}");
        }
        let acls = runs.iter().filter(|run| run.acls).count();
        assert!((450..550).contains(&acls), "{acls}");
        assert_eq!(run(7), run(7));
    }
}
