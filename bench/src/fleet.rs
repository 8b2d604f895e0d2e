//! Many semaphores of one process, one slot of each held at once.

use std::thread;

use serde::Deserialize;

use crate::failure::Failure;
use crate::measures::whole;
use crate::ours::Contend;
use crate::row::Row;
use crate::scenes::{Care, Findings};
use crate::world::World;

/// The part of the output of `contend --mode fleet --json` that is used here.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Figures {
    semaphores: u64,
    granted: u64,
    lost: u64,
    sessions: u64,
    requests_per_s: f64,
    peak_connections: Option<u64>,
    threads: Option<u64>,
    acquire_p99_ms: f64,
}

/// Many semaphores that are held at the same time.
struct Fleet {
    name: &'static str,
    args: &'static str,
    /// How many processes hold that many each.
    processes: usize,
    /// For how many seconds they hold, except with `--quick`.
    seconds: u32,
    is_long: bool,
    wants: &'static [(Figure, f64)],
}

/// A figure that must not exceed a limit. Besides, nobody may lose anything.
#[derive(Clone, Copy)]
enum Figure {
    Sessions,
    Threads,
    Connections,
    Requests,
}
use Figure::{Connections, Requests, Sessions, Threads};

const FLEETS: &[Fleet] = &[
    Fleet {
        name: "50 semaphores of one client, tokio",
        args: "--semaphores 50",
        processes: 1,
        seconds: 15,
        is_long: false,
        wants: &[(Sessions, 1.0), (Threads, 5.0)],
    },
    Fleet {
        name: "50 semaphores of one client, threads",
        args: "--semaphores 50 --backend threads",
        processes: 1,
        seconds: 15,
        is_long: false,
        wants: &[(Sessions, 1.0), (Threads, 5.0)],
    },
    Fleet {
        name: "50 semaphores of one client, smol",
        args: "--semaphores 50 --backend smol",
        processes: 1,
        seconds: 15,
        is_long: false,
        wants: &[(Sessions, 1.0), (Threads, 5.0)],
    },
    Fleet {
        name: "250 semaphores of one transport",
        args: "--semaphores 250 --transports shared",
        processes: 1,
        seconds: 60,
        is_long: false,
        wants: &[(Connections, 64.0)],
    },
    Fleet {
        name: "4 × 250 semaphores, a client for each of four processes",
        args: "--semaphores 250",
        processes: 4,
        seconds: 60,
        is_long: false,
        wants: &[],
    },
    Fleet {
        name: "1,000 semaphores of one client",
        args: "--semaphores 1000",
        processes: 1,
        seconds: 60,
        is_long: false,
        wants: &[(Connections, 64.0), (Requests, 25.0)],
    },
    Fleet {
        name: "10,000 semaphores of one client",
        args: "--semaphores 10000",
        processes: 1,
        seconds: 60,
        is_long: true,
        wants: &[(Connections, 64.0)],
    },
];

impl Fleet {
    /// Runs it once: one such run says as much as three.
    fn measure(&self, number: usize, contend: &Contend, care: Care) -> Result<Vec<Row>, Failure> {
        let seconds = if care.quick { 5 } else { self.seconds };
        let args = format!("--mode fleet {} --hold-ms {seconds}000", self.args);
        let run = |process| {
            contend.run::<Figures>(&args, &format!("bench/fleet-{number}-{process}"), None)
        };
        let fleets: Vec<Figures> = thread::scope(|scope| {
            let started = (0..self.processes).map(|process| scope.spawn(move || run(process)));
            let started: Vec<_> = started.collect();
            let ended = started
                .into_iter()
                .map(|it| it.join().unwrap_or_else(|_| late()));
            ended.collect::<Result<_, _>>()
        })?;
        let most =
            |figure: &dyn Fn(&Figures) -> f64| fleets.iter().map(figure).fold(f64::NAN, f64::max);
        let sum = |figure: fn(&Figures) -> u64| whole(Some(fleets.iter().map(figure).sum()));
        let name = format!("{}, held for {seconds} s", self.name);
        let missing = |it: &Figures| it.semaphores.saturating_sub(it.granted);
        let mut rows = vec![
            Row::new(&name, "not granted", sum(missing)).at_most(0.0),
            Row::new(&name, "lost", sum(|it| it.lost)).at_most(0.0),
        ];
        rows.extend(self.wants.iter().map(|(figure, limit)| {
            let (text, reached) = match figure {
                Sessions => ("sessions", sum(|it| it.sessions)),
                Threads => ("threads at the peak", most(&|it| whole(it.threads))),
                Connections => ("connections", most(&|it| whole(it.peak_connections))),
                Requests => (
                    "requests per second while held",
                    most(&|it| it.requests_per_s),
                ),
            };
            Row::new(&name, text, reached).at_most(*limit)
        }));
        let p99 = most(&|it| it.acquire_p99_ms);
        rows.push(Row::new(&name, "p99 of acquire, ms", p99));
        Ok(rows)
    }
}

fn late<T>() -> Result<T, Failure> {
    Err(Failure::NoReport {
        args: "contend --mode fleet".to_owned(),
        said: "its thread ended".to_owned(),
    })
}

/// Runs all fleets, one after the other, on an agent at its default limits.
///
/// # Errors
/// [`Failure`] when one can't be run to its end.
pub(crate) fn measure(world: &World, care: Care, found: &mut Findings) -> Result<(), Failure> {
    let contend = world.contend()?;
    for (number, fleet) in FLEETS.iter().enumerate() {
        if !(fleet.is_long && care.quick) {
            found.rows.extend(fleet.measure(number, &contend, care)?);
        }
    }
    Ok(())
}
