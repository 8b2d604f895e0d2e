//! Draws a plan from a seed. Most plans are small; some have more of everything.

mod claims;
mod clients;
mod commits;
mod deeds;
mod deploy;
mod dialects;
mod election;
mod elsewhere;
mod gateway;
mod holding;
mod hundreds;
mod limits;
mod managed;
mod many;
mod outvoted;
mod own_node;
mod permissions;
mod profile;
mod revoked;
mod rolling;
mod server;
mod sharing;
mod short_ttl;
mod slow;
mod step_down;
mod suspended;

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use semaphore_core::sans_io::{Dialect, Response};
use transport_mock::Fault;
use transport_mock::consul::Profile;

use super::{
    Deed, End, FASTEST_CLOCK, HostPlan, How, Place, Plan, SLOWEST_CLOCK, Sort, StrangerPlan, Told,
    Trouble, Turn, UserPlan,
};

impl Plan {
    /// The plan of this seed.
    pub fn draw(seed: u64) -> Self {
        Self::draw_with(seed, None)
    }

    /// The plan of this seed, in which hosts have this many separate semaphores.
    pub fn draw_with_semaphores(seed: u64, semaphores: usize) -> Self {
        Self::draw_with(seed, Some(semaphores))
    }

    fn draw_with(seed: u64, semaphores: Option<usize>) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut plan = Draft::new(&mut rng).plan(seed, &mut rng);
        election::draw_elections(&mut plan, &mut Rng::with_seed(seed ^ ELECTIONS));
        server::draw_servers(&mut plan, &mut Rng::with_seed(seed ^ SERVERS));
        claims::draw_abandoned_claims(&mut plan, &mut Rng::with_seed(seed ^ CLAIMS));
        let rng = &mut mixed(seed ^ SHARING);
        sharing::draw_sharing(&mut plan, rng, semaphores);
        gateway::draw_gateways(&mut plan, &mut mixed(seed ^ GATEWAYS));
        slow::draw_slow(&mut plan, &mut mixed(seed ^ SLOW));
        own_node::draw_own_nodes(&mut plan, &mut mixed(seed ^ OWN_NODES));
        holding::draw_holding(&mut plan, &mut mixed(seed ^ HOLDING));
        profile::draw_profile(&mut plan, &mut mixed(seed ^ PROFILES));
        clients::draw_clients(&mut plan, &mut mixed(seed ^ CLIENTS));
        clients::draw_own_elections(&mut plan, &mut mixed(seed ^ OWN_ELECTIONS));
        rolling::draw_rolling(&mut plan, &mut mixed(seed ^ ROLLING));
        many::draw_many(&mut plan, &mut mixed(seed ^ MANY));
        permissions::draw_permissions(&mut plan, &mut mixed(seed ^ PERMISSIONS));
        revoked::draw_revoked(&mut plan, &mut mixed(seed ^ REVOKED));
        elsewhere::draw_elsewhere(&mut plan, &mut mixed(seed ^ ELSEWHERE));
        deploy::draw_deploy(&mut plan, &mut mixed(seed ^ DEPLOY));
        managed::draw_managed(&mut plan, &mut mixed(seed ^ MANAGED));
        commits::draw_slow_commits(&mut plan, &mut mixed(seed ^ COMMITS));
        dialects::draw_dialects(&mut plan, &mut mixed(seed ^ DIALECTS));
        hundreds::draw_hundreds(&mut plan, &mut mixed(seed ^ HUNDREDS));
        limits::draw_limits(&mut plan, &mut mixed(seed ^ LIMITS));
        outvoted::draw_outvoted(&mut plan, &mut mixed(seed ^ OUTVOTED));
        suspended::draw_suspended(&mut plan, &mut mixed(seed ^ SUSPENDED));
        step_down::draw_step_down(&mut plan, &mut mixed(seed ^ STEP_DOWN));
        short_ttl::draw_short_ttl(&mut plan, &mut mixed(seed ^ SHORT_TTL));
        // One in four. The rest of the plan does not change.
        plan.is_beside_others = mixed(seed ^ OTHERS).u32(..4) == 0;
        plan
    }
}

/// Neighbouring seeds have similar first random numbers. For rare features that is not good enough:
/// two thousand seeds may have none.
fn mixed(seed: u64) -> Rng {
    Rng::with_seed(Rng::with_seed(seed).u64(..))
}

/// Separates the random choices about servers from the rest.
const SERVERS: u64 = 0x0073_6572_7665_7273;

/// Separates the random choices about abandoned claims from the rest.
const CLAIMS: u64 = 0x0063_6c61_696d_7321;

/// Separates the random choices about shared connections from the rest.
const SHARING: u64 = 0x0073_6861_7269_6e67;

/// Separates the random choices about slow worlds from the rest.
const SLOW: u64 = 0x0073_6c6f_7721_2121;

/// Separates the random choices about gateways from the rest.
const GATEWAYS: u64 = 0x6761_7465_7761_7973;

/// Separates the random choices about separate nodes from the rest.
const OWN_NODES: u64 = 0x006f_776e_6e6f_6465;

/// Separates the random choices about agents that hold requests from the rest.
const HOLDING: u64 = 0x0068_6f6c_6469_6e67;

/// Separates the random choices about releases of Consul from the rest.
const PROFILES: u64 = 0x7072_6f66_696c_6573;

/// Separates the random choices about permissions to write from the rest.
const PERMISSIONS: u64 = 0x0077_7269_7465_7321;

/// Separates the random choices about clients from the rest.
const CLIENTS: u64 = 0x0063_6c69_656e_7473;

/// Separates the random choices about a client's elections from the rest.
const OWN_ELECTIONS: u64 = 0x0073_6861_7264_7321;

/// Separates the random choices about rolling deploys from the rest.
const ROLLING: u64 = 0x0072_6f6c_6c69_6e67;

/// Separates the random choices about many slots of one user from the rest.
const MANY: u64 = 0x006d_616e_7921_2121;

/// Separates the random choices about tokens that are deleted from the rest.
const REVOKED: u64 = 0x0072_6576_6f6b_6564;

/// Separates the random choices about further contested prefixes from the rest.
const ELSEWHERE: u64 = 0x656c_7365_7768_6572;

/// Separates the random choices about processes that overlap from the rest.
const DEPLOY: u64 = 0x0064_6570_6c6f_7921;

/// Separates the random choices about operations with this library from the rest.
const MANAGED: u64 = 0x006d_616e_6167_6564;

/// Separates the random choices about slow commits from the rest.
const COMMITS: u64 = 0x0063_6f6d_6d69_7473;

/// Separates the random choices about strangers of all dialects from the rest.
const DIALECTS: u64 = 0x6469_616c_6563_7473;

/// Separates the random choices about hundreds of holders from the rest.
const HUNDREDS: u64 = 0x6875_6e64_7265_6473;

/// Separates the random choices about limits of requests from the rest.
const LIMITS: u64 = 0x006c_696d_6974_7321;

/// Separates the random choices about servers that are parted from the rest.
const OUTVOTED: u64 = 0x6f75_7476_6f74_6564;

/// Separates the random choices about machines that are suspended from the rest.
const SUSPENDED: u64 = 0x7375_7370_656e_6465;

/// Separates the random choices about leaders who step down from the rest.
const STEP_DOWN: u64 = 0x7374_6570_646f_776e;

/// Separates the random choices about TTLs that are too short from the rest.
const SHORT_TTL: u64 = 0x0073_686f_7274_7474;

/// Separates the random choices about others' keys from the rest.
const OTHERS: u64 = 0x006f_7468_6572_7321;

/// Separates the random choices about elections from the rest.
const ELECTIONS: u64 = 0x656c_6563_7469_6f6e;

/// The first decisions, which the rest depends on.
struct Draft {
    is_large: bool,
    theme: Theme,
    limit: u32,
    ttl: Duration,
    prefixes: usize,
    hosts: usize,
    storm: Duration,
    /// The most requests of a host that meet trouble.
    troubles: u64,
    longest_delay: Duration,
}

/// What goes wrong besides the network. A little of everything would rarely show one thing well.
#[derive(Clone, Copy, PartialEq)]
enum Theme {
    /// Nothing else.
    Network,
    /// Hosts and the cluster fail.
    Failures,
    /// An operator takes things away.
    Operator,
    /// Tokens lose permissions.
    Access,
    /// All of it.
    Everything,
}

impl Draft {
    fn new(rng: &mut Rng) -> Self {
        let is_large = rng.u32(..32) == 0;
        let theme = match rng.u32(..16) {
            0..2 => Theme::Network,
            2..8 => Theme::Failures,
            8..11 => Theme::Operator,
            11..14 => Theme::Access,
            _ => Theme::Everything,
        };
        let prefixes = if rng.u32(..8) == 0 { 2 } else { 1 };
        Self {
            is_large,
            theme,
            limit: pick(rng, &[1, 1, 1, 2, 2, 3]),
            ttl: secs(pick(rng, &[10, 10, 10, 12, 15, 20])),
            prefixes,
            hosts: if is_large {
                rng.usize(4..=8)
            } else {
                rng.usize(1..=3)
            },
            storm: secs(rng.u64(10..=if is_large { 90 } else { 40 })),
            troubles: pick(rng, &[0, 2, 4, 8, 16, 32]),
            longest_delay: millis(pick(rng, &[20, 200, 1_500, 3_000, 12_000])),
        }
    }

    fn plan(self, seed: u64, rng: &mut Rng) -> Plan {
        let server_clock = clock(rng);
        let hosts = (0..self.hosts).map(|number| self.host(rng, number));
        let hosts: Vec<_> = hosts.collect();
        let strangers = self.strangers(rng);
        let mut deeds = self.deeds(rng);
        deeds.sort_by_key(|(at, _)| *at);
        let access_control = match self.theme {
            Theme::Access => true,
            Theme::Everything => rng.bool(),
            _ => false,
        };
        Plan {
            seed,
            limit: self.limit,
            ttl: self.ttl,
            prefixes: vec![Place::Semaphore; self.prefixes],
            latency: millis(pick(rng, &[0, 1, 2, 5, 50])),
            lifetime: pick(rng, &[1.0, 1.0, 1.2, 1.5, 2.0]) / server_clock,
            lock_delay_length: 1.0 / server_clock,
            access_control: access_control.then(|| pick(rng, &[Told::InHeader, Told::NotAtAll])),
            guest: None,
            least_ttl: None,
            holding: None,
            profile: Profile::default(),
            storm: self.storm,
            hosts,
            dialect: dialect(rng, &strangers),
            strangers,
            is_beside_others: false,
            deeds,
        }
    }

    fn host(&self, rng: &mut Rng, number: usize) -> HostPlan {
        let users = if self.is_large {
            rng.usize(1..=6)
        } else {
            rng.usize(1..=2)
        };
        let mut users: Vec<_> = (0..users).map(|_| self.user(rng)).collect();
        let most = if self.is_large {
            self.troubles * 2
        } else {
            self.troubles
        };
        let mut troubles = BTreeMap::new();
        for _ in 0..rng.u64(0..=most) {
            let sorts = [
                (Sort::Any, 100),
                (Sort::Record, 8),
                (Sort::Record, 4),
                (Sort::Key, 6),
                (Sort::Session, 6),
                (Sort::Renewal, 10),
                (Sort::Read, 30),
                (Sort::Read, 6),
            ];
            let (sort, range) = pick(rng, &sorts);
            troubles.insert((sort, rng.u64(1..=range)), self.trouble(rng, number));
        }
        if self.theme != Theme::Network && rng.u32(..4) == 0 {
            self.slow_then_silent(rng, number, &mut troubles);
        }
        if rng.u32(..8) == 0 {
            self.late_claim(rng, &mut users, &mut troubles);
        }
        HostPlan {
            number,
            starts_at: Duration::ZERO,
            prefix: rng.usize(..self.prefixes),
            server: None,
            own_node: false,
            ttl: self.ttl,
            lock_delay: None,
            clock: clock(rng),
            rolling: None,
            keeps_lost: None,
            follows: false,
            shared: None,
            client: false,
            own_polls: None,
            own: Vec::new(),
            own_elections: Vec::new(),
            users,
            also: Vec::new(),
            troubles,
        }
    }

    /// A network that fails slowly: the answer to one renewal is late, and the next one gets none.
    fn slow_then_silent(
        &self,
        rng: &mut Rng,
        host: usize,
        troubles: &mut BTreeMap<(Sort, u64), Trouble>,
    ) {
        let renewal = rng.u64(1..=3);
        let late = Fault::DelayAnswer(self.ttl.mul_f64(0.05 + 0.14 * rng.f64()));
        troubles.insert((Sort::Renewal, renewal), Trouble::Fault(late));
        let time = self.ttl.mul_f64(1.0 + rng.f64());
        let silence = if rng.bool() {
            Deed::Partition { host, time }
        } else {
            Deed::AgentDown { host, time }
        };
        let silence = Trouble::Deed(Duration::ZERO, silence);
        troubles.insert((Sort::Renewal, renewal + 1), silence);
    }

    /// A claim that arrives long after its caller has given up.
    fn late_claim(
        &self,
        rng: &mut Rng,
        users: &mut [UserPlan],
        troubles: &mut BTreeMap<(Sort, u64), Trouble>,
    ) {
        let late = Fault::Delay(self.ttl.mul_f64(0.25 + 0.75 * rng.f64()));
        troubles.insert((Sort::Record, rng.u64(1..=2)), Trouble::Fault(late));
        let first = users.first_mut().and_then(|user| user.turns.first_mut());
        if let Some(turn) = first {
            turn.how = How::CancelAfter(millis(rng.u64(50..2_000)));
        }
    }

    fn user(&self, rng: &mut Rng) -> UserPlan {
        let turns = rng.usize(1..=if self.is_large { 8 } else { 4 });
        UserPlan {
            turns: (0..turns).map(|_| self.turn(rng)).collect(),
        }
    }

    fn turn(&self, rng: &mut Rng) -> Turn {
        let time = millis(rng.u64(..8_000));
        let how = match rng.u32(..8) {
            0 => How::Try,
            1 | 2 => How::Within(time),
            3 => How::CancelAfter(time),
            _ => How::Acquire,
        };
        let permits = if rng.u32(..3) == 0 {
            rng.u32(1..=self.limit)
        } else {
            1
        };
        let longest = pick(rng, &[50, 500, 5_000, 40_000]);
        let longest_idle = pick(rng, &[5, 500, 5_000]);
        let end = match rng.u32(..3) {
            0 => End::Drop,
            1 => End::Abandon(millis(rng.u64(..50))),
            _ => End::Release,
        };
        Turn {
            idle: millis(rng.u64(..longest_idle)),
            how,
            permits,
            hold: millis(rng.u64(..longest)),
            changes: 0,
            end,
        }
    }

    fn trouble(&self, rng: &mut Rng, host: usize) -> Trouble {
        let delay = self.longest_delay.mul_f64(rng.f64());
        let fault = match rng.u32(..17) {
            0 => Fault::Refuse,
            1 => Fault::LoseRequest,
            2 | 3 => Fault::LoseAnswer,
            4 => Fault::ResetBefore,
            5 => Fault::ResetAfter,
            6 | 7 => Fault::Delay(delay),
            8 => Fault::DelayAnswer(delay),
            9 => Fault::Duplicate(delay),
            10 => Fault::too_many_requests(),
            11 => Fault::no_leader(),
            12 => Fault::unavailable(),
            13 => Fault::AnswerAfter(Response::new(504, "Gateway Timeout")),
            14 => Fault::BadAnswer,
            15 => Fault::Index(rng.u64(..200)),
            _ if self.theme == Theme::Network => Fault::LoseAnswer,
            _ => {
                let after = millis(rng.u64(..20));
                return Trouble::Deed(after, self.failure(rng, host));
            }
        };
        Trouble::Fault(fault)
    }
}

fn dialect(rng: &mut Rng, strangers: &[StrangerPlan]) -> Dialect {
    if strangers.is_empty() {
        return Dialect::Map;
    }
    let all = [Dialect::Map, Dialect::Array, Dialect::LowerCaseArray];
    pick(rng, &all)
}

/// The extremes are the critical cases.
fn clock(rng: &mut Rng) -> f64 {
    match rng.u32(..4) {
        0 => SLOWEST_CLOCK,
        1 => FASTEST_CLOCK,
        2 => 1.0,
        _ => SLOWEST_CLOCK + (FASTEST_CLOCK - SLOWEST_CLOCK) * rng.f64(),
    }
}

fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.usize(..of.len())]
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
