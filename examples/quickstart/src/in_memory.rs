//! The run on a Consul in memory and on virtual time. The seed decides everything, and minutes take
//! a moment. One host loses its network while its contender holds a slot.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use semaphore_core::Error;
use semaphore_core::adapter::Runtime as _;
use transport_mock::{MockClient, MockConsul};

use crate::contest::{Contest, holds};
use crate::failure::Failure;
use crate::flags::Flags;
use crate::say::say;
use crate::story::{Story, name};

const LONGEST_HOLD: Duration = Duration::from_secs(18);
/// The run in the README's picture.
const SEED: u64 = 1;
/// A longer hold outlasts a lease with the default TTL.
const LEASE: Duration = Duration::from_millis(13_500);

pub(crate) fn run(flags: &Flags) -> Result<(Story, Vec<Error>), Failure> {
    let seed = flags.seed.unwrap_or(SEED);
    say(format_args!(
        "{} contenders, {} slots, a Consul in memory, seed {seed}",
        flags.contenders, flags.limit
    ));
    let world = MockConsul::new(seed);
    let hosts: Vec<MockClient> = (0..flags.contenders as usize)
        .map(|number| world.client(name(number)))
        .collect();
    let story = Arc::new(Story::new(world.now(), flags.limit));
    let longest = flags.longest_hold.unwrap_or(LONGEST_HOLD);
    let contest = Contest {
        hosts,
        holds: holds(flags, longest, seed),
        story: Arc::clone(&story),
    };
    let errors = world.run(async {
        let contest_run = Box::pin(contest.run(flags));
        let cutting = Box::pin(cut_one_off(&world, &contest));
        match select(contest_run, cutting).await {
            Either::Left((ended, _)) => ended,
            Either::Right(((), contest_run)) => contest_run.await,
        }
    })?;
    drop(contest);
    Ok((story.told(), errors))
}

/// Cuts off the first contender that got its slot after others and whose work outlasts a lease.
async fn cut_one_off(world: &MockConsul, contest: &Contest<MockClient>) {
    let (Some(clock), story) = (contest.hosts.first(), &contest.story) else {
        return;
    };
    let cut_off = loop {
        clock.sleep(Duration::from_secs(1)).await;
        if let Some(number) = story.admitted_later_for(LEASE) {
            break number;
        }
    };
    story.cut_off(clock.now(), cut_off);
    world.partition(name(cut_off));
    while story.is_held_by(cut_off) {
        clock.sleep(Duration::from_millis(100)).await;
    }
    world.heal(name(cut_off));
}
