//! The longest silence that costs no hold, on virtual time: by kind, by TTL, and whenever it begins.

use std::fmt;
use std::time::Duration;

use transport_mock::{Election, Fault, MockConsul, Rule, Semaphore};

use crate::failure::Failure;

/// The TTLs that are measured, in seconds.
const TTLS: [u64; 3] = [10, 15, 60];

/// A silence begins at this many moments, spread over two of the longest times between renewals.
const MOMENTS: u32 = 40;

/// A silence is measured to this part of the TTL.
const STEPS: u32 = 300;

#[derive(Clone, Copy, Debug)]
enum Silence {
    /// The agent stands still. What was sent to it is answered when it goes on.
    Frozen,
    /// Every message is lost for good.
    Lost,
    /// Nobody listens at the address.
    Down,
    /// The agent says that it has no leader.
    Leaderless,
}

impl Silence {
    const ALL: [Self; 4] = [Self::Frozen, Self::Lost, Self::Down, Self::Leaderless];

    fn pass(self, world: &MockConsul, time: Duration) {
        let answer = |fault| world.inject(Rule::new(fault).always().optional());
        match self {
            Self::Frozen => world.stall("a"),
            Self::Lost => world.partition("a"),
            Self::Down => answer(Fault::Refuse),
            Self::Leaderless => answer(Fault::no_leader()),
        }
        world.advance(time);
        world.heal("a");
        world.clear_faults();
    }
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Frozen => "frozen",
            Self::Lost => "messages lost",
            Self::Down => "down",
            Self::Leaderless => "without a leader",
        })
    }
}

#[derive(Clone, Copy, Debug)]
enum What {
    Slot,
    Lead,
}

/// Prints the longest silences.
///
/// # Errors
/// [`Failure`] if a world does not work as it has to.
pub(crate) fn measure() -> Result<usize, Failure> {
    println!("| silence | what | TTL | no hold of {MOMENTS} is lost up to | of the TTL |");
    println!("|---|---|---:|---:|---:|");
    for silence in Silence::ALL {
        for (what, name) in [(What::Slot, "a slot"), (What::Lead, "the lead")] {
            for ttl in TTLS {
                let ttl = Duration::from_secs(ttl);
                let longest = longest(silence, what, ttl)?;
                let share = longest.as_secs_f64() / ttl.as_secs_f64();
                let longest = longest.as_secs_f64();
                println!("| {silence} | {name} | {ttl:?} | {longest:.2} s | {share:.3} |");
            }
        }
    }
    Ok(0)
}

/// The longest silence that costs nothing at any of the moments.
fn longest(silence: Silence, what: What, ttl: Duration) -> Result<Duration, Failure> {
    let mut least = STEPS;
    for moment in 0..MOMENTS {
        // What lasts at this moment too leaves the figure as it is.
        if is_kept((silence, what, ttl), moment, least)? {
            continue;
        }
        let (mut kept, mut lost) = (0, least);
        while lost - kept > 1 {
            let middle = kept.midpoint(lost);
            if is_kept((silence, what, ttl), moment, middle)? {
                kept = middle;
            } else {
                lost = middle;
            }
        }
        least = kept;
    }
    Ok(ttl * least / STEPS)
}

/// Whether a hold outlasts a silence of that many steps.
fn is_kept(
    (silence, what, ttl): (Silence, What, Duration),
    moment: u32,
    steps: u32,
) -> Result<bool, Failure> {
    let world = MockConsul::new(u64::from(moment));
    let client = world.client("a");
    let unable = |_| Failure::NotStruck("a world without a fault grants nothing");
    // The first renewals may still be those of a waiter.
    let before = ttl + ttl / 6 * moment / MOMENTS;
    let (time, after) = (ttl * steps / STEPS, ttl * 2);
    match what {
        What::Slot => {
            let builder = Semaphore::builder("silences", 1).ttl(ttl);
            let semaphore = builder.connect(client).map_err(unable)?;
            let permit = world.run(semaphore.acquire()).map_err(unable)?;
            world.advance(before);
            silence.pass(&world, time);
            world.advance(after);
            Ok(permit.is_held())
        }
        What::Lead => {
            let builder = Election::builder("silences").ttl(ttl);
            let election = builder.connect(client).map_err(unable)?;
            let leadership = world.run(election.campaign()).map_err(unable)?;
            world.advance(before);
            silence.pass(&world, time);
            world.advance(after);
            Ok(leadership.is_leader())
        }
    }
}
