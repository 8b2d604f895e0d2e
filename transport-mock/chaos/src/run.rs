//! A whole run: the cluster, the clients beside `consul lock`, the storm, the calm after it, and
//! what is left.

use std::time::{Duration, Instant};
use std::{fs, io, thread};

use fastrand::Rng;
use real_agent::{Client as Admin, Cluster, SERVERS};
use semaphore_core::Semaphore;
use serde::Serialize;
use transport_ureq::UreqTransport;

use crate::client::OURS;
use crate::diary::Diary;
use crate::failure::{Failure, Try as _};
use crate::fleet::Fleet;
use crate::lockers::{Lockers, Setup};
use crate::moment::Moment;
use crate::nemesis::Nemesis;
use crate::record::{Backend, Client, End, Folder, Run, Slots};
use crate::witness::{Witnesses, sessions};

/// The shortest that Consul allows.
const TTL: Duration = Duration::from_secs(10);
const LOCKERS: usize = 2;
/// How long the clients may take to end in order, on a loaded machine.
const ENDING: Duration = Duration::from_mins(2);
const PATIENCE: Duration = Duration::from_mins(3);

impl Run {
    /// Six clients, two on each backend, each on another server, and two semaphores: one of
    /// several slots, shared with `consul lock`, and one of a single slot.
    pub fn new(seed: u64, chaos: Duration) -> Self {
        let slots = |prefix: &str, limit, contenders| Slots {
            prefix: prefix.to_owned(),
            limit,
            contenders,
        };
        let backends = [Backend::Tokio, Backend::Threads, Backend::Smol];
        let clients = (0..2 * backends.len()).map(|number| Client {
            backend: backends[number % backends.len()],
            server: (number + number / backends.len()) % SERVERS,
        });
        Self {
            seed,
            chaos,
            ttl: TTL,
            semaphores: vec![slots("chaos/shared", 3, 3), slots("chaos/single", 1, 2)],
            clients: clients.collect(),
        }
    }

    /// How long nothing goes wrong before the end: Consul expires the sessions of the killed after
    /// twice the TTL, counted anew from the last election.
    fn quiet(&self) -> Duration {
        self.ttl * 2 + Duration::from_secs(8)
    }
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
    let mut cluster = Cluster::start().doing("starting the cluster")?;
    let admins: Vec<_> = (0..SERVERS)
        .map(|number| cluster.server(number).client())
        .collect();
    let witnesses = Witnesses::start(admins.clone(), run, &folder.sightings())
        .doing("opening the log of what is seen")?;
    let mut fleet = Fleet::start(run, &cluster, folder, defect)?;
    let setup = Setup {
        binary: cluster.server(0).binary(),
        agents: (0..SERVERS)
            .map(|number| cluster.server(number).addr().to_string())
            .collect(),
        slots: run.semaphores[0].clone(),
        log: folder.locks(),
    };
    let lockers = Lockers::start(&setup, LOCKERS, &mut rng);

    tell("everything goes wrong");
    let mut nemesis = Nemesis {
        cluster: &mut cluster,
        fleet: &mut fleet,
        diary: &deeds,
        rng,
    };
    nemesis.storm(Instant::now() + run.chaos)?;
    cluster
        .wait_for_leader()
        .doing("waiting for the cluster to heal")?;

    let mut end = End {
        quiet_from: Moment::now(),
        ..End::default()
    };
    tell("nothing goes wrong any more");
    thread::sleep(run.quiet());
    tell("all clients end");
    end.hung = fleet.end(ENDING).doing("ending the clients")?;
    look_for_ours(&admins[0], run, &mut end).doing("looking for what is left")?;
    end.hung_locks = lockers.end().doing("ending consul lock")?;
    tell("one takes all slots at last");
    witnesses.end().doing("writing down what was seen")?;
    for slots in &run.semaphores {
        if let Err(error) = all_at_last(run, slots, &admins[0]) {
            end.last_failure = Some(format!("{}: {}", slots.prefix, error.with_causes()));
        }
        let left = admins[0].leftovers(&slots.prefix);
        let left = left.doing("looking for what is left at last")?;
        end.at_last.extend(left.keys);
        end.at_last.extend(left.holders);
    }
    write(&folder.end(), &end)
}

fn write(path: &std::path::Path, what: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(what).doing("writing a log")?;
    fs::write(path, text).doing("writing a log")
}

/// By now the sessions of those who were killed have expired.
fn look_for_ours(admin: &Admin, run: &Run, end: &mut End) -> io::Result<()> {
    let names = sessions(admin)?.into_values();
    end.sessions = names.filter(|name| name.starts_with(OURS)).collect();
    for slots in &run.semaphores {
        for key in admin.leftovers(&slots.prefix)?.keys {
            let value = admin.get(&format!("/v1/kv/{key}?raw"))?;
            if value.text().starts_with(OURS) {
                end.keys.push(key);
            }
        }
    }
    Ok(())
}

/// Takes all slots, which needs everybody else to be gone, and cleans up after the dead.
fn all_at_last(run: &Run, slots: &Slots, admin: &Admin) -> Result<(), Failure> {
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
