//! Random runs of larger scenes: each must end at rest, without a violation.
use crate::action::{Class, Event};
use crate::explore::asleep;
use crate::initial::initial;
use crate::judge::at_rest;
use crate::scene::{Scene, Stuck};
use crate::state::{
    CALLERS, CANCEL, COPY, CRASH, DENY, EARLY, FAULTS, FORGET, FORMER, LOST, LOWER, PARTICIPANTS,
    Session, Stage, UNKEY, WIPE, Wish,
};
use crate::step::successors;
use crate::story::describe;
use std::fmt;

/// Xorshift: a walk can be repeated from its seed.
struct Random(u64);
impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 33) % n as u64) as usize
    }
    fn yes(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }
}

/// What happened in walks.
#[derive(Default, Debug)]
pub struct Counts {
    walks: u64,
    calm: u64,
    steps: u64,
    grants: u64,
    group_grants: u64,
    handovers: u64,
    prunes: u64,
    late: u64,
    faults: u64,
    /// Ended because no number of a session was left in the model.
    unnumbered: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} walks ({} calm), {} steps, {} grants ({} of them to groups), {} handover writes, {} prunes, {} faults, {} late writes \
             applied, {} ended for want of session numbers",
            self.walks,
            self.calm,
            self.steps,
            self.grants,
            self.group_grants,
            self.handovers,
            self.prunes,
            self.faults,
            self.late,
            self.unnumbered
        )
    }
}

/// How a walk ended.
#[derive(Debug)]
pub enum End {
    /// Everybody was served, and nothing is left.
    Rest,
    /// The model has no number for another session.
    Unnumbered,
    /// A promise was broken, or nothing moves any more.
    Bad(String),
}

fn random_scene(random: &mut Random, with_groups: bool) -> Scene {
    let groups = with_groups && random.yes(2);
    let foreign = !groups && random.yes(4);
    let calm = random.yes(3);
    let shared = random.yes(4);
    let mut budget = [0; FAULTS];
    budget[CANCEL] = random.below(3) as u8;
    if !calm {
        for (kind, most) in [
            (LOST, 4),
            (EARLY, 2),
            (CRASH, 1),
            (COPY, 1),
            (FORMER, 2),
            (FORGET, 1),
            (UNKEY, 1),
            (WIPE, 1),
            (DENY, 1),
        ] {
            budget[kind] = random.below(most + 1) as u8;
        }
    }
    let limit = if groups {
        2 + random.below(2)
    } else {
        1 + random.below(2)
    };
    if limit > 1 && random.yes(4) {
        budget[LOWER] = 1 + random.below(2) as u8;
    }
    if foreign {
        // Who prunes at once breaks S1 if sessions end early; so does one whose client thinks that its key is there.
        budget[EARLY] = 0;
        budget[FORMER] = 0;
        budget[UNKEY] = 0;
        budget[WIPE] = 0;
    }
    if shared {
        budget[DENY] = 0;
        budget[COPY] = 0;
    }
    let participants = 2 + random.below(2);
    let mut callers = [[1, 0]; PARTICIPANTS];
    for of_one in &mut callers {
        let size = |random: &mut Random| if groups && random.yes(2) { 2 } else { 1 };
        *of_one = [size(random), if random.yes(2) { size(random) } else { 0 }];
    }
    let stuck = match random.below(16) {
        0 if !calm && !foreign => Stuck::OtherProgram,
        1 if !calm && !foreign => Stuck::Ours,
        2 if !calm && groups => Stuck::OursOfGroup,
        _ => Stuck::Nobody,
    };
    let sessions = if participants == 2 {
        [(0, 5), (5, 9), (9, 9)]
    } else {
        [(0, 3), (3, 6), (6, 9)]
    };
    Scene {
        participants,
        limit,
        callers,
        turns: [
            1 + random.below(3) as u8,
            1 + random.below(3) as u8,
            1 + random.below(2) as u8,
        ],
        foreign_turns: if foreign {
            1 + random.below(2) as u8
        } else {
            0
        },
        stuck,
        budget,
        sessions,
        exact_tree: random.yes(2),
        poll_reads: random.yes(2),
        late_polls: random.yes(2),
        timers: !calm,
        stay: random.yes(2),
        keep: !random.yes(4),
        shared,
        ..Scene::base()
    }
}

/// One walk; `tell` prints its steps.
pub fn walk(seed: u64, with_groups: bool, tell: bool, counts: &mut Counts) -> (Scene, End) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    random.below(1);
    let scene = random_scene(&mut random, with_groups);
    let mut state = initial(&scene);
    let mut out = Vec::new();
    counts.walks += 1;
    counts.calm += u64::from(!scene.timers);
    if tell {
        println!("{}\n      {}", scene.name(), describe(&state, &scene));
    }
    for _ in 0..20_000 {
        if at_rest(&state, &scene)
            && state
                .participants
                .iter()
                .all(|p| !p.late[0].exists() && !p.late[1].exists())
        {
            return (scene, End::Rest);
        }
        successors(&state, &scene, &mut out);
        let unnumbered = (0..scene.participants).any(|q| {
            let (first, end) = scene.sessions[q];
            let wanted = scene.callers[q].iter().max().unwrap_or(&0);
            let left = (first..end)
                .filter(|s| {
                    state.sessions[*s] == Session::Unborn
                        || state.participants[q].spare >> s & 1 == 1
                })
                .count();
            state.participants[q]
                .callers
                .iter()
                .any(|c| c.wish == Wish::Waits)
                && left < *wanted
        });
        if !scene.timers && !unnumbered && asleep(&state, &scene, &out) {
            return (
                scene.clone(),
                End::Bad(format!("lost wakeup\n      {}", describe(&state, &scene))),
            );
        }
        out.retain(|(_, next)| *next != state);
        let of = |class: Class| {
            out.iter()
                .filter(|(a, _)| a.class() == class)
                .collect::<Vec<_>>()
        };
        let (normal, timers, faults) = (of(Class::Normal), of(Class::Timer), of(Class::Fault));
        let luck = random.below(100);
        let choice = if !faults.is_empty() && (luck < 12 || normal.is_empty() && timers.is_empty())
        {
            &faults
        } else if !timers.is_empty() && (luck < 25 || normal.is_empty()) {
            &timers
        } else if !normal.is_empty() {
            &normal
        } else if unnumbered {
            counts.unnumbered += 1;
            return (scene, End::Unnumbered);
        } else {
            return (
                scene.clone(),
                End::Bad(format!("stuck\n      {}", describe(&state, &scene))),
            );
        };
        let (action, next) = choice[random.below(choice.len())];
        counts.steps += 1;
        counts.faults += u64::from(action.class() == Class::Fault);
        counts.late += u64::from(action.event == Event::ComesLate);
        if action.event == Event::Answers {
            let p = &state.participants[action.who as usize];
            let applied = p.write.stage == Stage::Applied;
            counts.prunes += u64::from(applied && p.write.prune != 0);
            counts.handovers += u64::from(applied && p.write.hands_over());
            for k in 0..CALLERS {
                let granted = p.callers[k].wish == Wish::Waits
                    && next.participants[action.who as usize].callers[k].wish == Wish::Holds;
                counts.grants += u64::from(granted);
                counts.group_grants +=
                    u64::from(granted && scene.callers[action.who as usize][k] == 2);
            }
        }
        state = *next;
        if tell {
            println!("     {}\n      {}", action.text(), describe(&state, &scene));
        }
        if let Some(violation) = state.violation {
            return (scene, End::Bad(format!("{violation:?}")));
        }
    }
    (
        scene.clone(),
        End::Bad(format!("too long\n      {}", describe(&state, &scene))),
    )
}
