//! The server of each host, and what happens to the servers.

use std::time::Duration;

use fastrand::Rng;

use super::{millis, pick, secs};
use crate::plan::{Deed, End, Fate, How, Plan, Sort, Trouble, Turn};

/// In some worlds, gives each host its own server and removes some servers. Mostly that happens
/// while somebody holds through the server and others wait. The rest of the plan does not change.
pub(super) fn draw_servers(plan: &mut Plan, rng: &mut Rng) {
    if rng.u32(..3) != 0 || plan.hosts.is_empty() {
        return;
    }
    let servers = rng.usize(1..=3);
    for host in &mut plan.hosts {
        host.server = Some(host.number % servers);
    }
    draw_sessions(plan, rng);
    let losses = pick(rng, &[1, 1, 1, 2]);
    for _ in 0..losses {
        draw_loss(plan, rng, servers);
    }
    plan.deeds.sort_by_key(|(at, _)| *at);
}

/// TTLs are longer than elsewhere, so belief lasts long after a server's end.
fn draw_sessions(plan: &mut Plan, rng: &mut Rng) {
    let ttl = secs(pick(rng, &[10, 10, 15, 15, 20, 30, 30, 60, 60, 90]));
    plan.ttl = ttl;
    let is_mixed = rng.u32(..4) == 0;
    let chooses = rng.u32(..8) == 0;
    for host in &mut plan.hosts {
        host.ttl = if is_mixed && rng.bool() {
            secs(10)
        } else {
            ttl
        };
        // One that is too short, or that of Go's client.
        let delays = [Duration::ZERO, secs(1), secs(15)];
        host.lock_delay = (chooses && rng.bool()).then(|| pick(rng, &delays));
    }
}

fn draw_loss(plan: &mut Plan, rng: &mut Rng, servers: usize) {
    let ttl = plan.ttl;
    let at = plan.hosts.len();
    let victim = rng.usize(..at);
    let server = plan.hosts[victim].server.unwrap_or_default() % servers;
    let deed = if rng.u32(..5) == 0 {
        Deed::Deregister {
            server,
            time: millis(rng.u64(..10_000)),
        }
    } else {
        // Autopilot takes some ten seconds.
        let reaped_after = match rng.u32(..3) {
            0 => millis(rng.u64(..2_000)),
            1 => ttl.mul_f64(rng.f64()),
            _ => millis(rng.u64(9_000..14_000)),
        };
        Deed::LoseServer {
            server,
            fate: pick(rng, &FATES),
            time: reaped_after + ttl.mul_f64(1.5 * rng.f64()),
            reaped_after,
            back_after: millis(pick(rng, &[0, 100, 3_000, 45_000])),
        }
    };
    if rng.u32(..4) == 0 {
        let when = plan.storm.mul_f64(rng.f64());
        plan.deeds.push((when, deed));
    } else {
        hold_and_lose(plan, rng, victim, deed);
    }
    // Long enough for others to get the place of the host that is cut off.
    plan.storm = plan.storm.max(ttl * 2 + secs(rng.u64(15..30)));
}

/// The victim holds for long when its server is lost, and others want its place.
fn hold_and_lose(plan: &mut Plan, rng: &mut Rng, victim: usize, deed: Deed) {
    let ttl = plan.ttl;
    let prefix = plan.hosts[victim].prefix;
    let turn = |idle, hold| Turn {
        idle,
        how: How::Acquire,
        permits: 1,
        hold,
        changes: 0,
        end: End::Release,
    };
    let long = ttl.mul_f64(1.0 + rng.f64());
    let first = plan.hosts[victim].users.first_mut();
    if let Some(user) = first {
        let place = rng.usize(..=user.turns.len().min(1));
        user.turns
            .insert(place, turn(millis(rng.u64(..2_000)), long));
    }
    // Belief is longest right after a renewal.
    let renewal = (Sort::Renewal, rng.u64(1..=2));
    let after = millis(pick(rng, &[0, 10, 100, 1_000]));
    let lost = Trouble::Deed(after, deed);
    plan.hosts[victim].troubles.insert(renewal, lost);
    for host in (0..plan.hosts.len()).filter(|it| *it != victim) {
        let host = &mut plan.hosts[host];
        if host.prefix != prefix {
            continue;
        }
        // A contender that comes late has never seen the holder alive.
        let idle = ttl.mul_f64(pick(rng, &[0.1, 0.3, 1.0, 1.5]) * rng.f64());
        let wanted = turn(idle, millis(rng.u64(100..5_000)));
        if let Some(user) = host.users.last_mut() {
            user.turns.insert(0, wanted);
        }
    }
}

const FATES: [Fate; 4] = [Fate::CutOff, Fate::Stalled, Fate::Paused, Fate::Remembers];
