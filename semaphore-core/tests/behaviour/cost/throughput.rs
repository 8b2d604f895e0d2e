//! How much of what is possible several processes with many callers get out of one semaphore, and what a turn costs them.
//! `cargo run --release -p scale` prints the figures, of more and for longer.

use std::sync::{Arc, Mutex};

use transport_mock::MockConsul;

use crate::support::*;

/// Who contends: each caller wants the slot again as soon as it has given it back.
struct Crowd {
    limit: u32,
    callers: usize,
    processes: usize,
    hold: u64,
}

/// What it came to within half a second.
#[derive(Debug)]
struct Figures {
    /// Of the turns that there would be if handovers took no time, in percent.
    percent: u64,
    /// For each hundred turns.
    requests: u64,
    most_held: u32,
}

const TIME: u64 = 500;

impl Crowd {
    fn run(&self) -> Figures {
        let world = MockConsul::new(3);
        let tally = Arc::new(Mutex::new((0_u64, 0_u32, 0_u32)));
        let handles: Vec<_> = (0..self.processes)
            .map(|number| semaphore(&world, &format!("process-{number}"), self.limit))
            .collect();
        let callers: Vec<_> = (0..self.callers)
            .map(|number| {
                let handle = handles[number % handles.len()].clone();
                let (sleeper, tally, hold) = (world.clone(), Arc::clone(&tally), self.hold);
                world.start(async move {
                    loop {
                        let permit = handle.acquire().await.expect("a turn");
                        {
                            let mut tally = tally.lock().expect("a tally");
                            tally.0 += 1;
                            tally.1 += 1;
                            tally.2 = tally.2.max(tally.1);
                        }
                        sleeper.sleep(millis(hold)).await;
                        tally.lock().expect("a tally").1 -= 1;
                        drop(permit);
                    }
                })
            })
            .collect();
        world.advance(millis(200));
        let before = (
            tally.lock().expect("a tally").0,
            world.stats().total_requests(),
        );
        world.advance(millis(TIME));
        let after = (
            tally.lock().expect("a tally").0,
            world.stats().total_requests(),
        );
        for caller in callers {
            caller.abort();
        }
        let turns = after.0 - before.0;
        let slots = (self.limit as usize).min(self.callers) as u64;
        let most_held = tally.lock().expect("a tally").2;
        Figures {
            percent: turns * 100 * self.hold / (slots * TIME),
            requests: (after.1 - before.1) * 100 / turns.max(1),
            most_held,
        }
    }
}

#[test]
fn few_slots_are_used_well_by_one_process_and_by_several() {
    for (processes, percent, requests) in
        [(1, 80, 150), (2, 70, 700), (4, 70, 700), (15, 70, 1_200)]
    {
        let crowd = Crowd {
            limit: 3,
            callers: 60,
            processes,
            hold: 10,
        };
        let figures = crowd.run();
        eprintln!("{processes} processes: {figures:?}");
        assert_eq!(figures.most_held, 3, "{processes}");
        assert!(figures.percent >= percent, "{processes}: {figures:?}");
        assert!(figures.requests <= requests, "{processes}: {figures:?}");
    }
}

#[test]
fn many_slots_are_used_well_by_one_process_and_by_several() {
    for (processes, percent, requests) in [(1, 90, 400), (4, 75, 500), (10, 60, 700)] {
        let crowd = Crowd {
            limit: 100,
            callers: 60,
            processes,
            hold: 50,
        };
        let figures = crowd.run();
        eprintln!("{processes} processes: {figures:?}");
        assert!(figures.most_held <= 60, "{processes}");
        assert!(figures.percent >= percent, "{processes}: {figures:?}");
        assert!(figures.requests <= requests, "{processes}: {figures:?}");
    }
}
