//! Agents hold requests while there is no leader, for as long as their release does.

use std::time::Duration;

use crate::support::{SECOND, get, put, put_new, status, stored};
use semaphore_core::adapter::Transport;
use transport_mock::MockConsul;
use transport_mock::consul::{Profile, Version};

/// This is longer than a message takes there and back.
const WAY: Duration = Duration::from_millis(10);

/// A world without a leader, whose agents hold requests as this release does.
fn leaderless(version: Version) -> MockConsul {
    let world = MockConsul::with_profile(1, version);
    world.hold_without_leader_as_agents_do();
    world.lose_leader();
    world
}

#[test]
fn a_request_is_refused_when_no_leader_came_in_the_time_of_the_release() {
    for version in Version::ALL {
        let world = leaderless(version);
        let client = world.client("a");
        let (wait, _) = Profile::from(version).without_leader();
        let write = put("key", "value").with_timeout(60 * SECOND);
        let began = world.now();
        let answer = world.run(client.send(write)).expect("an answer");
        let waited = world.now().saturating_since(began);
        assert_eq!(answer.status(), 500, "{version}");
        assert!(waited >= *wait.start(), "{version}: {waited:?}");
        assert!(waited <= *wait.end() + WAY, "{version}: {waited:?}");
        assert_eq!(world.held_without_leader(), (1, 0));
    }
}

#[test]
fn a_write_that_was_given_up_is_applied_after_a_read_that_has_not_shown_it() {
    for version in Version::ALL {
        let (_, late) = Profile::from(version).without_leader();
        let surprised = (0..100).any(|seed| {
            let world = MockConsul::with_profile(seed, version);
            world.hold_without_leader_as_agents_do();
            world.lose_leader();
            let client = world.client("a");
            let write = put_new("key", "value").with_timeout(SECOND);
            assert!(world.run(status(&client, write)).is_err(), "given up");
            world.elect_leader();
            let read = world.run(status(&client, get("key")));
            world.advance(late + WAY);
            assert_eq!(stored(&world, "key").as_deref(), Some("value"));
            assert_eq!(world.held_without_leader(), (1, 1));
            read == Ok(404)
        });
        assert!(surprised, "{version}: no read came first");
    }
}
