//! A run of the simulator is repeatable, ends, and breaks no promise.

use std::collections::BTreeMap;
use std::time::Duration;

use semaphore_core::sans_io::Dialect;
use simulation::branches::{BRANCHES, Of, Taken, missed};
use simulation::check::Invariant;
use simulation::plan::{
    Deed, End, Fate, HostPlan, How, Pieces, Place, Plan, ReadOnly, Stranger, StrangerPlan, Turn,
    UserPlan,
};
use simulation::{Figures, run, shrink};
use transport_mock::consul::Profile;

#[test]
fn forty_seeds_violate_nothing() {
    let mut sum = Figures::default();
    for seed in 0..40 {
        let outcome = run(&Plan::draw(seed), false);
        assert_eq!(outcome.violation, None, "seed {seed}");
        sum.add(&outcome.figures);
    }
    assert!(sum.grants > 150, "{sum}");
    assert!(sum.faults.len() > 20, "most kinds of faults occur: {sum}");
    assert!(sum.losses.len() > 2, "some of it costs slots: {sum}");
    assert!(sum.grants_to_strangers > 0, "{sum}");
    assert!(sum.elected > 50 && sum.grants - sum.elected > 50, "{sum}");
    assert!(sum.values_set > 25, "{sum}");
    assert!(sum.consuls.len() > 4, "most releases of Consul: {sum}");
    // Most of the rare branches must be taken, too. A thousand seeds must take all of them.
    assert!(missed(&sum.branches, Of::Both).len() < 9, "{sum}");
}

/// Requests of the core need permissions for keys, sessions and, for a separate node, nodes; none
/// for agents.
#[test]
fn guests_and_hosts_lack_each_permission_to_write_and_that_to_read_sessions() {
    let (mut of_guests, mut of_hosts) = (Vec::new(), Vec::new());
    for seed in 0..1_000 {
        let plan = Plan::draw(seed);
        of_guests.extend(plan.guest);
        of_hosts.extend(plan.deeds.iter().filter_map(|(_, deed)| match deed {
            Deed::Narrow { what, .. } => Some(*what),
            _ => None,
        }));
    }
    for what in [
        ReadOnly::Record,
        ReadOnly::Contenders,
        ReadOnly::Keys,
        ReadOnly::Sessions,
        ReadOnly::NoSessions,
    ] {
        assert!(of_guests.contains(&what), "no guest may {what}");
        assert!(of_hosts.contains(&what), "no host may {what}");
    }
}

/// The text says what each seed showed before the repair.
#[test]
fn seeds_that_have_violated_something_violate_nothing() {
    for (seed, showed) in [
        (120_498_597_787_832_047, "L4: a renewal counted too late"),
        (120_498_597_787_832_114, "L1: a poll was lost"),
        (904_236, "L1: a poll was lost"),
        (914_621, "L1: a poll was lost"),
        (924_174, "L1: a gateway talked a host out of transactions"),
        (770_007_543, "S1: a stranger ended its own later term"),
        (905_657, "S1: a stranger ended its own later term"),
        (880_000_003_065, "L4: a deletion was repeated late"),
        (
            502_574,
            "L3: a campaign went on with a session that could not lead again",
        ),
        (100_456, "L1: who resigned was not told"),
        (
            5_298,
            "S1: an answer that was asked for before a restoration counted as whole",
        ),
    ] {
        let outcome = run(&Plan::draw(seed), false);
        assert_eq!(outcome.violation, None, "seed {seed}, {showed}");
    }
}

#[test]
fn a_branch_that_was_never_taken_is_named_where_it_can_be_taken() {
    let mut taken: Taken = BRANCHES.iter().map(|(name, _)| (*name, 1)).collect();
    assert_eq!(missed(&taken, Of::Both), [""; 0]);
    taken.remove("holder-died");
    taken.insert("late-attempt", 0);
    taken.remove("index-reset");
    assert_eq!(
        missed(&taken, Of::Semaphores),
        ["holder-died", "index-reset"]
    );
    assert_eq!(
        missed(&taken, Of::Elections),
        ["index-reset", "late-attempt"]
    );
    assert_eq!(
        missed(&taken, Of::Both),
        ["holder-died", "index-reset", "late-attempt"]
    );
}

#[test]
fn a_seed_repeats_its_run_to_the_byte() {
    for seed in 0..4 {
        let plan = Plan::draw(seed);
        assert_eq!(plan, Plan::draw(seed));
        let (first, second) = (run(&plan, true), run(&plan, true));
        assert!(first.story.len() > 100, "seed {seed}");
        assert_eq!(first.story, second.story, "seed {seed}");
        assert_eq!(first.figures, second.figures, "seed {seed}");
        // Keeping the story changes nothing.
        assert_eq!(first.figures, run(&plan, false).figures, "seed {seed}");
    }
}

#[test]
fn a_plan_without_some_of_its_pieces_is_a_plan() {
    let plan = Plan::draw(31);
    let pieces = Pieces::of(&plan);
    assert_eq!(pieces.without(&[]), plan);
    let nothing = pieces.without(pieces.all());
    assert!(nothing.hosts.is_empty() && nothing.deeds.is_empty());
    assert_eq!(run(&nothing, false).violation, None);
    for piece in pieces.all() {
        let fewer = pieces.without(&[*piece]);
        let left = Pieces::of(&fewer).all().len();
        assert!(left < pieces.all().len(), "{piece:?}");
    }
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A host with one user, which holds for half a minute.
fn host(number: usize, clock: f64) -> HostPlan {
    let turn = Turn {
        idle: secs(1),
        how: How::Acquire,
        permits: 1,
        hold: secs(30),
        changes: 0,
        end: End::Release,
    };
    HostPlan {
        number,
        starts_at: Duration::ZERO,
        prefix: 0,
        server: None,
        own_node: false,
        ttl: secs(10),
        lock_delay: None,
        clock,
        rolling: None,
        keeps_lost: None,
        follows: false,
        shared: None,
        client: false,
        own_polls: None,
        own: Vec::new(),
        own_elections: Vec::new(),
        also: Vec::new(),
        users: vec![UserPlan { turns: vec![turn] }],
        troubles: BTreeMap::new(),
    }
}

/// A world with many events, in which a clock runs at half the true rate. No lease survives that.
fn broken_clock() -> Plan {
    let other_deeds = [
        Deed::Kill {
            host: 1,
            down: secs(1),
        },
        Deed::Stall {
            host: 2,
            time: secs(2),
        },
        Deed::Snapshot,
        Deed::LoseLeader { time: secs(1) },
    ];
    let mut deeds: Vec<_> = (5..).map(secs).zip(other_deeds).collect();
    let cut = Deed::Partition {
        host: 0,
        time: secs(25),
    };
    deeds.push((secs(10), cut));
    Plan {
        seed: 1,
        limit: 2,
        ttl: secs(10),
        prefixes: vec![Place::Semaphore],
        latency: Duration::from_millis(2),
        lifetime: 1.0,
        lock_delay_length: 1.0,
        holding: None,
        profile: Profile::default(),
        access_control: None,
        guest: None,
        least_ttl: None,
        storm: secs(40),
        hosts: vec![host(0, 0.5), host(1, 1.0), host(2, 1.0)],
        strangers: Vec::new(),
        dialect: Dialect::Map,
        is_beside_others: false,
        deeds,
    }
}

#[test]
fn what_breaks_an_assumption_is_found_and_cut_down_to_what_it_takes() {
    let plan = broken_clock();
    let violation = run(&plan, false).violation.expect("a clock out of bounds");
    assert_eq!(violation.invariant, Invariant::S2);
    let shrunk = shrink(&plan, &violation, 500);
    assert_eq!(shrunk.violation.invariant, Invariant::S2);
    assert_eq!(shrunk.plan.hosts, [host(0, 0.5)]);
    assert_eq!(shrunk.plan.deeds.len(), 1, "{}", shrunk.plan);
    let story = run(&shrunk.plan, true).story;
    assert!(story.contains("node-0 is cut off for 25s"), "{story}");
    assert!(story.contains("ends by its TTL"), "{story}");
}

#[test]
fn a_plan_that_is_not_run_long_enough_is_still_the_one_that_failed() {
    let plan = broken_clock();
    let violation = run(&plan, false).violation.expect("a clock out of bounds");
    let shrunk = shrink(&plan, &violation, 0);
    assert_eq!((shrunk.plan, shrunk.runs), (plan, 0));
}

/// A stranger holds the only slot from just after 1 s until 4 s. A snapshot of that time is
/// restored after it has left. A user comes when it is quiet.
fn a_snapshot_restored(saved: Duration) -> Plan {
    let kind = Stranger::Go {
        turns: 1,
        hold: secs(3),
    };
    Plan {
        limit: 1,
        storm: secs(10),
        hosts: vec![HostPlan {
            users: vec![UserPlan { turns: Vec::new() }],
            ..host(0, 1.0)
        }],
        dialect: Dialect::Map,
        is_beside_others: false,
        strangers: vec![StrangerPlan {
            number: 0,
            prefix: 0,
            at: secs(1),
            kind,
            dialect: None,
        }],
        deeds: vec![(saved, Deed::Snapshot), (secs(6), Deed::Restore)],
        ..broken_clock()
    }
}

#[test]
fn the_dead_that_a_snapshot_brings_back_are_waited_for_and_no_others() {
    let round = |saved| {
        let outcome = run(&a_snapshot_restored(saved), true);
        assert_eq!(outcome.violation, None, "{}", outcome.story);
        let lines = outcome.story.lines();
        let bounds = lines.filter_map(|it| it.split_once(" users acquire within "));
        let bound = bounds.map(|(_, bound)| bound.strip_suffix('s')?.parse().ok());
        let bound: Option<f64> = bound.flatten().next();
        bound.expect("a round")
    };
    // Our sessions live for 10 s, a stranger's for 30 s. Its lock delay is 15 s on a clock that may
    // run slow.
    let (ours, strangers) = (round(Duration::from_millis(500)), round(secs(2)));
    assert!(ours > 25.0 && ours < 60.0, "{ours}");
    let longer = strangers - ours;
    assert!((longer - 20.0).abs() < 0.001, "{longer}");
}

#[test]
fn what_somebody_does_when_going_on_after_a_pause_is_judged_at_that_time() {
    // Long enough for the end of the lease, and over long before anything else is due.
    let pause = Deed::Pause {
        host: 0,
        time: secs(9),
    };
    let plan = Plan {
        seed: 1,
        limit: 1,
        ttl: secs(10),
        prefixes: vec![Place::Semaphore],
        latency: Duration::from_millis(1),
        lifetime: 2.0,
        lock_delay_length: 1.0,
        holding: None,
        profile: Profile::default(),
        access_control: None,
        guest: None,
        least_ttl: None,
        storm: secs(40),
        hosts: vec![host(0, 1.0)],
        strangers: Vec::new(),
        dialect: Dialect::Map,
        is_beside_others: false,
        deeds: vec![(secs(2), pause)],
    };
    let outcome = run(&plan, true);
    let loss = "11.000000            · hold 1 of node-0";
    assert!(outcome.story.contains(loss), "{}", outcome.story);
    assert_eq!(outcome.violation, None);
}

/// An election whose leader is killed 5 s after it began. Another host campaigns and follows.
fn a_leader_killed(lock_delay: Duration) -> Plan {
    let mut plan = broken_clock();
    plan.prefixes = vec![Place::Election {
        lock_delay: Some(lock_delay),
    }];
    plan.hosts = vec![host(0, 1.0), host(1, 1.0)];
    plan.hosts[1].follows = true;
    plan.hosts[1].users[0].turns[0].idle = secs(2);
    plan.storm = secs(60);
    let kill = Deed::Kill {
        host: 0,
        down: secs(50),
    };
    plan.deeds = vec![(secs(5), kill)];
    plan
}

#[test]
fn who_follows_a_leader_that_was_killed_waits_for_its_session_and_the_lock_delay() {
    for (delay, from) in [(secs(0), 14), (secs(7), 21)] {
        let outcome = run(&a_leader_killed(delay), true);
        assert_eq!(outcome.violation, None, "{}", outcome.story);
        let mut lines = outcome.story.lines();
        let begins = lines
            .find(|it| it.contains("hold 2 of node-1"))
            .expect("led");
        let at: f64 = begins
            .split_whitespace()
            .next()
            .and_then(|at| at.parse().ok())
            .expect("a time");
        // The last renewal was sent between a third of the TTL before the kill and the kill.
        let from = f64::from(from);
        assert!((from - 1.0..from + 3.0).contains(&at), "{begins}");
        assert!(
            lines.any(|it| it.contains("node-1 sees")),
            "{}",
            outcome.story
        );
    }
}

/// A holder or leader is cut off with its server from 5 s on. The server is removed from the
/// catalog at 10 s. Another host wants the place.
fn a_server_lost(place: Place, ttl: Duration) -> Plan {
    let mut plan = broken_clock();
    plan.prefixes = vec![place];
    plan.limit = 1;
    plan.ttl = ttl;
    plan.hosts = vec![host(0, 1.0), host(1, 1.0)];
    for host in &mut plan.hosts {
        (host.ttl, host.server) = (ttl, Some(host.number));
    }
    plan.hosts[0].users[0].turns[0].hold = 2 * ttl;
    plan.hosts[1].users[0].turns[0].idle = secs(2);
    plan.storm = 4 * ttl;
    let lost = Deed::LoseServer {
        server: 0,
        fate: Fate::CutOff,
        time: 3 * ttl,
        reaped_after: secs(5),
        back_after: secs(1),
    };
    plan.deeds = vec![(secs(5), lost)];
    plan
}

#[test]
fn the_place_of_who_is_cut_off_with_a_lost_server_is_kept_until_the_lock_delay_is_over() {
    let election = Place::Election { lock_delay: None };
    for place in [Place::Semaphore, election] {
        for ttl in [15, 30, 60] {
            let outcome = run(&a_server_lost(place, secs(ttl)), true);
            assert_eq!(outcome.violation, None, "{}", outcome.story);
            let struck = outcome.figures.faults.keys();
            let struck = struck.filter(|it| it.ends_with("who was cut off"));
            assert_eq!(struck.count(), 1, "{}", outcome.figures);
            let mut lines = outcome.story.lines();
            let begins = lines.find(|it| it.contains("hold 2 of node-1"));
            let at = begins.and_then(|it| it.split_whitespace().next()?.parse::<f64>().ok());
            let at = at.expect("it has the place at last");
            let over = f64::from(u32::try_from(10 + ttl).expect("a small number"));
            // A waiter lists every five seconds, and the lock delay counts from its list by its clock.
            assert!((over..over + 7.0).contains(&at), "at {at}, TTL {ttl}");
        }
    }
}

#[test]
fn sessions_end_early_while_their_holders_and_leaders_are_cut_off_and_while_they_are_not() {
    let mut sum = Figures::default();
    for seed in 0..240 {
        let plan = Plan::draw(seed);
        if plan.hosts.iter().any(|it| it.server.is_some()) {
            sum.add(&run(&plan, false).figures);
        }
    }
    for whose in ["holder", "leader"] {
        for (fate, least) in [("cut off", 8), ("told", 1)] {
            let name = format!("session of a {whose} ended, who was {fate}");
            let struck = sum.faults.get(name.as_str()).copied().unwrap_or_default();
            assert!(struck >= least, "{name}: {struck}");
        }
    }
}

#[test]
fn an_election_without_some_of_its_pieces_is_an_election() {
    // One with few pieces, since each is left out in turn.
    let drawn = (0..100)
        .map(Plan::draw)
        .filter(|plan| plan.has_election() && !plan.strangers.is_empty())
        .min_by_key(|plan| Pieces::of(plan).all().len());
    let plan = drawn.expect("one of them");
    let pieces = Pieces::of(&plan);
    for piece in pieces.all() {
        let fewer = pieces.without(&[*piece]);
        assert_eq!(fewer.prefixes, plan.prefixes);
        assert_eq!(run(&fewer, false).violation, None, "without {piece:?}");
    }
}

#[test]
fn no_agent_of_an_old_cluster_answers_in_the_new_one() {
    let lag = Deed::Lag {
        host: 0,
        time: secs(20),
    };
    let mut plan = broken_clock();
    plan.hosts = vec![host(0, 1.0)];
    plan.deeds = vec![(secs(2), lag), (secs(5), Deed::ResetIndex)];
    let outcome = run(&plan, true);
    let caught_up = "5.000000 node-0 reads from an agent that has caught up";
    assert!(outcome.story.contains(caught_up), "{}", outcome.story);
    assert_eq!(outcome.violation, None);
}
