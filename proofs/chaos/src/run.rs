//! A whole run: the cluster, the clients beside `consul lock`, the storm, the calm after it, and
//! the leftovers.

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
use crate::record::{Backend, Client, End, Folder, Place, Role, Run, Sight, Truth, What};
use crate::witness::{Witnesses, look, sessions};

/// The shortest that Consul allows.
const TTL: Duration = Duration::from_secs(10);
/// Those of a run in which servers are taken out, in seconds: most believe for longer than that takes.
const TTLS: std::ops::RangeInclusive<u64> = 10..=60;
/// Short, so that a client that believes too long is found beside another one. It has to be the default where
/// sessions end before their time.
const LOCK_DELAY: Duration = Duration::from_secs(1);
/// Half of the runs that last as long have their servers taken out.
const LONG_ENOUGH: Duration = Duration::from_mins(1);
/// The TTL of `consul lock`, which can't be told another one.
const THEIR_TTL: Duration = Duration::from_secs(15);
/// How long the clients may take to end in order, on a loaded machine, beyond what sessions take that
/// nobody renews.
const ENDING: Duration = Duration::from_mins(2);
const PATIENCE: Duration = Duration::from_mins(3);
/// A write is applied late that is so long after the end of its client: other requests have been answered since.
const LATE: Duration = Duration::from_secs(1);

impl Run {
    /// Six clients that contend, two on each backend, each on another server, and one on each backend
    /// that follows. They contend for two semaphores and in two elections; one of each is shared with
    /// `consul lock`.
    ///
    /// With `reaped` their servers go for so long that Consul ends the sessions that were made through them,
    /// while their holders, each of whom knows no other server, believe on. `consul lock` then takes part
    /// in an election only: at a semaphore it prunes at once every holder that has vanished, ours included. One contender on each backend
    /// has its sessions on a separate node, so that none of them ends so. One contender on each backend, with such a node and
    /// without, talks to a client agent, which goes, too. Unless told, the seed says whether it is such a run.
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
            // Of the two contenders on a backend one each, and a follower has no session.
            own_node: reaped && number % 2 == 1,
        });
        let clients = clients.collect();
        Self {
            seed,
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

    /// How long nothing goes wrong before the clients are told to end. A session that one of them leaves
    /// behind then was renewed within the last third of its TTL, so it outlives [`expiry`].
    fn calm(&self) -> Duration {
        self.longest_ttl() + Duration::from_secs(2)
    }

    /// How long the clients may take to end: each gets in once more, after those who were killed.
    fn ending(&self) -> Duration {
        let longest = (0..self.clients.len()).map(|client| self.lock_delay_of(client));
        ENDING + expiry(self.longest_ttl()) + longest.max().unwrap_or_default()
    }
}

/// How long after everything went wrong sessions with this TTL may exist that nobody renews any more,
/// those of the killed and those whose creation was not answered: Consul expires them after twice the
/// TTL, counted again from the last election.
fn expiry(ttl: Duration) -> Duration {
    ttl * 2 + Duration::from_secs(8)
}

/// Makes the run and leaves its logs in `folder`.
///
/// # Errors
/// [`Failure`] when the run can't be made. What it shows is for the checker to say.
pub fn run(run: &Run, folder: &Folder, defect: Option<&str>) -> Result<(), Failure> {
    fs::create_dir_all(folder.clients()).doing("making the folder of the logs")?;
    write(&folder.run(), run)?;
    let deeds = Diary::open(&folder.deeds()).doing("opening a log")?;
    fs::write(folder.locks(), "").doing("opening a log")?;
    let mut rng = Rng::with_seed(run.seed);
    let start = Instant::now();
    let tell = |what: &str| eprintln!("{:5.0} s  {what}", start.elapsed().as_secs_f64());
    tell("starting three servers");
    let servers = Agent::builder();
    let servers = if run.reaped {
        servers.reaped()
    } else {
        servers
    };
    let mut cluster = Cluster::start_with(&servers).doing("starting the cluster")?;
    let mut agents = Vec::new();
    for _ in 0..run.agents {
        let agent = cluster.join(&Agent::builder());
        agents.push(agent.doing("starting a client agent")?);
    }
    let servers = (0..SERVERS).map(|number| cluster.server(number));
    let all: Vec<_> = servers.chain(&agents).collect();
    let admins: Vec<_> = all.iter().map(|agent| agent.client()).collect();
    let witnesses = Witnesses::start(admins.clone(), run, &folder.sightings())
        .doing("opening the log of what is seen")?;
    let mut fleet = Fleet::start(run, &all, folder, defect)?;
    let setup = Setup {
        binary: cluster.server(0).binary(),
        agents: (0..SERVERS)
            .map(|number| cluster.server(number).addr().to_string())
            .collect(),
        log: folder.locks(),
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
    end.hung_locks = lockers.end().doing("ending consul lock")?;
    // It gives up where it can't reach a leader, and leaves its session and its keys.
    wait_for_expiry(&admins[0], THEIRS, healed + expiry(THEIR_TTL))?;
    tell("one takes everything at last");
    witnesses.end().doing("writing down what was seen")?;
    at_last(run, &admins[0], &mut end)?;
    let ended = fleet.end(Role::Follower, ENDING);
    end.hung.extend(ended.doing("ending those who follow")?);
    write(&folder.end(), &end)
}

fn write(path: &std::path::Path, what: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(what).doing("writing a log")?;
    fs::write(path, text).doing("writing a log")
}

/// Waits until no session of such a name is left, or all that may be left have expired.
fn wait_for_expiry(admin: &Admin, name: &str, end: Instant) -> Result<(), Failure> {
    loop {
        let left = sessions(admin).doing("waiting for sessions to expire")?;
        if Instant::now() >= end || !left.values().any(|it| it.starts_with(name)) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// By now the sessions of those who were killed have expired.
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
                // Who leads by now is another one: it has written what the key says.
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

/// Takes everything once more. The semaphores come last: those who follow learn meanwhile how the
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

/// Leads, which needs nobody else to lead, and says something that everybody who follows has to see.
fn one_leads_at_last(run: &Run, place: &Place, admin: &Admin) -> Result<(), Failure> {
    let backend = UreqTransport::new(admin.url()).doing("building a transport")?;
    let election = Election::builder(place.record_key())
        .ttl(run.ttl)
        .value("first and last")
        .connect_blocking(backend)
        .doing("building an election")?;
    let leadership = election.campaign_timeout(PATIENCE);
    let leadership = leadership.doing("leading at last")?;
    leadership.set_value("last").doing("saying a last word")?;
    leadership.resign().doing("resigning at last")?;
    election.shutdown();
    Ok(())
}

/// Takes all slots, which needs everybody else to be gone, and cleans up after the dead.
fn all_at_last(run: &Run, slots: &Place, admin: &Admin) -> Result<(), Failure> {
    let backend = UreqTransport::new(admin.url()).doing("building a transport")?;
    let semaphore = Semaphore::builder(&slots.prefix, slots.limit)
        .ttl(run.ttl)
        .connect_blocking(backend)
        .doing("building a semaphore")?;
    let permit = semaphore
        .acquire_many_timeout(slots.limit, PATIENCE)
        .doing("acquiring all slots at last")?;
    // Long enough to ask for each of the dead and to write the record without them.
    thread::sleep(Duration::from_secs(1));
    permit.release().doing("releasing all slots at last")?;
    // Keys that sessions of `consul lock` have left behind.
    semaphore.collect().doing("collecting what others left")?;
    semaphore.shutdown();
    Ok(())
}
