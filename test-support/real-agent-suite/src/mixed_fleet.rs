//! `consul lock -n` on the same prefix.
//!
//! Each holder writes a line to one file when it gets its slot, and another before it gives it
//! back. Appending is atomic, so the lines are in the order of the events.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use real_agent::Agent;
use semaphore_core::adapter::Runtime as _;

use crate::Backend;
use crate::locker::Locker;
use crate::scene::{Scene, wait_until};

const LIMIT: u32 = 3;
const PROCESSES: usize = 6;
const CLIENTS: usize = 6;
const ROUNDS: usize = 3;
const MOMENT: Duration = Duration::from_millis(10);

/// `$1` is the file.
const CHILD: &str = "echo +lock >> $1; sleep 0.05; echo -lock >> $1";

pub fn a_fleet_of_consul_lock_and_our_clients_keeps_the_limit(backend: &impl Backend) {
    let agent = Agent::start().unwrap();
    let scene = Scene::on(backend, &agent);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    fs::write(&log, "").unwrap();

    // This permit takes all slots while the fleet gathers.
    let gate = scene.semaphore(LIMIT);
    let permit = scene.run(gate.acquire_many(LIMIT)).unwrap();
    let lockers: Vec<_> = (0..PROCESSES)
        .map(|_| Locker::start(&agent, LIMIT, scene.prefix(), CHILD, &log))
        .collect();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (semaphore, clock) = (scene.semaphore(LIMIT), scene.home().clone());
            let log = log.clone();
            scene.start(async move {
                for _ in 0..ROUNDS {
                    let permit = semaphore.acquire().await.unwrap();
                    append(&log, "+ours");
                    // The first ones stay until all slots are taken, so a slow machine makes no
                    // difference.
                    while most(&fs::read_to_string(&log).unwrap()) < LIMIT as usize {
                        clock.sleep(MOMENT).await;
                    }
                    clock.sleep(MOMENT).await;
                    append(&log, "-ours");
                    permit.release().await.unwrap();
                }
            })
        })
        .collect();
    let gathered = LIMIT as usize + PROCESSES + CLIENTS;
    wait_until("all contend", || scene.contenders().len() >= gathered);
    assert_eq!(fs::read_to_string(&log).unwrap(), "");
    scene.release(permit);

    for client in clients {
        scene.finish(client);
    }
    lockers.into_iter().for_each(Locker::ends_well);
    let log = fs::read_to_string(&log).unwrap();
    let count = |line| log.lines().filter(|found| *found == line).count();
    for line in ["+ours", "-ours"] {
        assert_eq!(count(line), CLIENTS * ROUNDS, "{log}");
    }
    for line in ["+lock", "-lock"] {
        assert_eq!(count(line), PROCESSES, "{log}");
    }
    assert_eq!(most(&log), LIMIT as usize, "{log}");

    let left = scene.admin().leftovers(scene.prefix()).unwrap();
    assert!(left.keys.is_empty() && left.holders.is_empty(), "{left}");
    // `consul lock` destroys its session in the background, and may end before that. Ours are kept for a
    // while.
    let is_ours = |session: &String| {
        let info = scene.session_info(session);
        info["Name"]
            .as_str()
            .is_some_and(|it| it.contains("semaphore"))
    };
    wait_until("no session of ours is left", || {
        !scene.admin().sessions().unwrap().iter().any(is_ours)
    });
}

fn append(log: &Path, line: &str) {
    let mut file = OpenOptions::new().append(true).open(log).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn most(log: &str) -> usize {
    let mut held = 0;
    let mut most = 0;
    for line in log.lines() {
        if line.starts_with('+') {
            held += 1;
        } else {
            held -= 1;
        }
        most = most.max(held);
    }
    most
}
