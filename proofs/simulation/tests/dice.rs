//! What a seed may draw happens, and breaks nothing.

use std::collections::BTreeMap;

use simulation::plan::{Deed, Fate, Plan, Stranger, StrangerPlan};
use simulation::run;

/// Runs some of the worlds of this kind, and returns how often each fault happened.
fn faults_of(is_of_kind: impl Fn(&Plan) -> bool, most: usize) -> BTreeMap<&'static str, u64> {
    let plans = (0..2_000).map(|seed| (seed, Plan::draw(seed)));
    let plans = plans.filter(|(_, plan)| is_of_kind(plan)).take(most);
    let mut sum = BTreeMap::new();
    for (seed, plan) in plans {
        let outcome = run(&plan, false);
        assert_eq!(outcome.violation, None, "seed {seed}");
        for (name, count) in outcome.figures.faults {
            *sum.entry(name).or_default() += count;
        }
    }
    sum
}

#[test]
fn one_session_holds_at_several_prefixes_that_others_want() {
    let is_elsewhere = |plan: &Plan| plan.hosts.iter().any(|it| !it.also.is_empty());
    let faults = faults_of(is_elsewhere, 12);
    assert!(
        faults.contains_key("session that holds at several contested prefixes"),
        "{faults:?}"
    );
}

#[test]
fn tokens_are_deleted_for_a_while_and_lose_the_permission_to_write_sessions() {
    let is_revoked = |plan: &Plan| {
        let revokes = |deed: &Deed| matches!(deed, Deed::Revoke { .. });
        plan.deeds.iter().any(|(_, deed)| revokes(deed))
    };
    let faults = faults_of(is_revoked, 12);
    for name in ["token deleted", "token without session:write"] {
        assert!(faults.contains_key(name), "{name}: {faults:?}");
    }
}

#[test]
fn holders_are_evicted_limits_changed_and_slots_kept_while_things_go_wrong() {
    let is_managed = |plan: &Plan| {
        let evicts = |deed: &Deed| matches!(deed, Deed::Evict { .. } | Deed::Destroy { .. });
        let keeps = plan.hosts.iter().any(|it| it.keeps_lost.is_some());
        keeps || plan.deeds.iter().any(|(_, deed)| evicts(deed))
    };
    let faults = faults_of(is_managed, 30);
    for name in [
        "eviction: it left",
        "resize: done",
        "destruction: refused",
        "lost slot kept for a while",
    ] {
        assert!(faults.contains_key(name), "{name}: {faults:?}");
    }
}

#[test]
fn a_new_process_starts_before_the_old_one_has_ended() {
    let overlaps = |plan: &Plan| plan.hosts.iter().any(|it| !it.starts_at.is_zero());
    let faults = faults_of(overlaps, 12);
    let name = "old process ended beside its new one";
    assert!(faults.contains_key(name), "{faults:?}");
}

#[test]
fn commits_are_slow_and_strangers_of_all_dialects_come() {
    let is_one = |plan: &Plan| {
        let has_all = plan.strangers.iter().any(|it| it.dialect.is_some());
        let is_slow = |deed: &Deed| matches!(deed, Deed::SlowCommits { .. });
        has_all || plan.deeds.iter().any(|(_, deed)| is_slow(deed))
    };
    let faults = faults_of(is_one, 12);
    for name in [
        "write committed slowly",
        "stranger that does not understand the record",
    ] {
        assert!(faults.contains_key(name), "{name}: {faults:?}");
    }
}

#[test]
fn a_record_names_hundreds_of_holders() {
    let is_crowd = |it: &StrangerPlan| matches!(it.kind, Stranger::Crowd { .. });
    let faults = faults_of(|plan| plan.strangers.iter().any(is_crowd), 2);
    let name = "record with hundreds of holders";
    assert!(faults.contains_key(name), "{faults:?}");
}

#[test]
fn servers_limit_requests_for_longer_than_a_moment() {
    let limits = |deed: &Deed| matches!(deed, Deed::LimitRequests { .. });
    let faults = faults_of(|plan| plan.deeds.iter().any(|(_, it)| limits(it)), 6);
    for name in ["requests limited", "request over a limit"] {
        assert!(faults.contains_key(name), "{name}: {faults:?}");
    }
}

#[test]
fn servers_are_parted_and_hosts_stay_with_the_former_leader() {
    let parts = |deed: &Deed| {
        let Deed::LoseServer { fate, .. } = deed else {
            return false;
        };
        matches!(fate, Fate::Outvoted { .. })
    };
    let faults = faults_of(|plan| plan.deeds.iter().any(|(_, it)| parts(it)), 12);
    for name in ["servers parted", "answered by a former leader"] {
        assert!(faults.contains_key(name), "{name}: {faults:?}");
    }
}

#[test]
fn machines_are_suspended_and_clocks_jump() {
    let suspends = |deed: &Deed| matches!(deed, Deed::Suspend { .. });
    let faults = faults_of(|plan| plan.deeds.iter().any(|(_, it)| suspends(it)), 12);
    for name in ["suspended", "suspended, and the clock jumped"] {
        assert!(faults.contains_key(name), "{name}: {faults:?}");
    }
}

#[test]
fn servers_ask_for_longer_ttls_and_whoever_has_a_shorter_one_is_told_so() {
    let asks = |deed: &Deed| matches!(deed, Deed::RaiseLeastTtl { .. });
    let is_one =
        |plan: &Plan| plan.least_ttl.is_some() || plan.deeds.iter().any(|(_, deed)| asks(deed));
    let faults = faults_of(is_one, 12);
    for name in ["longer TTLs asked for", "guest refused for its short TTL"] {
        assert!(faults.contains_key(name), "{name}: {faults:?}");
    }
}

#[test]
fn a_busy_leader_is_late_for_renewals_and_for_strangers() {
    let is_busy = |deed: &Deed| matches!(deed, Deed::SlowCommits { renewals: true, .. });
    let faults = faults_of(|plan| plan.deeds.iter().any(|(_, it)| is_busy(it)), 12);
    for name in [
        "renewal answered slowly",
        "stranger's request committed slowly",
    ] {
        assert!(faults.contains_key(name), "{name}: {faults:?}");
    }
}

#[test]
fn leaders_are_asked_to_step_down_by_their_own_handle() {
    let is_one = |plan: &Plan| {
        let steps_down = |deed: &Deed| matches!(deed, Deed::StepDown { .. });
        plan.deeds.iter().any(|(_, deed)| steps_down(deed))
    };
    let faults = faults_of(is_one, 12);
    for name in ["asked to step down", "leader stepped down when asked"] {
        assert!(faults.contains_key(name), "{name}: {faults:?}");
    }
}
